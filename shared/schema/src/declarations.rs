use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use rewind_model::{McpServer, Rendering, Tool, Toolset, Workflow};

use crate::{
    alias::Aliases,
    comment, learned, name,
    print::Printer,
    shape::Observations,
    share,
    signature::{Signature, results},
};

/// What the module exports besides its servers. A server of such a name would not be reachable.
/// `Error` is what `ToolError` extends, and calls of `fetch` go by the name of `http`.
const OWN: [&str; 6] = ["Error", "host", "http", "sleep", "ToolError", "workflows"];
/// Types that the module's own declarations define or use.
pub(crate) const OWN_TYPES: [&str; 15] = [
    "Args",
    "Array",
    "ClosedTool",
    "ContentBlock",
    "Error",
    "Function",
    "McpResult",
    "Observed",
    "Open",
    "OptionalTool",
    "Promise",
    "Record",
    "String",
    "Tool",
    "ToolError",
];

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
    render_as(toolset, observations, rendering == Rendering::Full, false)
}

/// As the full rendering with what was observed, but a literal may only have the members that its schema names, unless the
/// schema says of others what they hold. What does not compile against these and does against
/// [`render`]'s is valid, and most likely a slip of the pen.
pub fn render_strict(toolset: &Toolset, observations: &Observations) -> String {
    render_as(toolset, observations, true, true)
}

fn render_as(toolset: &Toolset, observations: &Observations, full: bool, strict: bool) -> String {
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
        exports.iter_mut().for_each(|export| export.learn(observations, strict));
    }
    let tools = exports.iter_mut().flat_map(|export| &mut export.tools);
    aliases.settle(tools.flat_map(Signature::types));
    if !full {
        let tools = exports.iter_mut().flat_map(|export| &mut export.tools);
        let mut types: Vec<_> = tools.flat_map(Signature::types).collect();
        share::share(&mut aliases, &mut types);
        let tools = exports.iter_mut().flat_map(|export| &mut export.tools);
        let arguments = tools.map(|tool| {
            tool.leave_open();
            &mut tool.arguments
        });
        share::share_members(&mut aliases, &mut arguments.collect::<Vec<_>>());
    }
    let arguments = aliases.reached(exports.iter().flat_map(|export| &export.tools).map(|tool| &tool.arguments));
    let printer = Printer { aliases: &aliases, compact: !full, strict, argument: false, out: String::new() };
    let learned = if full { &none } else { observations };
    module(printer, &exports, &arguments, toolset, learned, full)
}

fn module<'a>(
    mut printer: Printer<'_, 'a>,
    exports: &[Export<'a>],
    arguments: &[bool],
    toolset: &Toolset,
    learned: &'a Observations,
    full: bool,
) -> String {
    let prelude = if full { include_str!("prelude.full.d.ts") } else { include_str!("prelude.compact.d.ts") };
    if !full {
        printer.out.push_str(
            "// Tool<A> takes A, further members allowed; ClosedTool<A> exactly A; no argument where all of A is optional. R absent: the result's shape is unknown.\n",
        );
    }
    printer.out.push_str("declare module \"rewind:tools\" {\n");
    printer.out.push_str(prelude);
    for (alias, argument) in printer.aliases.iter().zip(arguments) {
        printer.argument = *argument;
        if full {
            printer.out.push('\n');
        }
        printer.doc(&alias.doc, 2);
        if full {
            write!(printer.out, "  export type {} = ", alias.name).expect("a String takes every write");
        } else {
            write!(printer.out, "type {}=", alias.name).expect("a String takes every write");
        }
        printer.value(&alias.value, 2);
        printer.out.push_str(if full { ";\n" } else { "\n" });
    }
    for (number, export) in exports.iter().enumerate() {
        if full {
            printer.out.push('\n');
        }
        export.print(&mut printer, number, toolset);
    }
    if !learned.tools.is_empty() {
        printer.out.push_str("/** What results looked like so far; no promise. */\ninterface Observed{\n");
        for (tool, observed) in &learned.tools {
            write!(printer.out, "{}:", name::string(tool)).expect("a String takes every write");
            printer.value(&learned::of(&observed.shape, false), 0);
            writeln!(printer.out, " // @observed {}", results(observed.results)).expect("a String takes every write");
        }
        printer.out.push_str("}\n");
    }
    printer.out.push_str("}\n");
    printer.out
}

/// One export of the module: a server, or the host.
#[derive(Debug)]
struct Export<'a> {
    name: &'a str,
    about: Option<&'a str>,
    tools: Vec<Signature<'a>>,
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
        let tools =
            workflows.iter().map(|(name, workflow)| Signature::of_workflow(name, workflow, aliases, full)).collect();
        let about = "Each call is a run of its own; it resolves with that run's result.";
        Self { name: Toolset::WORKFLOWS, about: Some(about), tools }
    }

    fn learn(&mut self, observations: &'a Observations, strict: bool) {
        for signature in &mut self.tools {
            if let Some(observed) = observations.tools.get(&format!("{}.{}", self.name, signature.name)) {
                signature.learn(observed, strict);
            }
        }
    }

    fn print(&self, printer: &mut Printer<'_, 'a>, number: usize, toolset: &Toolset) {
        if let Some(about) = self.about.filter(|_| !printer.compact) {
            printer.comment(&comment::lines(about), 2);
        }
        let exported = name::is_binding(self.name);
        let binding = if exported { Cow::from(self.name) } else { Cow::from(unused_name(number, toolset)) };
        let export = if exported { "export " } else { "" };
        let (indent, colon) = if printer.compact { ("", ":") } else { ("  ", ": ") };
        write!(printer.out, "{indent}{export}const {binding}{colon}{{").expect("a String takes every write");
        for signature in &self.tools {
            printer.out.push('\n');
            if printer.compact {
                signature.print_compact(printer, &name::member(signature.name));
            } else {
                signature.print(printer);
            }
        }
        if !self.tools.is_empty() {
            write!(printer.out, "\n{indent}").expect("a String takes every write");
        }
        printer.out.push_str("};\n");
        if !exported {
            // ECMAScript 2022: an export may have any name, an import gives it another.
            writeln!(printer.out, "{indent}export {{ {binding} as {} }};", name::string(self.name))
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
