use std::fmt::Write as _;

use crate::{
    alias::Aliases,
    doc::Doc,
    index::Index,
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
    /// On one line, without comments, and with no more space than is needed.
    pub(crate) compact: bool,
    /// Are members refused that no schema names?
    pub(crate) strict: bool,
    /// Is it an argument that is being written? Then it may come from a variable whose type is an interface,
    /// which the compiler takes for further members that are `any`, and for no others.
    pub(crate) argument: bool,
    pub(crate) out: String,
}

impl<'a> Printer<'_, 'a> {
    pub(crate) fn doc(&mut self, doc: &Doc<'_>, indent: usize) {
        if !self.compact {
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
            Type::Union(parts) => self.list(parts, if self.compact { "|" } else { " | " }, indent),
            Type::Intersection(parts) => self.list(parts, if self.compact { "&" } else { " & " }, indent),
        }
    }

    fn list(&mut self, parts: &[Type<'a>], separator: &str, indent: usize) {
        let argument = self.argument;
        // An array is an object whose further members are `any`, and none whose are unknown.
        self.argument &= !parts.iter().any(|part| matches!(part, Type::List(_)));
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.out.push_str(separator);
            }
            self.operand(part, indent);
        }
        self.argument = argument;
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
                write!(self.out, "_{at}?{}", self.colon()).expect("a String takes every write");
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
        let mut index = object::index(object);
        if self.strict && !object.rest_evaluated && !object.members.is_empty() {
            index.retain(|(keys, value)| *keys != Index::Every || !matches!(value, Type::Unknown(_)));
        }
        // Without, an array would do as well.
        let required = object.members.iter().any(|member| !member.optional);
        let simple = object.members.is_empty() && index.len() < 2;
        let (inner, spread) = (indent + STEP, !self.compact && !simple);
        self.out.push_str(if spread {
            "{\n"
        } else if self.compact {
            "{"
        } else {
            "{ "
        });
        let mut first = true;
        for member in &object.members {
            self.separate(&mut first, spread);
            if spread {
                self.doc(&member.doc, inner);
                write!(self.out, "{:inner$}", "").expect("a String takes every write");
            }
            self.out.push_str(&name::member(member.name));
            self.out.push_str(if member.optional { "?" } else { "" });
            self.out.push_str(self.colon());
            self.value(&member.value, inner);
            // Every object has these, also one in which JSON has none.
            if member.optional && INHERITED.contains(&member.name) && !matches!(member.value, Type::Unknown(_)) {
                self.out.push_str(if self.compact { "|Function" } else { " | Function" });
            }
        }
        for (keys, value) in &index {
            self.separate(&mut first, spread);
            if spread {
                write!(self.out, "{:inner$}", "").expect("a String takes every write");
            }
            let (key, colon) = if self.compact { ("k", ":") } else { ("key", ": ") };
            write!(self.out, "[{key}{colon}{}]{colon}", keys.text()).expect("a String takes every write");
            match value {
                Type::Unknown(_) if self.argument && required => self.out.push_str("any"),
                value => self.value(value, inner),
            }
        }
        if spread {
            write!(self.out, ";\n{:indent$}}}", "").expect("a String takes every write");
        } else {
            self.out.push_str(if self.compact { "}" } else { " }" });
        }
    }

    fn colon(&self) -> &'static str {
        if self.compact { ":" } else { ": " }
    }

    fn separate(&mut self, first: &mut bool, spread: bool) {
        if !*first {
            self.out.push_str(if spread {
                ";\n"
            } else if self.compact {
                ","
            } else {
                "; "
            });
        }
        *first = false;
    }
}
