use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

use rewind_model::{McpServer, Rendering, Tool, Toolset};

use crate::{alias::Aliases, comment, doc::Doc, kinds::Kinds, lower::Lowering, name, print::Printer, share, ty::Type};

/// What the module exports besides its servers. A server of such a name would not be reachable.
const OWN: [&str; 4] = ["host", "sleep", "ToolError", "workflows"];
/// Types that the module's own declarations define or use.
const OWN_TYPES: [&str; 14] = [
    "Args",
    "Array",
    "ClosedTool",
    "ContentBlock",
    "Error",
    "Function",
    "McpResult",
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
    render_as(toolset, rendering == Rendering::Full, false)
}

/// As the full rendering, but a literal may only have the members that its schema names, unless the
/// schema says of others what they hold. What does not compile against these and does against
/// [`render`]'s is valid, and most likely a slip of the pen.
pub fn render_strict(toolset: &Toolset) -> String {
    render_as(toolset, true, true)
}

fn render_as(toolset: &Toolset, full: bool, strict: bool) -> String {
    let mut aliases = Aliases::new(&OWN_TYPES);
    let mut exports: Vec<Export<'_>> = toolset
        .mcp_servers
        .iter()
        .filter(|(name, _)| !OWN.contains(&name.as_str()))
        .map(|(name, server)| Export::of_server(name, server, &mut aliases, full))
        .collect();
    exports.push(Export::of_tools("host", None, &toolset.host_tools, &mut aliases, full));
    let tools = exports.iter_mut().flat_map(|export| &mut export.tools);
    aliases.settle(tools.flat_map(|tool| [&mut tool.arguments].into_iter().chain(&mut tool.result)));
    if !full {
        let tools = exports.iter_mut().flat_map(|export| &mut export.tools);
        let mut types: Vec<_> =
            tools.flat_map(|tool| [&mut tool.arguments].into_iter().chain(&mut tool.result)).collect();
        share::share(&mut aliases, &mut types);
        let tools = exports.iter_mut().flat_map(|export| &mut export.tools);
        let arguments = tools.map(|tool| {
            tool.open = tool.arguments.leave_open();
            &mut tool.arguments
        });
        share::share_members(&mut aliases, &mut arguments.collect::<Vec<_>>());
    }
    let arguments = aliases.reached(exports.iter().flat_map(|export| &export.tools).map(|tool| &tool.arguments));
    let printer = Printer { aliases: &aliases, compact: !full, strict, argument: false, out: String::new() };
    module(printer, &exports, &arguments, toolset, full)
}

fn module<'a>(
    mut printer: Printer<'_, 'a>,
    exports: &[Export<'a>],
    arguments: &[bool],
    toolset: &Toolset,
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

#[derive(Debug)]
struct Signature<'a> {
    name: &'a str,
    tool: &'a Tool,
    arguments: Type<'a>,
    /// Are further members allowed, though `arguments` do not say so?
    open: bool,
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
        let tools = tools
            .iter()
            .map(|(name, tool)| {
                let label = format!("{name}Args");
                let arguments = Lowering::new(&tool.input_schema, &label, aliases, full).run(Kinds::OBJECT);
                let result = tool.output_schema.as_ref().map(|schema| {
                    let label = format!("{name}Result");
                    Lowering::new(schema, &label, aliases, full).run(Kinds::ALL)
                });
                Signature { name, tool, arguments, open: false, result }
            })
            .collect();
        Self { name, about, tools }
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
            signature.print(printer);
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

impl<'a> Signature<'a> {
    fn print(&self, printer: &mut Printer<'_, 'a>) {
        let description = self.tool.description.as_deref().or(self.tool.title.as_deref()).unwrap_or_default();
        if printer.compact {
            return self.print_compact(printer, comment::sentence(description));
        }
        let mut lines = Doc { description, tags: Doc::tags_of(&self.tool.input_schema) }.lines();
        if self.result.is_none() {
            lines.push("@observed 0 results: any, for there is no output schema".to_owned());
        }
        printer.comment(&lines, 4);
        let optional = printer.aliases.accept_empty(&self.arguments);
        let interface = if optional { "OptionalTool" } else { "Tool" };
        write!(printer.out, "    {}: {interface}<", name::member(self.name)).expect("a String takes every write");
        let mut arguments = self.arguments.clone();
        let open = optional && !printer.strict && arguments.leave_open();
        printer.out.push_str(if open { "Open<" } else { "" });
        printer.argument = true;
        printer.value(&arguments, 4);
        printer.argument = false;
        printer.out.push_str(if open { ">" } else { "" });
        if let Some(result) = &self.result {
            printer.out.push_str(", ");
            printer.value(result, 4);
        }
        printer.out.push_str(">;");
    }

    fn print_compact(&self, printer: &mut Printer<'_, 'a>, sentence: String) {
        let interface = if self.open { "Tool" } else { "ClosedTool" };
        write!(printer.out, "{}:{interface}<", name::member(self.name)).expect("a String takes every write");
        printer.argument = true;
        printer.value(&self.arguments, 0);
        printer.argument = false;
        if let Some(result) = &self.result {
            printer.out.push(',');
            printer.value(result, 0);
        }
        printer.out.push('>');
        if !sentence.is_empty() {
            write!(printer.out, " // {sentence}").expect("a String takes every write");
        }
    }
}
