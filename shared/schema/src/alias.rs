use std::collections::{HashMap, HashSet};

use rewind_model::Digest;
use serde_json::{Map, Value};

use crate::{
    doc::Doc,
    document::{self, Document},
    exclusive::{self, Outline},
    keyword, name,
    ty::Type,
};

/// Definitions that are looked at to find out which ones several documents share: for one definition,
/// and for all of a document; and the bytes of what one reaches.
const SHARED_REACH: usize = 64;
const SHARED_STEPS: usize = 2_000;
const SHARED_BYTES: usize = 16 << 10;
/// Members that the cross product of an intersection of unions may have. The compiler gives up
/// (TS2590) at 100,000, and is slow long before.
const COMBINATIONS: u64 = 5_000;

/// A named type.
#[derive(Debug)]
pub(crate) struct Alias<'a> {
    pub(crate) name: String,
    pub(crate) value: Type<'a>,
    pub(crate) doc: Doc<'a>,
    /// Is `{}` of this type? Known once the aliases are settled.
    accepts_empty: bool,
}

/// The named types of the module: one for each schema that a `$ref` names, and the same one for the
/// same definition in several tools.
#[derive(Debug, Default)]
pub(crate) struct Aliases<'a> {
    all: Vec<Alias<'a>>,
    /// By what the definition and everything it reaches say.
    by_content: HashMap<Digest, usize>,
    /// How often each name has been wanted.
    names: HashMap<String, usize>,
    taken: HashSet<String>,
    /// Of the document at hand, by the address of the schema.
    in_document: HashMap<*const Value, usize>,
    pending: Vec<(usize, &'a Value)>,
    /// Of [`SHARED_STEPS`].
    steps_left: usize,
}

impl<'a> Aliases<'a> {
    /// `taken` are names that the module uses already.
    pub(crate) fn new(taken: &[&str]) -> Self {
        Self { taken: taken.iter().map(|name| (*name).to_owned()).collect(), ..Self::default() }
    }

    pub(crate) fn start_document(&mut self) {
        self.in_document.clear();
        self.steps_left = SHARED_STEPS;
    }

    /// The alias of `target`, which `reference` names in `document`.
    pub(crate) fn of(&mut self, document: &Document<'a>, reference: &str, target: &'a Value, label: &str) -> usize {
        let address = std::ptr::from_ref(target);
        if let Some(known) = self.in_document.get(&address) {
            return *known;
        }
        let content = content(document, reference, target, &mut self.steps_left);
        let shared = content.and_then(|content| self.by_content.get(&content).copied());
        let index = shared.unwrap_or_else(|| {
            let index = self.all.len();
            let last = reference.rsplit(['/', '#']).next().unwrap_or_default();
            let title = target.get("title").and_then(Value::as_str).unwrap_or_default();
            let name = self.fresh_name([last, title, label]);
            self.all.push(Alias { name, value: Type::ANY_VALUE, doc: Doc::default(), accepts_empty: true });
            self.pending.push((index, target));
            if let Some(content) = content {
                self.by_content.insert(content, index);
            }
            index
        });
        self.in_document.insert(address, index);
        index
    }

    pub(crate) fn next_pending(&mut self) -> Option<(usize, &'a Value)> {
        self.pending.pop()
    }

    pub(crate) fn define(&mut self, index: usize, value: Type<'a>, target: &'a Value, docs: bool) {
        self.all[index].value = value;
        if docs {
            self.all[index].doc = Doc::of(target);
        }
    }

    /// A further named type, settled already.
    pub(crate) fn add(&mut self, wish: &str, value: Type<'a>) -> usize {
        let accepts_empty = self.accept_empty(&value);
        let name = self.fresh_name([wish, "", ""]);
        self.all.push(Alias { name, value, doc: Doc::default(), accepts_empty });
        self.all.len() - 1
    }

    pub(crate) fn each_value(&mut self, change: impl FnMut(&mut Type<'a>)) {
        self.all.iter_mut().map(|alias| &mut alias.value).for_each(change);
    }

    /// By index: is the alias part of one of `types`?
    pub(crate) fn reached<'t>(&self, types: impl Iterator<Item = &'t Type<'a>>) -> Vec<bool>
    where
        'a: 't,
    {
        let mut reached = vec![false; self.all.len()];
        let mut open = Vec::new();
        types.for_each(|value| aliases_in(value, &mut open));
        while let Some(index) = open.pop() {
            if !std::mem::replace(&mut reached[index], true) {
                aliases_in(&self.all[index].value, &mut open);
            }
        }
        reached
    }

    pub(crate) fn get(&self, index: usize) -> &Alias<'a> {
        &self.all[index]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Alias<'a>> {
        self.all.iter()
    }

