use std::collections::HashSet;

use crate::{doc::Doc, index::Index, kinds::Kinds};

/// A TypeScript type, as far as JSON Schema needs one: a set of JSON values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Type<'a> {
    /// Anything; the reason, if it is because Rewind does not express what the schema says.
    Unknown(Option<&'static str>),
    Never,
    /// `string`, `number`, `boolean`, `null`.
    Named(&'static str),
    /// As it is written in TypeScript.
    Literal(String),
    /// Anything but these literals. TypeScript cannot say it; a type that it meets may.
    But(Vec<String>),
    List(Box<List<'a>>),
    Object(Box<Object<'a>>),
    Union(Vec<Type<'a>>),
    Intersection(Vec<Type<'a>>),
    /// Index in the table of aliases.
    Alias(usize),
}

/// An array or a tuple.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct List<'a> {
    pub(crate) items: Vec<Type<'a>>,
    /// What comes after `items`. [`Type::Never`] when nothing does.
    pub(crate) rest: Type<'a>,
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// Does a keyword speak of what comes after `items` (`unevaluatedItems`)?
    pub(crate) rest_evaluated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Object<'a> {
    /// The required ones first, each group by name.
    pub(crate) members: Vec<Member<'a>>,
    pub(crate) patterns: Vec<Pattern<'a>>,
    /// What members hold that are neither named nor match a pattern. [`Type::Never`] when there are none.
    pub(crate) rest: Type<'a>,
    /// Does a keyword speak of those (`unevaluatedProperties`)?
    pub(crate) rest_evaluated: bool,
    /// May the other members of other alternatives be there as well, though `rest` is never?
    pub(crate) lenient: bool,
    /// Stands beside an object that says what further members hold.
    pub(crate) beside: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Member<'a> {
    pub(crate) name: &'a str,
    pub(crate) optional: bool,
    pub(crate) value: Type<'a>,
    pub(crate) doc: Doc<'a>,
    pub(crate) evaluated: bool,
}

/// What the members hold whose name matches a regular expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pattern<'a> {
    pub(crate) source: &'a str,
    pub(crate) keys: Index,
    pub(crate) value: Type<'a>,
}

impl<'a> List<'a> {
    pub(crate) fn of(item: Type<'a>) -> Self {
        Self { items: Vec::new(), rest: item, least: 0, most: usize::MAX, rest_evaluated: false }
    }

    pub(crate) fn at(&self, position: usize) -> &Type<'a> {
        self.items.get(position).unwrap_or(&self.rest)
    }
}

impl<'a> Object<'a> {
    /// An object of which nothing is known.
    pub(crate) const OPEN: Self = Self {
        members: Vec::new(),
        patterns: Vec::new(),
        rest: Type::ANY_VALUE,
        rest_evaluated: false,
        lenient: false,
        beside: false,
    };

    pub(crate) fn with(members: Vec<Member<'a>>) -> Self {
        Self { members, ..Self::OPEN }
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Member<'a>> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Is every key that is not named refused?
    pub(crate) fn is_closed(&self) -> bool {
        self.rest == Type::Never && self.patterns.is_empty()
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.rest, Type::Unknown(_)) && self.patterns.is_empty()
    }

    /// In the order in which they are printed; where nothing else is allowed, nothing is said of what is not.
    pub(crate) fn tidy(mut self) -> Self {
        if self.is_closed() && !self.lenient {
            self.members.retain(|member| !member.optional || member.value != Type::Never);
        }
        self.members.sort_by_key(|member| (member.optional, member.name));
        self
    }
}

impl<'a> Member<'a> {
    pub(crate) fn new(name: &'a str, optional: bool, value: Type<'a>) -> Self {
        Self { name, optional, value, doc: Doc::default(), evaluated: false }
    }
}

impl<'a> Type<'a> {
    pub(crate) const ANY_VALUE: Self = Type::Unknown(None);

    pub(crate) fn object(object: Object<'a>) -> Self {
        Type::Object(Box::new(object))
    }

    pub(crate) fn list(list: List<'a>) -> Self {
        Type::List(Box::new(list))
    }

    pub(crate) fn open_object() -> Self {
        Type::object(Object::OPEN)
    }

    /// Is it an object, or are all alternatives objects, with members of any name? Then says so of none of
    /// them: whoever uses the type does.
    pub(crate) fn leave_open(&mut self) -> bool {
        let is_open = |part: &Type<'a>| matches!(part, Type::Object(one) if one.is_open() && !one.members.is_empty());
        let parts = match self {
            Type::Union(parts) if parts.iter().all(is_open) => &mut parts[..],
            Type::Intersection(parts) if is_open(&parts[0]) => &mut parts[..1],
            one if is_open(one) => std::slice::from_mut(one),
            _ => return false,
        };
        for part in parts {
            if let Type::Object(object) = part {
                object.beside = true;
            }
        }
        true
    }

    /// As it is where nobody asks what it speaks of: behind a `not`.
    pub(crate) fn unspoken(mut self) -> Self {
        match &mut self {
            Type::Union(parts) | Type::Intersection(parts) => {
                *parts = std::mem::take(parts).into_iter().map(Type::unspoken).collect();
            }
            Type::Object(object) => {
                object.members.iter_mut().for_each(|member| member.evaluated = false);
                object.rest_evaluated = false;
            }
            Type::List(list) => list.rest_evaluated = false,
            _ => {}
        }
        self
    }

    /// All values of these kinds.
    pub(crate) fn of_kinds(kinds: Kinds) -> Self {
        if kinds == Kinds::ALL {
            return Type::ANY_VALUE;
        }
        Type::union(kinds.each().map(Type::of_kind))
    }

    pub(crate) fn of_kind(kind: Kinds) -> Self {
        match kind {
            Kinds::OBJECT => Type::open_object(),
            Kinds::ARRAY => Type::list(List::of(Type::ANY_VALUE)),
            Kinds::STRING => Type::Named("string"),
            Kinds::NUMBER => Type::Named("number"),
            Kinds::BOOLEAN => Type::Named("boolean"),
            _ => Type::Named("null"),
        }
    }

    /// Of a literal as it is written.
    pub(crate) fn kind_of_literal(text: &str) -> Kinds {
        match text.as_bytes().first() {
            Some(b'"') => Kinds::STRING,
            Some(b't' | b'f') => Kinds::BOOLEAN,
            Some(b'n') => Kinds::NULL,
            _ => Kinds::NUMBER,
        }
    }

    /// How much there is to print.
    pub(crate) fn size(&self) -> usize {
        match self {
            Type::List(list) => 1 + list.items.iter().chain([&list.rest]).map(Type::size).sum::<usize>(),
            Type::Object(object) => {
                let values = object.members.iter().map(|member| 1 + member.value.size());
                1 + values.chain(object.patterns.iter().map(|pattern| 1 + pattern.value.size())).sum::<usize>()
            }
            Type::Union(parts) | Type::Intersection(parts) => parts.iter().map(Type::size).sum(),
            _ => 1,
        }
    }

    /// Flat, without duplicates and without what adds nothing.
    pub(crate) fn union(parts: impl IntoIterator<Item = Type<'a>>) -> Self {
        let (mut flat, mut but): (Vec<Type<'a>>, Option<Vec<String>>) = (Vec::new(), None);
        for part in parts {
            match part {
                Type::Never => {}
                Type::Unknown(_) | Type::Named("any") => return part,
                Type::Union(inner) => flat.extend(inner),
                Type::But(texts) => {
                    but = Some(but.map_or(texts.clone(), |known| {
                        known.into_iter().filter(|text| texts.contains(text)).collect()
                    }));
                }
                other => flat.push(other),
            }
        }
        if let Some(but) = but {
            return Self::without(but, &flat);
        }
        let mut flat = distinct(flat);
        let has = |flat: &[Type<'a>], kind| flat.contains(&Type::of_kind(kind));
        let named =
            |flat: &[Type<'a>], name| flat.iter().any(|part| matches!(part, Type::Named(known) if *known == name));
        let literal = |flat: &[Type<'a>], text: &str| {
            flat.iter().any(|part| matches!(part, Type::Literal(known) if known == text))
        };
        if literal(&flat, "true") && literal(&flat, "false") && !named(&flat, "boolean") {
            flat.push(Type::Named("boolean"));
        }
        for (kind, name) in [(Kinds::STRING, "string"), (Kinds::NUMBER, "number"), (Kinds::BOOLEAN, "boolean")] {
            if named(&flat, name) {
                flat.retain(|part| !matches!(part, Type::Literal(text) if Self::kind_of_literal(text) == kind));
            }
        }
        let (object, array) = (has(&flat, Kinds::OBJECT), has(&flat, Kinds::ARRAY));
        if object {
            flat.retain(|part| !matches!(part, Type::Object(one) if **one != Object::OPEN));
        }
        if array {
            flat.retain(|part| !matches!(part, Type::List(one) if **one != List::of(Type::ANY_VALUE)));
        }
        if object && array && ["string", "number", "boolean", "null"].into_iter().all(|name| named(&flat, name)) {
            return Type::ANY_VALUE;
        }
        match flat.len() {
            0 => Type::Never,
            1 => flat.remove(0),
            _ => Type::Union(flat),
        }
    }

    /// All but `texts`, and `parts`.
    fn without(mut texts: Vec<String>, parts: &[Type<'a>]) -> Self {
        for part in parts {
            texts.retain(|text| match part {
                Type::Literal(literal) => literal != text,
                Type::Named(name) => Type::of_kind(Self::kind_of_literal(text)) != Type::Named(name),
                _ => true,
            });
        }
        if texts.is_empty() { Type::ANY_VALUE } else { Type::But(texts) }
    }

    /// Parts that stay beside one another.
    pub(crate) fn intersection(parts: impl IntoIterator<Item = Type<'a>>) -> Self {
        let mut flat = Vec::new();
        let mut unknown = None;
        for part in parts {
            match part {
                Type::Never => return Type::Never,
                Type::Unknown(reason) => unknown = unknown.or(reason),
                Type::But(_) => {}
                Type::Intersection(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        let mut flat = distinct(flat);
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
