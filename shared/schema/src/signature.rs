//! One tool, or one workflow, as a member of its export.

use std::fmt::Write as _;

use rewind_model::{Tool, ToolName, Toolset, Workflow};
use serde_json::Value;

use crate::{
    alias::Aliases,
    comment,
    declarations::OWN_TYPES,
    doc::Doc,
    kinds::Kinds,
    learned,
    lower::Lowering,
    name,
    print::Printer,
    shape::{Observations, Observed},
    ty::Type,
};

#[derive(Debug)]
pub(crate) struct Signature<'a> {
    pub(crate) name: &'a str,
    description: &'a str,
    /// What the types do not say of the whole argument.
    tags: Vec<String>,
    /// A tool has `raw`, a workflow has not.
    is_tool: bool,
    /// Results from which `result` was learned.
    observed: Option<u64>,
    pub(crate) arguments: Type<'a>,
    /// Are further members allowed, though `arguments` do not say so?
    open: bool,
    pub(crate) result: Option<Type<'a>>,
}

/// One tool as the compact rendering has it: the types that it uses, a line each, then
/// `export.name:Tool<…> // what it does`. `None` when the toolset has no such tool.
pub fn signature(toolset: &Toolset, observations: &Observations, name: &ToolName) -> Option<String> {
    let (_, tool) = toolset.tool(name)?;
    let observed = observations.tools.get(&name.to_string());
    let mut aliases = Aliases::new(&OWN_TYPES);
    let mut signature = Signature::of_tool(&name.name, tool, &mut aliases, false);
    if let Some(observed) = observed {
        signature.learn(observed, false);
    }
    aliases.settle(signature.types());
    signature.leave_open();
    let arguments = aliases.reached([&signature.arguments].into_iter());
    let mut printer = Printer { aliases: &aliases, compact: true, strict: false, argument: false, out: String::new() };
    for (alias, argument) in aliases.iter().zip(arguments) {
        printer.argument = argument;
        write!(printer.out, "type {}=", alias.name).expect("a String takes every write");
        printer.value(&alias.value, 0);
        printer.out.push('\n');
    }
    let own_name = name::member(&name.name);
    let place = if own_name.starts_with('"') { format!("[{own_name}]") } else { format!(".{own_name}") };
    let place = format!("{}{place}", name.export);
    signature.print_compact(&mut printer, &place);
    Some(printer.out)
}

impl<'a> Signature<'a> {
    pub(crate) fn of_tool(name: &'a str, tool: &'a Tool, aliases: &mut Aliases<'a>, docs: bool) -> Self {
        let label = format!("{name}Args");
        let arguments = Lowering::new(&tool.input_schema, &label, aliases, docs).run(Kinds::OBJECT);
        let result = tool.output_schema.as_ref().map(|schema| {
            let label = format!("{name}Result");
            Lowering::new(schema, &label, aliases, docs).run(Kinds::ALL)
        });
        let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let tags = if docs { Doc::tags_of(&tool.input_schema) } else { Vec::new() };
        Self { name, description, tags, is_tool: true, observed: None, arguments, open: false, result }
    }

