use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use rewind_model::{McpServer, Rendering, Tool, ToolName, Toolset, Workflow};
use serde_json::Value;

use crate::{
    alias::Aliases, comment, doc::Doc, kinds::Kinds, learned, lower::Lowering, name, print::Printer,
    shape::Observations, ty::Type,
};

/// What the module exports besides its servers. A server of such a name would not be reachable.
const OWN: [&str; 4] = ["host", "sleep", "ToolError", "workflows"];
/// Types that the module's own declarations define or use.
const OWN_TYPES: [&str; 10] =
    ["Array", "ContentBlock", "Error", "McpResult", "OptionalTool", "Promise", "Record", "String", "Tool", "ToolError"];

/// May an MCP server be called `name` in a toolset? It has to be an identifier that can be exported
/// from `rewind:tools`, and none of the module's own exports.
pub fn is_export_name(name: &str) -> bool {
    name::is_binding(name) && !OWN.contains(&name)
}

/// The declaration file of the module `rewind:tools` for `toolset`. It compiles whatever
/// the schemas say, and its bytes are a function of the toolset alone.
///
/// It wants `lib: ["ES2023"]` and nothing else; [`crate::ENVIRONMENT`] has the globals of scripts.
pub fn render(toolset: &Toolset, rendering: Rendering) -> String {
    render_with(toolset, &Observations::default(), rendering)
}

/// As [`render`], with the result types that were learned from results, each marked `@observed`. The
/// compact rendering has them at its end, so that what they change leaves all before them as it was.
pub fn render_with(toolset: &Toolset, observations: &Observations, rendering: Rendering) -> String {
    let full = rendering == Rendering::Full;
    let none = Observations::default();
    let mut aliases = Aliases::new(&OWN_TYPES);
    let mut exports: Vec<Export<'_>> = toolset
        .mcp_servers
        .iter()
        .filter(|(name, _)| !OWN.contains(&name.as_str()))
        .map(|(name, server)| Export::of_server(name, server, &mut aliases, full))
        .collect();
    exports.push(Export::of_tools(Toolset::HOST, None, &toolset.host_tools, &mut aliases, full));
    if !toolset.workflows.is_empty() {
        exports.push(Export::of_workflows(&toolset.workflows, &mut aliases, full));
    }
    if full {
        exports.iter_mut().for_each(|export| export.learn(observations));
    }
    let tools = exports.iter_mut().flat_map(|export| &mut export.tools);
    aliases.settle(tools.flat_map(|tool| [&mut tool.arguments].into_iter().chain(&mut tool.result)));
    let printer = Printer { aliases: &aliases, one_line: !full, out: String::new() };
    let learned = if full { &none } else { observations };
    module(printer, &exports, toolset, learned, full)
}

/// One tool as the compact rendering has it: the types that it uses, a line each, then
/// `export.name: Tool<…>; // what it does`. `None` when the toolset has no such tool.
pub fn signature(toolset: &Toolset, name: &ToolName) -> Option<String> {
    let (_, tool) = toolset.tool(name)?;
    let mut aliases = Aliases::new(&OWN_TYPES);
    let mut signature = Signature::of_tool(&name.name, tool, &mut aliases, false);
    aliases.settle([&mut signature.arguments].into_iter().chain(&mut signature.result));
    let mut printer = Printer { aliases: &aliases, one_line: true, out: String::new() };
    for alias in aliases.iter() {
        write!(printer.out, "type {} = ", alias.name).expect("a String takes every write");
        printer.value(&alias.value, 0);
        printer.out.push_str(";\n");
    }
    let own_name = name::member(&name.name);
    let place = if own_name.starts_with('"') { format!("[{own_name}]") } else { format!(".{own_name}") };
    let place = format!("{}{place}", name.export);
    signature.print_at(&mut printer, &place);
    Some(printer.out)
}

fn module<'a>(
    mut printer: Printer<'_, 'a>,
    exports: &[Export<'a>],
    toolset: &Toolset,
    learned: &'a Observations,
    full: bool,
) -> String {
    let prelude = if full { include_str!("prelude.full.d.ts") } else { include_str!("prelude.compact.d.ts") };
    if !full {
        printer.out.push_str("// Without a second type argument the result is any: no output schema, none observed.\n");
    }
    printer.out.push_str("declare module \"rewind:tools\" {\n");
    printer.out.push_str(prelude);
    for alias in printer.aliases.iter() {
        if full {
            printer.out.push('\n');
        }
        printer.doc(&alias.doc, 2);
        let export = if full { "export " } else { "" };
        write!(printer.out, "  {export}type {} = ", alias.name).expect("a String takes every write");
        printer.value(&alias.value, 2);
        printer.out.push_str(";\n");
    }
    for (number, export) in exports.iter().enumerate() {
        if full {
            printer.out.push('\n');
        }
        export.print(&mut printer, number, toolset);
    }
    if !learned.tools.is_empty() {
        printer.out.push_str("  /** What results looked like so far; no promise. */\n  interface Observed {\n");
        for (tool, observed) in &learned.tools {
            write!(printer.out, "    {}: ", name::string(tool)).expect("a String takes every write");
            printer.value(&learned::of(&observed.shape), 4);
            writeln!(printer.out, "; // @observed {}", results(observed.results)).expect("a String takes every write");
        }
        printer.out.push_str("  }\n");
    }
    printer.out.push_str("}\n");
    printer.out
}

fn results(count: u64) -> String {
    if count == 1 { "1 result".to_owned() } else { format!("{count} results") }
}

/// One export of the module: a server, or the host.
#[derive(Debug)]
struct Export<'a> {
    name: &'a str,
    about: Option<&'a str>,
    tools: Vec<Signature<'a>>,
}

