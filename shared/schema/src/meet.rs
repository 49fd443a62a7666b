//! What two types have in common. A result may hold more values than both do, never fewer: where this
//! gives up, the parts stand beside one another, and the compiler sees to it.

use std::collections::BTreeSet;

use crate::{
    kinds::Kinds,
    lower::Lowering,
    ty::{List, Member, Object, Pattern, Type},
};

impl<'a> Lowering<'a, '_> {
    pub(crate) fn meet(&mut self, one: Type<'a>, other: Type<'a>) -> Type<'a> {
        if !self.spend(1) {
            return Type::intersection([one, other]);
        }
        match (one, other) {
            (Type::Never, _) | (_, Type::Never) => Type::Never,
            (Type::Unknown(one), Type::Unknown(other)) => Type::Unknown(one.or(other)),
            (Type::Unknown(_), known) | (known, Type::Unknown(_)) => known,
            (Type::Union(parts), Type::Union(others)) => self.meet_unions(parts, others),
            (Type::Union(parts), other) => {
                let met = parts.into_iter().map(|part| self.meet(part, other.clone())).collect();
                self.union(met)
            }
            (one, Type::Union(parts)) => {
                let met = parts.into_iter().map(|part| self.meet(one.clone(), part)).collect();
                self.union(met)
            }
            (Type::Alias(one), Type::Alias(other)) if one == other => Type::Alias(one),
            (Type::Intersection(parts), other) => self.meet_beside(parts, other, false),
            (one, Type::Intersection(parts)) => self.meet_beside(parts, one, true),
            (Type::Alias(alias), other) => self.meet_alias(alias, other, false),
            (one, Type::Alias(alias)) => self.meet_alias(alias, one, true),
            (Type::But(mut texts), Type::But(more)) => {
                texts.extend(more);
                texts.sort_unstable();
                texts.dedup();
                Type::But(texts)
            }
            (Type::But(texts), known) | (known, Type::But(texts)) => without(known, &texts),
            (Type::Object(one), Type::Object(other)) => self.meet_objects(*one, *other),
            (Type::List(one), Type::List(other)) => self.meet_lists(&one, &other),
            (Type::Named(one), Type::Named(other)) if one == other => Type::Named(one),
            (Type::Literal(one), Type::Literal(other)) if one == other => Type::Literal(one),
            (Type::Literal(text), Type::Named(name)) | (Type::Named(name), Type::Literal(text))
                if Type::of_kind(Type::kind_of_literal(&text)) == Type::Named(name) =>
            {
                Type::Literal(text)
            }
            _ => Type::Never,
        }
    }

    fn meet_unions(&mut self, parts: Vec<Type<'a>>, others: Vec<Type<'a>>) -> Type<'a> {
        const PAIRS: usize = 10_000;
        let literals =
            |parts: &[Type<'a>]| parts.iter().all(|part| matches!(part, Type::Literal(_) | Type::Named("null")));
        if literals(&parts) && literals(&others) {
            let others: std::collections::HashSet<_> = others.into_iter().collect();
            return Type::union(parts.into_iter().filter(|part| others.contains(part)));
        }
        if parts.len() * others.len() > PAIRS || !self.spend(parts.len() * others.len()) {
            return Type::intersection([Type::Union(parts), Type::Union(others)]);
        }
        let mut met = Vec::new();
        for part in parts {
            for other in &others {
                met.push(self.meet(part.clone(), other.clone()));
            }
        }
        self.union(met)
    }

    /// As [`Type::union`], but alternatives that take up one another stay apart where a schema asks what
    /// they speak of.
    pub(crate) fn union(&self, parts: Vec<Type<'a>>) -> Type<'a> {
        if !self.document.asks_evaluated || parts.len() < 2 {
            return Type::union(parts);
        }
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Type::Never => {}
                Type::Union(inner) => flat.extend(inner),
                Type::Unknown(None) | Type::But(_) => flat.extend(Kinds::ALL.each().map(Type::of_kind)),
                Type::Unknown(_) => return part,
                other => flat.push(other),
            }
        }
        let mut seen = std::collections::HashSet::new();
        flat.retain(|part| seen.insert(part.clone()));
        if flat.len() > 1 { Type::Union(flat) } else { Type::union(flat) }
    }

    fn meet_beside(&mut self, mut parts: Vec<Type<'a>>, other: Type<'a>, first: bool) -> Type<'a> {
        let kinds = self.kinds(&other);
        if parts.iter().any(|part| !self.kinds(part).has(kinds)) {
            return Type::Never;
        }
        if other == Type::open_object() || matches!(other, Type::But(_)) {
            return Type::Intersection(parts);
        }
        if let Some(at) = parts.iter().position(|part| matches!((part, &other), (Type::Object(_), Type::Object(_)))) {
            let part = std::mem::replace(&mut parts[at], Type::Never);
            let beside = matches!(&part, Type::Object(object) if object.beside);
            parts[at] = self.meet(part, other);
            if let Type::Object(object) = &mut parts[at] {
                object.beside = beside && object.is_open();
            }
        } else {
            parts.insert(if first { 0 } else { parts.len() }, other);
        }
        Type::intersection(parts)
    }

    /// A named type stays named where that says the same: an open object beside further members.
    fn meet_alias(&mut self, alias: usize, mut other: Type<'a>, first: bool) -> Type<'a> {
        let beside = |one, other| Type::intersection(if first { [other, one] } else { [one, other] });
        let value = if self.inside.contains(&alias) { None } else { self.expand(alias) };
        let Some(value) = value else { return beside(Type::Alias(alias), other) };
        let is_open = |value: &Type<'a>| matches!(value, Type::Object(object) if object.is_open());
        if other == Type::open_object() && self.kinds(&value) == Kinds::OBJECT {
            return Type::Alias(alias);
        }
        let asked = self.document.asks_evaluated;
        if let (true, Type::Object(object)) = (!asked && is_open(&value) && is_open(&other), &mut other) {
            object.beside = true;
            return Type::intersection([Type::Alias(alias), other]);
        }
        self.inside.push(alias);
        let met = self.meet(value.clone(), other);
        self.inside.pop();
        if met == value { Type::Alias(alias) } else { met }
    }

    fn meet_objects(&mut self, one: Object<'a>, other: Object<'a>) -> Type<'a> {
        if !self.spend(one.members.len() + other.members.len()) {
            return Type::intersection([Type::object(one), Type::object(other)]);
        }
        let names: BTreeSet<&str> = one.members.iter().chain(&other.members).map(|member| member.name).collect();
        let mut members = Vec::with_capacity(names.len());
        for name in names {
            let (left, right) = (one.member(name), other.member(name));
            let (left_value, right_value) = (self.value_of(&one, name), self.value_of(&other, name));
            let value = self.meet(left_value, right_value);
            let optional = left.is_none_or(|member| member.optional) && right.is_none_or(|member| member.optional);
            if !optional && value == Type::Never {
                return Type::Never;
            }
            let doc = [left, right]
                .into_iter()
                .flatten()
                .map(|member| &member.doc)
                .find(|doc| **doc != crate::doc::Doc::default());
            let evaluated = [(left, &one), (right, &other)].into_iter().any(|(member, of)| {
                member.map_or(of.rest_evaluated, |member| member.evaluated)
                    || of.patterns.iter().any(|pattern| self.matches(pattern.source, name) == Some(true))
            });
            members.push(Member { name, optional, value, doc: doc.cloned().unwrap_or_default(), evaluated });
        }
        let mut patterns = self.patterns_beside(&one.patterns, &other);
        patterns.extend(self.patterns_beside(&other.patterns, &one));
        let mut seen = std::collections::HashSet::new();
        patterns.retain(|pattern| seen.insert(pattern.clone()));
        let refuses = |object: &Object<'a>| object.rest == Type::Never && !object.lenient;
        let lenient = (one.lenient || other.lenient) && !refuses(&one) && !refuses(&other);
        Type::object(
            Object {
                members,
                patterns,
                rest: self.meet(one.rest, other.rest),
                rest_evaluated: one.rest_evaluated || other.rest_evaluated,
                lenient,
                beside: one.beside && other.beside,
            }
            .tidy(),
        )
    }

    /// What `patterns` say in an object that has to be `other` as well.
    fn patterns_beside(&mut self, patterns: &[Pattern<'a>], other: &Object<'a>) -> Vec<Pattern<'a>> {
        let met = patterns.iter().map(|pattern| {
            let value = pattern.value.clone();
            let value = if other.patterns.is_empty() { self.meet(value, other.rest.clone()) } else { value };
            Pattern { value, ..pattern.clone() }
        });
        met.filter(|pattern| other.rest != Type::Never || pattern.value != Type::Never).collect()
    }

    /// What `object` says of the member `name`, which it may not name.
    pub(crate) fn value_of(&mut self, object: &Object<'a>, name: &str) -> Type<'a> {
        if let Some(member) = object.member(name) {
            return member.value.clone();
        }
        let (mut value, mut known) = (None, true);
        for pattern in &object.patterns {
            match self.matches(pattern.source, name) {
                Some(true) => {
                    let pattern = pattern.value.clone();
                    value = Some(match value.take() {
                        Some(value) => self.meet(value, pattern),
                        None => pattern,
                    });
                }
                Some(false) => {}
                None => known = false,
            }
        }
        value.unwrap_or_else(|| if known { object.rest.clone() } else { Type::ANY_VALUE })
    }

    fn meet_lists(&mut self, one: &List<'a>, other: &List<'a>) -> Type<'a> {
        let (least, mut most) = (one.least.max(other.least), one.most.min(other.most));
        let mut items = Vec::new();
        for at in 0..one.items.len().max(other.items.len()) {
            let item = self.meet(one.at(at).clone(), other.at(at).clone());
            if item == Type::Never {
                most = most.min(at);
                break;
            }
            items.push(item);
        }
        let rest = if items.len() >= most { Type::Never } else { self.meet(one.rest.clone(), other.rest.clone()) };
        if rest == Type::Never {
            most = most.min(items.len());
        }
        if least > most {
            return Type::Never;
        }
        Type::list(List { items, rest, least, most, rest_evaluated: one.rest_evaluated || other.rest_evaluated })
    }

    /// The kinds of value that are in `value`; more, where that is not known.
    pub(crate) fn kinds(&mut self, value: &Type<'a>) -> Kinds {
        match value {
            Type::Unknown(_) | Type::But(_) => Kinds::ALL,
            Type::Never => Kinds::NONE,
            Type::Named(name) => Kinds::named(name),
            Type::Literal(text) => Type::kind_of_literal(text),
            Type::List(_) => Kinds::ARRAY,
            Type::Object(_) => Kinds::OBJECT,
            Type::Union(parts) => parts.iter().fold(Kinds::NONE, |kinds, part| kinds.or(self.kinds(part))),
            Type::Intersection(parts) => parts.iter().fold(Kinds::ALL, |kinds, part| kinds.and(self.kinds(part))),
            Type::Alias(alias) => self.within(*alias, |this, value| this.kinds(value)).unwrap_or(Kinds::ALL),
        }
    }

    /// Looks into a named type; `None` where that leads to itself.
    fn within<T>(&mut self, alias: usize, look: impl FnOnce(&mut Self, &Type<'a>) -> T) -> Option<T> {
        // Two ways to each of its parts are, level by level, a power of two of ways.
        if self.inside.contains(&alias) || !self.spend(1) {
            return None;
        }
        let value = self.expand(alias)?;
        self.inside.push(alias);
        let seen = look(self, &value);
        self.inside.pop();
        Some(seen)
    }

    /// Is it sure that no value is in both?
    pub(crate) fn disjoint(&mut self, one: &Type<'a>, other: &Type<'a>) -> bool {
        match (one, other) {
            (Type::Alias(alias), known) | (known, Type::Alias(alias)) => {
                one != other && self.within(*alias, |this, value| this.disjoint(value, known)) == Some(true)
            }
            (Type::Union(parts), other) | (other, Type::Union(parts)) => {
                parts.iter().all(|part| self.disjoint(part, other))
            }
            (Type::Intersection(parts), other) | (other, Type::Intersection(parts)) => {
                parts.iter().any(|part| self.disjoint(part, other))
            }
            (Type::Object(one), Type::Object(other)) => [(one, other), (other, one)].into_iter().any(|(one, other)| {
                one.members.iter().filter(|member| !member.optional).any(|member| {
                    let value = self.value_of(other, member.name);
                    self.disjoint(&member.value, &value)
                })
            }),
            (Type::Literal(one), Type::Literal(other)) => one != other,
            (one, other) => !self.kinds(one).has(self.kinds(other)),
        }
    }
}

fn without<'a>(known: Type<'a>, texts: &[String]) -> Type<'a> {
    let excluded = |text: &str| texts.iter().any(|known| known == text);
    match known {
        Type::Literal(text) if excluded(&text) => Type::Never,
        Type::Named("null") if excluded("null") => Type::Never,
        Type::Named("boolean") => match (excluded("true"), excluded("false")) {
            (true, true) => Type::Never,
            (true, false) => Type::Literal("false".into()),
            (false, true) => Type::Literal("true".into()),
            (false, false) => Type::Named("boolean"),
        },
        known => known,
    }
}
