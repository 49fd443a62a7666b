//! Closed objects as alternatives of one another. The compiler takes a literal whose members are those
//! of several alternatives; only a member that is declared `never` keeps them apart.

use std::collections::{BTreeMap, BTreeSet};

use crate::ty::{List, Member, Object, Type};

/// Members that are ruled out in one alternative.
const MOST: usize = 40;

/// What an alternative is known by.
#[derive(Debug, Clone)]
pub(crate) struct Outline<'a> {
    names: BTreeSet<&'a str>,
    /// Has it members that are known by a pattern?
    patterns: bool,
    /// Does it refuse every further member?
    closed: bool,
    /// Does it know a member of any name?
    any_name: bool,
    /// The required members that hold literals only.
    tags: BTreeMap<&'a str, BTreeSet<String>>,
}

impl<'a> Outline<'a> {
    /// `None` of what is no object. `of_alias` are those of the aliases.
    pub(crate) fn of(value: &Type<'a>, of_alias: &[Option<Outline<'a>>]) -> Option<Self> {
        match value {
            Type::Alias(alias) => of_alias.get(*alias)?.clone(),
            Type::Object(object) => Some(Self::of_object(object)),
            _ => None,
        }
    }

    fn of_object(object: &Object<'a>) -> Self {
        let literals = |value: &Type<'a>| -> Option<BTreeSet<String>> {
            match value {
                Type::Literal(text) => Some(BTreeSet::from([text.clone()])),
                Type::Union(parts) => parts
                    .iter()
                    .map(|part| if let Type::Literal(text) = part { Some(text.clone()) } else { None })
                    .collect(),
                _ => None,
            }
        };
        let required = object.members.iter().filter(|member| !member.optional);
        Self {
            names: object.members.iter().map(|member| member.name).collect(),
            closed: object.rest == Type::Never && !object.lenient && !object.members.is_empty(),
            patterns: !object.patterns.is_empty(),
            any_name: object.rest != Type::Never,
            tags: required.filter_map(|member| Some((member.name, literals(&member.value)?))).collect(),
        }
    }
}

/// Rules out, in each closed alternative, the members of the others.
pub(crate) fn tell_apart<'a>(value: &mut Type<'a>, of_alias: &[Option<Outline<'a>>]) {
    match value {
        Type::Union(parts) => {
            parts.iter_mut().for_each(|part| tell_apart(part, of_alias));
            alternatives(parts, of_alias);
        }
        Type::Intersection(parts) => parts.iter_mut().for_each(|part| tell_apart(part, of_alias)),
        Type::List(list) => {
            let List { items, rest, .. } = &mut **list;
            items.iter_mut().chain([rest]).for_each(|item| tell_apart(item, of_alias));
        }
        Type::Object(object) => {
            object.members.iter_mut().for_each(|member| tell_apart(&mut member.value, of_alias));
            object.patterns.iter_mut().for_each(|pattern| tell_apart(&mut pattern.value, of_alias));
            tell_apart(&mut object.rest, of_alias);
        }
        Type::Unknown(_) | Type::Never | Type::Named(_) | Type::Literal(_) | Type::But(_) | Type::Alias(_) => {}
    }
}

fn alternatives<'a>(parts: &mut [Type<'a>], of_alias: &[Option<Outline<'a>>]) {
    let outlines: Vec<_> = parts.iter().map(|part| Outline::of(part, of_alias)).collect();
    let objects: Vec<_> = outlines.iter().flatten().collect();
    if objects.len() < 2 || !objects.iter().any(|one| one.closed) || discriminated(&objects) {
        return;
    }
    let names: BTreeSet<&str> = objects.iter().flat_map(|one| one.names.iter().copied()).collect();
    let open = objects.iter().any(|one| one.any_name);
    for (part, outline) in parts.iter_mut().zip(&outlines) {
        let Some(outline) = outline.as_ref().filter(|outline| outline.closed) else { continue };
        if let (true, Type::Object(object)) = (open, &mut *part)
            && object.patterns.is_empty()
        {
            // The compiler finds any member known that an open alternative may have. It can at least be
            // held to the types that are there.
            let held = Type::union(object.members.iter().map(|member| member.value.clone()));
            if !matches!(held, Type::Unknown(_) | Type::But(_)) {
                object.rest = held;
            }
        }
        let others: Vec<_> = names.difference(&outline.names).copied().collect();
        if others.is_empty() || others.len() > MOST {
            continue;
        }
        let never = others.into_iter().map(|name| Member::new(name, true, Type::Never));
        if let Type::Object(object) = part {
            let by_pattern = |name: &str| object.patterns.iter().any(|pattern| pattern.keys.covers(name));
            let never: Vec<_> = never.filter(|member| !by_pattern(member.name)).collect();
            object.members.extend(never);
        } else if !outline.patterns {
            let never = Object { beside: true, ..Object::with(never.collect()) };
            *part = Type::Intersection(vec![part.clone(), Type::object(never)]);
        }
    }
}

/// Does a member tell them all apart? Then the compiler looks into the right one by itself.
fn discriminated(objects: &[&Outline<'_>]) -> bool {
    objects[0].tags.keys().any(|tag| {
        let mut seen = BTreeSet::new();
        objects.iter().all(|one| one.tags.get(tag).is_some_and(|texts| texts.iter().all(|text| seen.insert(text))))
    })
}