    pub(crate) fn of_workflow(name: &'a str, workflow: &'a Workflow, aliases: &mut Aliases<'a>, docs: bool) -> Self {
        let mut lower = |schema: Option<&'a Value>, what: &str| {
            let label = format!("{name}{what}");
            schema.map(|schema| Lowering::new(schema, &label, aliases, docs).run(Kinds::ALL))
        };
        let arguments = lower(workflow.input_schema.as_ref(), "Input").unwrap_or(Type::ANY_VALUE);
        let result = lower(workflow.output_schema.as_ref(), "Result");
        let description = workflow.description.as_deref().unwrap_or_default();
        let tags = workflow.input_schema.as_ref().filter(|_| docs).map(Doc::tags_of).unwrap_or_default();
        Self { name, description, tags, is_tool: false, observed: None, arguments, open: false, result }
    }

    pub(crate) fn types(&mut self) -> impl Iterator<Item = &mut Type<'a>> {
        [&mut self.arguments].into_iter().chain(&mut self.result)
    }

    /// Has the tool's interface say that further members are allowed, where they are.
    pub(crate) fn leave_open(&mut self) {
        if self.is_tool {
            self.open = self.arguments.leave_open();
        }
    }

    /// A tool without an output schema gets the type of the results that were seen.
    pub(crate) fn learn(&mut self, observed: &'a Observed, strict: bool) {
        if self.is_tool && self.result.is_none() {
            self.result = Some(learned::of(&observed.shape, strict));
            self.observed = Some(observed.results);
        }
    }

    /// As a member of its export, in the full rendering.
    pub(crate) fn print(&self, printer: &mut Printer<'_, 'a>) {
        let mut lines = Doc { description: self.description, tags: self.tags.clone() }.lines();
        match self.observed {
            Some(count) => lines.push(format!("@observed {}, which promise nothing", results(count))),
            None if self.result.is_none() && self.is_tool => {
                lines.push("@observed 0 results: any, for there is no output schema".to_owned());
            }
            None => {}
        }
        printer.comment(&lines, 4);
        let optional = printer.aliases.accept_empty(&self.arguments);
        let member = name::member(self.name);
        if self.is_tool {
            let interface = if optional { "OptionalTool" } else { "Tool" };
            write!(printer.out, "    {member}: {interface}<").expect("a String takes every write");
            let mut arguments = self.arguments.clone();
            let open = optional && !printer.strict && arguments.leave_open();
            printer.out.push_str(if open { "Open<" } else { "" });
            self.print_arguments(printer, &arguments, 4);
            printer.out.push_str(if open { ">" } else { "" });
            if let Some(result) = &self.result {
                printer.out.push_str(", ");
                printer.value(result, 4);
            }
            printer.out.push_str(">;");
        } else {
            let mark = if optional { "?" } else { "" };
            write!(printer.out, "    {member}: (input{mark}: ").expect("a String takes every write");
            self.print_arguments(printer, &self.arguments, 4);
            self.print_promise(printer, 4);
        }
    }

    /// As the member `place`, on one line.
    pub(crate) fn print_compact(&self, printer: &mut Printer<'_, 'a>, place: &str) {
        if self.is_tool {
            let interface = if self.open { "Tool" } else { "ClosedTool" };
            write!(printer.out, "{place}:{interface}<").expect("a String takes every write");
            self.print_arguments(printer, &self.arguments, 0);
            if let Some(result) = &self.result {
                printer.out.push(',');
                printer.value(result, 0);
            }
            printer.out.push('>');
        } else {
            let mark = if printer.aliases.accept_empty(&self.arguments) { "?" } else { "" };
            write!(printer.out, "{place}:(input{mark}:").expect("a String takes every write");
            self.print_arguments(printer, &self.arguments, 0);
            self.print_promise(printer, 0);
        }
        let sentence = comment::sentence(self.description);
        let observed = self.observed.map(|count| format!("@observed {}", results(count)));
        let remarks: Vec<String> = [sentence].into_iter().filter(|text| !text.is_empty()).chain(observed).collect();
        if !remarks.is_empty() {
            write!(printer.out, " // {}", remarks.join("; ")).expect("a String takes every write");
        }
    }

    fn print_arguments(&self, printer: &mut Printer<'_, 'a>, arguments: &Type<'a>, indent: usize) {
        printer.argument = true;
        printer.value(arguments, indent);
        printer.argument = false;
    }

    fn print_promise(&self, printer: &mut Printer<'_, 'a>, indent: usize) {
        printer.out.push_str(if printer.compact { ")=>Promise<" } else { ") => Promise<" });
        match &self.result {
            Some(result) => printer.value(result, indent),
            None => printer.out.push_str("any"),
        }
        printer.out.push_str(if printer.compact { ">" } else { ">;" });
    }
}

pub(crate) fn results(count: u64) -> String {
    if count == 1 { "1 result".to_owned() } else { format!("{count} results") }
}
