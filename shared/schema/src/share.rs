//! What several tools say alike, said once: for the compact rendering.

use std::collections::{BTreeMap, HashMap};

use crate::{
    alias::Aliases,
    ty::{List, Member, Object, Type},
};

/// A type smaller than this is no longer than its name.
const SMALLEST: usize = 4;

/// How often a type is there, and the member that it was first seen as.
#[derive(Debug)]
struct Seen<'a> {
    count: usize,
    order: usize,
    name: &'a str,
}

/// Gives a name to what is there more than once inside `types`, and uses it.
pub(crate) fn share<'a>(aliases: &mut Aliases<'a>, types: &mut [&mut Type<'a>]) {
    let mut seen = HashMap::new();
    let own = aliases.iter().map(|alias| &alias.value);
    types.iter().map(|value| &**value).chain(own).for_each(|value| count_inside(value, "", &mut seen));
    let mut shared: Vec<_> = seen.into_iter().filter(|(_, seen)| seen.count > 1 && !seen.name.is_empty()).collect();
    shared.sort_by_key(|(_, seen)| seen.order);
    let shared: Vec<(Type<'a>, &str)> = shared.into_iter().map(|(value, seen)| (value.clone(), seen.name)).collect();
    let shared: HashMap<_, _> =
        shared.into_iter().map(|(value, name)| (value.clone(), aliases.add(name, value))).collect();
    if shared.is_empty() {
        return;
    }
    types.iter_mut().for_each(|value| replace_inside(value, &shared));
    aliases.each_value(|value| replace_inside(value, &shared));
}

fn count<'t, 'a>(value: &'t Type<'a>, name: &'a str, seen: &mut HashMap<&'t Type<'a>, Seen<'a>>) {
    if is_worth(value) {
        let order = seen.len();
        let known = seen.entry(value).or_insert(Seen { count: 0, order, name });
        known.count += 1;
        if known.count > 1 {
            return;
        }
    }
    count_inside(value, name, seen);
}

fn count_inside<'t, 'a>(value: &'t Type<'a>, name: &'a str, seen: &mut HashMap<&'t Type<'a>, Seen<'a>>) {
    match value {
        Type::List(list) => list.items.iter().chain([&list.rest]).for_each(|item| count(item, name, seen)),
        Type::Object(object) => {
            object.members.iter().for_each(|member| count(&member.value, member.name, seen));
            object.patterns.iter().for_each(|pattern| count(&pattern.value, name, seen));
            count(&object.rest, name, seen);
        }
        // A part of a union or an intersection is not named by itself: the rules for those look into it.
        Type::Union(parts) | Type::Intersection(parts) => parts.iter().for_each(|part| count_inside(part, name, seen)),
        _ => {}
    }
}

fn is_worth(value: &Type<'_>) -> bool {
    let literals = |parts: &[Type<'_>]| {
        parts.iter().map(|part| if let Type::Literal(text) = part { text.len() } else { 0 }).sum::<usize>()
    };
    match value {
        Type::Object(_) => value.size() > SMALLEST,
        Type::Union(parts) => value.size() > SMALLEST || literals(parts) > 30,
        _ => false,
    }
}

fn replace<'a>(value: &mut Type<'a>, shared: &HashMap<Type<'a>, usize>) {
    if let Some(alias) = is_worth(value).then(|| shared.get(value)).flatten() {
        *value = Type::Alias(*alias);
    } else {
        replace_inside(value, shared);
    }
}

fn replace_inside<'a>(value: &mut Type<'a>, shared: &HashMap<Type<'a>, usize>) {
    match value {
        Type::List(list) => {
            let List { items, rest, .. } = &mut **list;
            items.iter_mut().chain([rest]).for_each(|item| replace(item, shared));
        }
        Type::Object(object) => {
            object.members.iter_mut().for_each(|member| replace(&mut member.value, shared));
            object.patterns.iter_mut().for_each(|pattern| replace(&mut pattern.value, shared));
            replace(&mut object.rest, shared);
        }
        Type::Union(parts) | Type::Intersection(parts) => {
            parts.iter_mut().for_each(|part| replace_inside(part, shared))
        }
        _ => {}
    }
}

/// Arguments that a pair of members has to be in to get a name.
const MANY: usize = 12;
/// Pairs that get one.
const PAIRS: usize = 3;

/// Names the pairs of members that very many tools want (`owner` and `repo`), and uses them. What of further
/// members is allowed has to be known already: nothing is said of it afterwards.
pub(crate) fn share_members<'a>(aliases: &mut Aliases<'a>, arguments: &mut [&mut Type<'a>]) {
    for _ in 0..PAIRS {
        let mut counts: BTreeMap<[(&str, &str); 2], usize> = BTreeMap::new();
        for argument in arguments.iter() {
            let wanted = wanted(argument);
            for (at, one) in wanted.iter().enumerate() {
                wanted[at + 1..].iter().for_each(|other| *counts.entry([*one, *other]).or_default() += 1);
            }
        }
        let Some((pair, _)) = counts.into_iter().filter(|(_, count)| *count >= MANY).max_by_key(|(_, count)| *count)
        else {
            return;
        };
        let members = pair.map(|(name, kind)| Member::new(name, false, Type::Named(kind)));
        let common = Object { beside: true, ..Object::with(members.into()) };
        let alias = aliases.add(&format!("{}-{}", pair[0].0, pair[1].0), Type::object(common));
        for argument in arguments.iter_mut() {
            let wanted = wanted(argument);
            if pair.iter().all(|one| wanted.contains(one))
                && let Type::Object(object) = &mut **argument
            {
                object.members.retain(|member| !pair.iter().any(|(name, _)| *name == member.name));
                let rest = std::mem::replace(&mut **argument, Type::Alias(alias));
                if rest.size() > 1 {
                    **argument = Type::Intersection(vec![Type::Alias(alias), rest]);
                }
            }
        }
    }
}

/// The members that an argument has to have, of the simplest kinds, by name.
fn wanted<'a>(argument: &Type<'a>) -> Vec<(&'a str, &'static str)> {
    let Type::Object(object) = argument else { return Vec::new() };
    if !(object.beside || object.is_closed()) {
        return Vec::new();
    }
    let required = object.members.iter().filter(|member| !member.optional);
    required
        .filter_map(|member| if let Type::Named(kind) = member.value { Some((member.name, kind)) } else { None })
        .collect()
}
