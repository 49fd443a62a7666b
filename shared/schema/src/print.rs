use std::fmt::Write as _;

use crate::{
    alias::Aliases,
    doc::Doc,
    name, object,
    ty::{List, Object, Type},
};

const STEP: usize = 2;
/// Members of every object: without, the compiler holds `{}` against their types.
const INHERITED: [&str; 7] =
    ["constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf"];

/// Writes types as TypeScript: with doc comments, a member a line, or all on one line.
#[derive(Debug)]
pub(crate) struct Printer<'p, 'a> {
    pub(crate) aliases: &'p Aliases<'a>,
    pub(crate) one_line: bool,
    pub(crate) out: String,
}

impl<'a> Printer<'_, 'a> {
    pub(crate) fn doc(&mut self, doc: &Doc<'_>, indent: usize) {
        if !self.one_line {
            self.comment(&doc.lines(), indent);
        }
    }

    pub(crate) fn comment(&mut self, lines: &[String], indent: usize) {
        match lines {
            [] => {}
            [line] => writeln!(self.out, "{:indent$}/** {line} */", "").expect("a String takes every write"),
            lines => {
                writeln!(self.out, "{:indent$}/**", "").expect("a String takes every write");
                for line in lines {
                    let space = if line.is_empty() { "" } else { " " };
                    writeln!(self.out, "{:indent$} *{space}{line}", "").expect("a String takes every write");
                }
                writeln!(self.out, "{:indent$} */", "").expect("a String takes every write");
            }
        }
    }

    /// `indent` is that of the line on which the type begins.
    pub(crate) fn value(&mut self, value: &Type<'a>, indent: usize) {
        match value {
            Type::Unknown(None) | Type::But(_) => self.out.push_str("unknown"),
            Type::Unknown(Some(reason)) => {
                write!(self.out, "unknown /* {reason} */").expect("a String takes every write");
            }
            Type::Never => self.out.push_str("never"),
            Type::Named(text) => self.out.push_str(text),
            Type::Literal(text) => self.out.push_str(text),
            Type::Alias(index) => {
                let aliases = self.aliases;
                self.out.push_str(&aliases.get(*index).name);
            }
            Type::List(list) if list.items.is_empty() && list.rest != Type::Never => self.array(&list.rest, indent),
            Type::List(list) => self.tuple(list, indent),
            Type::Object(object) => self.object(object, indent),
            Type::Union(parts) => self.list(parts, " | ", indent),
            Type::Intersection(parts) => self.list(parts, " & ", indent),
        }
    }

    fn list(&mut self, parts: &[Type<'a>], separator: &str, indent: usize) {
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.out.push_str(separator);
            }
            self.operand(part, indent);
        }
    }

    /// In parentheses where it has an operator of its own.
    fn operand(&mut self, value: &Type<'a>, indent: usize) {
        let parentheses = matches!(value, Type::Union(_) | Type::Intersection(_) | Type::Unknown(Some(_)));
        if parentheses {
            self.out.push('(');
        }
        self.value(value, indent);
        if parentheses {
            self.out.push(')');
        }
    }

    fn array(&mut self, item: &Type<'a>, indent: usize) {
        self.operand(item, indent);
        self.out.push_str("[]");
    }

    /// Optional items and the rest have labels: without, the compiler looks into them at once, and calls
    /// an alias that they lead back to circular (TS2456).
    fn tuple(&mut self, tuple: &List<'a>, indent: usize) {
        self.out.push('[');
        for (at, item) in tuple.items.iter().enumerate() {
            if at > 0 {
                self.out.push_str(", ");
            }
            if at >= tuple.least {
                write!(self.out, "_{at}?: ").expect("a String takes every write");
            }
            self.value(item, indent);
        }
        if tuple.rest != Type::Never {
            self.out.push_str(", ...rest: ");
            self.array(&tuple.rest, indent);
        }
        self.out.push(']');
    }

    fn object(&mut self, object: &Object<'a>, indent: usize) {
        let index = object::index(object);
        let simple = object.members.is_empty() && index.len() < 2;
        let (inner, spread) = (indent + STEP, !self.one_line && !simple);
        self.out.push_str(if spread { "{\n" } else { "{ " });
        let mut first = true;
        for member in &object.members {
            self.separate(&mut first, spread);
            if spread {
                self.doc(&member.doc, inner);
                write!(self.out, "{:inner$}", "").expect("a String takes every write");
            }
            self.out.push_str(&name::member(member.name));
            self.out.push_str(if member.optional { "?: " } else { ": " });
            self.value(&member.value, inner);
            // Every object has these, also one in which JSON has none.
            if member.optional && INHERITED.contains(&member.name) && !matches!(member.value, Type::Unknown(_)) {
                self.out.push_str(" | Function");
            }
        }
        for (keys, value) in &index {
            self.separate(&mut first, spread);
            if spread {
                write!(self.out, "{:inner$}", "").expect("a String takes every write");
            }
            write!(self.out, "[key: {}]: ", keys.text()).expect("a String takes every write");
            self.value(value, inner);
        }
        if spread {
            write!(self.out, ";\n{:indent$}}}", "").expect("a String takes every write");
        } else {
            self.out.push_str(" }");
        }
    }

    fn separate(&mut self, first: &mut bool, spread: bool) {
        if !*first {
            self.out.push_str(if spread { ";\n" } else { "; " });
        }
        *first = false;
    }
}