#[derive(Debug)]
struct Signature<'a> {
    name: &'a str,
    description: &'a str,
    /// A tool has `raw`, a workflow has not.
    is_tool: bool,
    /// Results from which `result` was learned.
    observed: Option<u64>,
    arguments: Type<'a>,
    result: Option<Type<'a>>,
}

impl<'a> Export<'a> {
    fn of_server(name: &'a str, server: &'a McpServer, aliases: &mut Aliases<'a>, full: bool) -> Self {
        Self::of_tools(name, server.instructions.as_deref(), &server.tools, aliases, full)
    }

    fn of_tools(
        name: &'a str,
        about: Option<&'a str>,
        tools: &'a BTreeMap<String, Tool>,
        aliases: &mut Aliases<'a>,
        full: bool,
    ) -> Self {
        let tools = tools.iter().map(|(name, tool)| Signature::of_tool(name, tool, aliases, full)).collect();
        Self { name, about, tools }
    }

    fn of_workflows(workflows: &'a BTreeMap<String, Workflow>, aliases: &mut Aliases<'a>, full: bool) -> Self {
        let tools = workflows
            .iter()
            .map(|(name, workflow)| {
                let mut lower = |schema: Option<&'a Value>, what: &str| {
                    let label = format!("{name}{what}");
                    schema.map(|schema| Lowering::new(schema, &label, aliases, full).run(Kinds::ALL))
                };
                let arguments = lower(workflow.input_schema.as_ref(), "Input").unwrap_or(Type::ANY_VALUE);
                let result = lower(workflow.output_schema.as_ref(), "Result");
                let description = workflow.description.as_deref().unwrap_or_default();
                Signature { name, description, is_tool: false, observed: None, arguments, result }
            })
            .collect();
        let about = "Each call is a run of its own; it resolves with that run's result.";
        Self { name: Toolset::WORKFLOWS, about: Some(about), tools }
    }

    /// Tools without an output schema get the type of the results that were seen.
    fn learn(&mut self, observations: &'a Observations) {
        for signature in self.tools.iter_mut().filter(|signature| signature.is_tool && signature.result.is_none()) {
            if let Some(observed) = observations.tools.get(&format!("{}.{}", self.name, signature.name)) {
                signature.result = Some(learned::of(&observed.shape));
                signature.observed = Some(observed.results);
            }
        }
    }

    fn print(&self, printer: &mut Printer<'_, 'a>, number: usize, toolset: &Toolset) {
        if let Some(about) = self.about.filter(|_| !printer.one_line) {
            printer.comment(&comment::lines(about), 2);
        }
        let exported = name::is_binding(self.name);
        let binding = if exported { Cow::from(self.name) } else { Cow::from(unused_name(number, toolset)) };
        let export = if exported { "export " } else { "" };
        write!(printer.out, "  {export}const {binding}: {{").expect("a String takes every write");
        for signature in &self.tools {
            printer.out.push('\n');
            signature.print(printer);
        }
        printer.out.push_str(if self.tools.is_empty() { "};\n" } else { "\n  };\n" });
        if !exported {
            // ECMAScript 2022: an export may have any name, an import gives it another.
            writeln!(printer.out, "  export {{ {binding} as {} }};", name::string(self.name))
                .expect("a String takes every write");
        }
    }
}

/// A name for the server that no other server has.
fn unused_name(number: usize, toolset: &Toolset) -> String {
    let mut name = format!("server{number}");
    while toolset.mcp_servers.contains_key(&name) {
        name.push('_');
    }
    name
}

impl<'a> Signature<'a> {
    fn of_tool(name: &'a str, tool: &'a Tool, aliases: &mut Aliases<'a>, docs: bool) -> Self {
        let label = format!("{name}Args");
        let arguments = Lowering::new(&tool.input_schema, &label, aliases, docs).run(Kinds::OBJECT);
        let result = tool.output_schema.as_ref().map(|schema| {
            let label = format!("{name}Result");
            Lowering::new(schema, &label, aliases, docs).run(Kinds::ALL)
        });
        let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        Self { name, description, is_tool: true, observed: None, arguments, result }
    }

    fn print(&self, printer: &mut Printer<'_, 'a>) {
        if !printer.one_line {
            let mut lines = Doc { description: self.description, tags: Vec::new() }.lines();
            match self.observed {
                Some(count) => lines.push(format!("@observed {}, which promise nothing", results(count))),
                None if self.result.is_none() && self.is_tool => {
                    lines.push("@observed 0 results: any, for there is no output schema".to_owned());
                }
                None => {}
            }
            printer.comment(&lines, 4);
        }
        printer.out.push_str("    ");
        self.print_at(printer, &name::member(self.name));
    }

    /// As the member `place`.
    fn print_at(&self, printer: &mut Printer<'_, 'a>, place: &str) {
        let optional = printer.aliases.accept_empty(&self.arguments);
        if self.is_tool {
            let interface = if optional { "OptionalTool" } else { "Tool" };
            write!(printer.out, "{place}: {interface}<").expect("a String takes every write");
            printer.value(&self.arguments, 4);
            if let Some(result) = &self.result {
                printer.out.push_str(", ");
                printer.value(result, 4);
            }
            printer.out.push_str(">;");
        } else {
            let mark = if optional { "?" } else { "" };
            write!(printer.out, "{place}: (input{mark}: ").expect("a String takes every write");
            printer.value(&self.arguments, 4);
            printer.out.push_str(") => Promise<");
            match &self.result {
                Some(result) => printer.value(result, 4),
                None => printer.out.push_str("any"),
            }
            printer.out.push_str(">;");
        }
        let sentence = comment::sentence(self.description);
        if printer.one_line && !sentence.is_empty() {
            write!(printer.out, " // {sentence}").expect("a String takes every write");
        }
    }
}
