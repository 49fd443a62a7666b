use std::collections::HashSet;

use crate::doc::Doc;

/// A TypeScript type, as far as JSON Schema needs one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Type<'a> {
    /// Anything; the reason, if it is because Rewind does not express what the schema says.
    Unknown(Option<&'static str>),
    Never,
    /// `string`, `number`, `boolean`, `null`.
    Named(&'static str),
    /// As it is written in TypeScript.
    Literal(String),
    Array(Box<Type<'a>>),
    Tuple(Box<Tuple<'a>>),
    Object(Box<Object<'a>>),
    Union(Vec<Type<'a>>),
    Intersection(Vec<Type<'a>>),
    /// Index in the table of aliases.
    Alias(usize),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Tuple<'a> {
    pub(crate) items: Vec<Type<'a>>,
    /// How many of `items` must be there.
    pub(crate) required: usize,
    pub(crate) rest: Option<Type<'a>>,
}

/// Never without both members and index: `{}` is TypeScript's name for everything but null and undefined.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Object<'a> {
    pub(crate) members: Vec<Member<'a>>,
    pub(crate) index: Vec<(Index, Type<'a>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Member<'a> {
    pub(crate) name: &'a str,
    pub(crate) optional: bool,
    pub(crate) value: Type<'a>,
    pub(crate) doc: Doc<'a>,
}

/// The keys that an index signature is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Index {
    Every,
    StartingWith(String),
}

impl<'a> Type<'a> {
    pub(crate) const ANY_VALUE: Self = Type::Unknown(None);

    /// `{ [key: string]: unknown }`: an object of which nothing is known.
    pub(crate) fn open_object() -> Self {
        Type::Object(Box::new(Object { members: Vec::new(), index: vec![(Index::Every, Type::ANY_VALUE)] }))
    }

    /// Flat, without duplicates and without what adds nothing.
    pub(crate) fn union(parts: impl IntoIterator<Item = Type<'a>>) -> Self {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Type::Never => {}
                Type::Unknown(_) => return part,
                Type::Union(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        let mut flat = distinct(flat);
        let named = |name| move |part: &Type<'_>| matches!(part, Type::Named(known) if *known == name);
        if flat.iter().any(named("string")) {
            flat.retain(|part| !matches!(part, Type::Literal(text) if text.starts_with('"')));
        }
        let literal = |text: &str| flat.iter().any(|part| matches!(part, Type::Literal(known) if known == text));
        if flat.iter().any(named("boolean")) || (literal("true") && literal("false")) {
            flat.retain(|part| !matches!(part, Type::Literal(text) if text == "true" || text == "false"));
            if !flat.iter().any(named("boolean")) {
                flat.push(Type::Named("boolean"));
            }
        }
        match flat.len() {
            0 => Type::Never,
            1 => flat.remove(0),
            _ => Type::Union(flat),
        }
    }

    pub(crate) fn intersection(parts: impl IntoIterator<Item = Type<'a>>) -> Self {
        let mut flat = Vec::new();
        let mut unknown = None;
        for part in parts {
            match part {
                Type::Never => return Type::Never,
                Type::Unknown(reason) => unknown = unknown.or(reason),
                Type::Intersection(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        let mut flat = distinct(flat);
        // "Some object" says nothing beside a part that says which: every part is within the same kinds.
        let open = Type::open_object();
        if flat.len() > 1 {
            flat.retain(|part| *part != open);
        }
        match flat.len() {
            0 => Type::Unknown(unknown),
            1 => flat.remove(0),
            _ => Type::Intersection(flat),
        }
    }
}

fn distinct<'a>(parts: Vec<Type<'a>>) -> Vec<Type<'a>> {
    if parts.len() < 2 {
        return parts;
    }
    let mut seen = HashSet::with_capacity(parts.len());
    let fresh: Vec<bool> = parts.iter().map(|part| seen.insert(part)).collect();
    drop(seen);
    parts.into_iter().zip(fresh).filter_map(|(part, fresh)| fresh.then_some(part)).collect()
}