    /// From the first of `wishes` (a reference's end, a title, a label) that has a letter in it.
    fn fresh_name(&mut self, wishes: [&str; 3]) -> String {
        let wanted = wishes.into_iter().map(name::type_name).find(|name| !name.is_empty());
        let wanted = wanted.unwrap_or_else(|| "Type".to_owned());
        let count = self.names.entry(wanted.clone()).or_default();
        loop {
            *count += 1;
            let name = if *count == 1 { wanted.clone() } else { format!("{wanted}_{count}") };
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Makes the aliases and `types`, which use them, acceptable to the compiler: no alias that is
    /// nothing but itself, no intersection whose members multiply.
    pub(crate) fn settle<'t>(&mut self, types: impl Iterator<Item = &'t mut Type<'a>>)
    where
        'a: 't,
    {
        let order = self.break_cycles();
        let mut sizes = vec![1; self.all.len()];
        for index in order.iter().copied() {
            sizes[index] = size(&self.all[index].value, &sizes);
        }
        for alias in &mut self.all {
            limit(&mut alias.value, &sizes);
        }
        for index in order {
            self.all[index].accepts_empty = self.accept_empty(&self.all[index].value);
        }
        let outlines = self.outlines();
        for alias in &mut self.all {
            exclusive::tell_apart(&mut alias.value, &outlines);
        }
        for used in types {
            limit(used, &sizes);
            exclusive::tell_apart(used, &outlines);
        }
    }

    fn outlines(&self) -> Vec<Option<Outline<'a>>> {
        let of_value = |alias: &Alias<'a>| Outline::of(&alias.value, &[]);
        self.all.iter().map(of_value).collect()
    }

    /// Is `{}` of this type, so that an argument of it may be left out?
    pub(crate) fn accept_empty(&self, value: &Type<'a>) -> bool {
        match value {
            Type::Unknown(_) => true,
            Type::Object(object) => object.members.iter().all(|member| member.optional),
            Type::But(_) => true,
            Type::Union(parts) => parts.iter().any(|part| self.accept_empty(part)),
            Type::Intersection(parts) => parts.iter().all(|part| self.accept_empty(part)),
            Type::Alias(index) => self.all[*index].accepts_empty,
            Type::Never | Type::Named(_) | Type::Literal(_) | Type::List(_) => false,
        }
    }

    /// An alias that reaches itself without an object or an array in between has no value (TS2456).
    /// Answers the others in an order in which each comes after those that it consists of.
    fn break_cycles(&mut self) -> Vec<usize> {
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.all.len()];
        let mut open = vec![0_usize; self.all.len()];
        for (index, alias) in self.all.iter().enumerate() {
            let mut parts = HashSet::new();
            parts_of(&alias.value, &mut parts);
            open[index] = parts.len();
            parts.into_iter().for_each(|part| users[part].push(index));
        }
        let mut order: Vec<usize> = (0..self.all.len()).filter(|index| open[*index] == 0).collect();
        let mut at = 0;
        while let Some(index) = order.get(at).copied() {
            at += 1;
            for user in std::mem::take(&mut users[index]) {
                open[user] -= 1;
                if open[user] == 0 {
                    order.push(user);
                }
            }
        }
        for (alias, open) in self.all.iter_mut().zip(open) {
            if open > 0 {
                alias.value = Type::Unknown(Some("$ref to itself"));
            }
        }
        order
    }
}

fn aliases_in(value: &Type<'_>, found: &mut Vec<usize>) {
    match value {
        Type::Alias(index) => found.push(*index),
        Type::List(list) => list.items.iter().chain([&list.rest]).for_each(|item| aliases_in(item, found)),
        Type::Object(object) => {
            object.members.iter().for_each(|member| aliases_in(&member.value, found));
            object.patterns.iter().for_each(|pattern| aliases_in(&pattern.value, found));
            aliases_in(&object.rest, found);
        }
        Type::Union(parts) | Type::Intersection(parts) => parts.iter().for_each(|part| aliases_in(part, found)),
        Type::Unknown(_) | Type::Never | Type::Named(_) | Type::Literal(_) | Type::But(_) => {}
    }
}

/// The aliases that the compiler looks into to know `value`. It does not look into objects and arrays,
/// except arrays in an intersection and what repeats at the end of a tuple.
fn parts_of(value: &Type<'_>, parts: &mut HashSet<usize>) {
    match value {
        Type::Alias(index) => {
            parts.insert(*index);
        }
        Type::Union(list) => list.iter().for_each(|part| parts_of(part, parts)),
        Type::Intersection(list) => {
            for part in list {
                match part {
                    Type::List(list) => list.items.iter().chain([&list.rest]).for_each(|item| parts_of(item, parts)),
                    other => parts_of(other, parts),
                }
            }
        }
        Type::List(list) if !list.items.is_empty() => {
            parts_of(&list.rest, parts);
            list.items.iter().for_each(|item| parts_of_tuples(item, parts));
        }
        Type::Unknown(_)
        | Type::Never
        | Type::Named(_)
        | Type::Literal(_)
        | Type::But(_)
        | Type::List(_)
        | Type::Object(_) => {}
    }
}

/// As [`parts_of`], of the tuples that an item of a tuple is: what repeats at their end is looked into
/// with the tuple around them.
fn parts_of_tuples(item: &Type<'_>, parts: &mut HashSet<usize>) {
    match item {
        Type::List(_) => parts_of(item, parts),
        Type::Union(list) => list.iter().for_each(|part| parts_of_tuples(part, parts)),
        Type::Unknown(_)
        | Type::Never
        | Type::Named(_)
        | Type::Literal(_)
        | Type::Alias(_)
        | Type::But(_)
        | Type::Intersection(_)
        | Type::Object(_) => {}
    }
}

/// How many members the compiler sees in `value` as a union.
fn size(value: &Type<'_>, sizes: &[u64]) -> u64 {
    match value {
        Type::Alias(index) => sizes[*index],
        Type::Union(list) => list.iter().map(|part| size(part, sizes)).fold(0, u64::saturating_add),
        Type::Intersection(list) => {
            let product = list.iter().map(|part| size(part, sizes)).fold(1, u64::saturating_mul);
            // It will not stay: see `limit`.
            if product > COMBINATIONS { 1 } else { product }
        }
        Type::Named("boolean") => 2,
        _ => 1,
    }
}

fn limit(value: &mut Type<'_>, sizes: &[u64]) {
    match value {
        Type::List(list) => list.items.iter_mut().chain([&mut list.rest]).for_each(|item| limit(item, sizes)),
        Type::Object(object) => {
            let members = object.members.iter_mut().map(|member| &mut member.value);
            let patterns = object.patterns.iter_mut().map(|pattern| &mut pattern.value);
            members.chain(patterns).chain([&mut object.rest]).for_each(|value| limit(value, sizes));
        }
        Type::Union(list) => list.iter_mut().for_each(|part| limit(part, sizes)),
        Type::Intersection(list) => {
            list.iter_mut().for_each(|part| limit(part, sizes));
            let product = list.iter().map(|part| size(part, sizes)).fold(1, u64::saturating_mul);
            if product > COMBINATIONS {
                *value = Type::Unknown(Some("too many combinations"));
            }
        }
        Type::Unknown(_) | Type::Never | Type::Named(_) | Type::Literal(_) | Type::But(_) | Type::Alias(_) => {}
    }
}

/// What `target` and all that it refers to say; `None` when that is too much to look at.
fn content<'a>(document: &Document<'a>, reference: &str, target: &'a Value, steps: &mut usize) -> Option<Digest> {
    let mut texts = vec![format!("{} {reference}", document.dialect)];
    let mut bytes = 0;
    let mut seen = HashSet::from([std::ptr::from_ref(target)]);
    let mut open = vec![target];
    while let Some(schema) = open.pop() {
        *steps = steps.checked_sub(1)?;
        let mut references = Vec::new();
        references_in(schema, 0, &mut references);
        for map in references {
            texts.push(document::reference(map)?.to_owned());
            if let Some(next) = document.target(map).flatten().filter(|next| seen.insert(std::ptr::from_ref(*next))) {
                open.push(next);
            }
        }
        let text = schema.to_string();
        bytes += text.len();
        texts.push(text);
        if seen.len() > SHARED_REACH || bytes > SHARED_BYTES {
            return None;
        }
    }
    Some(Digest::of_parts(texts.iter().map(String::as_bytes)))
}

/// The schemas inside `schema` that refer to another.
fn references_in<'s>(schema: &'s Value, depth: usize, found: &mut Vec<&'s Map<String, Value>>) {
    let Value::Object(map) = schema else { return };
    if depth > crate::lower::DEPTH {
        return;
    }
    found.extend(document::reference(map).map(|_| map));
    for child in keyword::children(map) {
        references_in(child, depth + 1, found);
    }
}
