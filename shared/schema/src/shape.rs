//! What results looked like: their keys and types, never a value, never a key that is data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::key;

/// Levels of a result that are looked at.
const DEPTH: u8 = 8;
/// Shapes that one tool's observation holds.
const NODES: usize = 2_000;
/// Members of an object that are kept by name; one with more is a map.
const MEMBERS: usize = 128;
/// An object with this many members that are objects or arrays of one shape is a map; and with this many
/// scalars of one type.
const ALIKE: usize = 8;
const ALIKE_SCALARS: usize = 32;
/// Seen over several results: with so many members that are not always there and are objects or arrays, or
/// with so many members of which none is always there, it is a map, too.
const SOMETIMES: usize = 6;
const NEVER_ALWAYS: usize = 12;
/// Tools of one toolset that are observed.
const TOOLS: usize = 2_000;
/// The largest integer up to which a double holds every one.
const EXACT: u64 = 1 << 53;

/// What values looked like. Shapes form a semilattice: [`Shape::join`] is associative, commutative and
/// idempotent, so that nodes may merge what they saw in any order, and more than once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) null: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) boolean: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) number: bool,
    /// An integer that a double would round, which a script gets as a `bigint`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) bigint: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) string: bool,
    /// Something that was not looked into.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) any: bool,
    /// The items of arrays. The empty shape: only empty ones were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) items: Option<Box<Shape>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) object: Option<Members>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Members {
    Named(BTreeMap<String, Member>),
    /// The keys are data, and are not kept.
    Map(Box<Shape>),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// In every object that was seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) required: bool,
    pub(crate) shape: Shape,
}

impl Shape {
    fn of(value: &Value, depth: u8) -> Self {
        let nothing = Self::default();
        if depth == 0 && (value.is_array() || value.is_object()) {
            return Self { any: true, ..nothing };
        }
        match value {
            Value::Null => Self { null: true, ..nothing },
            Value::Bool(_) => Self { boolean: true, ..nothing },
            Value::String(_) => Self { string: true, ..nothing },
            Value::Number(number) => Self { bigint: is_rounded(number), number: !is_rounded(number), ..nothing },
            Value::Array(items) => {
                let items = items.iter().fold(Self::default(), |seen, item| seen.join(Self::of(item, depth - 1)));
                Self { items: Some(Box::new(items)), ..nothing }
            }
            Value::Object(members) => {
                let members = members
                    .iter()
                    .map(|(name, value)| (name.clone(), Member { required: true, shape: Self::of(value, depth - 1) }));
                Self { object: Some(Members::of(members.collect())), ..nothing }
            }
        }
    }

    /// The least shape that covers both.
    #[must_use]
    pub(crate) fn join(self, other: Self) -> Self {
        let items = match (self.items, other.items) {
            (Some(one), Some(two)) => Some(Box::new(one.join(*two))),
            (one, two) => one.or(two),
        };
        let object = match (self.object, other.object) {
            (Some(one), Some(two)) => Some(one.join(two)),
            (one, two) => one.or(two),
        };
        let joined = Self {
            null: self.null || other.null,
            boolean: self.boolean || other.boolean,
            number: self.number || other.number,
            bigint: self.bigint || other.bigint,
            string: self.string || other.string,
            any: self.any || other.any,
            items,
            object,
        };
        joined.normal()
    }

    /// What was once not looked into swallows what was.
    fn normal(self) -> Self {
        if self.any { Self { any: true, ..Self::default() } } else { self }
    }

    /// Without what lies deeper than `depth` levels.
    fn cut(&mut self, depth: u8) {
        if depth == 0 {
            if self.items.is_some() || self.object.is_some() || self.any {
                *self = Self { any: true, ..Self::default() };
            }
            return;
        }
        if let Some(items) = &mut self.items {
            items.cut(depth - 1);
        }
        match &mut self.object {
            None => {}
            Some(Members::Map(values)) => values.cut(depth - 1),
            Some(Members::Named(members)) => members.values_mut().for_each(|member| member.shape.cut(depth - 1)),
        }
    }

    fn nodes(&self) -> usize {
        let items = self.items.as_ref().map_or(0, |items| items.nodes());
        let members = match &self.object {
            None => 0,
            Some(Members::Map(values)) => values.nodes(),
            Some(Members::Named(members)) => members.values().map(|member| member.shape.nodes()).sum(),
        };
        1 + items + members
    }

    fn is_scalar(&self) -> bool {
        self.items.is_none() && self.object.is_none() && !self.any
    }
}

impl Members {
    /// Of one object.
    fn of(members: BTreeMap<String, Member>) -> Self {
        let alike = members.values().next().is_some_and(|first| {
            let enough = if first.shape.is_scalar() { ALIKE_SCALARS } else { ALIKE };
            members.len() >= enough && members.values().all(|member| member.shape == first.shape)
        });
        if alike { Self::map(members) } else { Self::bounded(members) }
    }

    fn bounded(members: BTreeMap<String, Member>) -> Self {
        // Each of these stays true when more is seen, so that the order of joining does not matter.
        let sometimes = members.values().filter(|member| !member.required && !member.shape.is_scalar()).count();
        let never_always = members.len() >= NEVER_ALWAYS && members.values().all(|member| !member.required);
        if members.len() > MEMBERS
            || sometimes >= SOMETIMES
            || never_always
            || members.keys().any(|name| key::is_data(name))
        {
            Self::map(members)
        } else {
            Self::Named(members)
        }
    }

    fn map(members: BTreeMap<String, Member>) -> Self {
        Self::Map(Box::new(members.into_values().fold(Shape::default(), |seen, member| seen.join(member.shape))))
    }

    fn join(self, other: Self) -> Self {
        let values = |members| match Self::map(members) {
            Self::Map(values) => *values,
            Self::Named(_) => Shape::default(),
        };
        match (self, other) {
            (Self::Named(one), Self::Named(two)) => Self::bounded(join_members(one, two)),
            (Self::Map(one), Self::Map(two)) => Self::Map(Box::new(one.join(*two))),
            (Self::Map(map), Self::Named(named)) | (Self::Named(named), Self::Map(map)) => {
                Self::Map(Box::new(map.join(values(named))))
            }
        }
    }
}

fn join_members(mut one: BTreeMap<String, Member>, two: BTreeMap<String, Member>) -> BTreeMap<String, Member> {
    for (name, member) in &mut one {
        member.required &= two.contains_key(name);
    }
    for (name, mut member) in two {
        match one.remove(&name) {
            Some(known) => {
                member.required &= known.required;
                member.shape = known.shape.join(member.shape);
            }
            None => member.required = false,
        }
        one.insert(name, member);
    }
    one
}

fn is_rounded(number: &Number) -> bool {
    match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(integer), ..) => integer > EXACT && integer as f64 as u128 != u128::from(integer),
        (_, Some(integer), _) => integer.unsigned_abs() > EXACT && integer as f64 as i128 != i128::from(integer),
        // Too large for 64 bits: an integer, for all that is known.
        (_, _, Some(double)) => double.fract() == 0.0 && double.abs() >= 2_f64.powi(63),
        _ => false,
    }
}

/// What the results of one tool looked like so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    /// Results that were looked at. An estimate: a node that dies takes its last ones with it.
    pub results: u64,
    /// Levels that are kept, so that the whole stays small. It only ever falls.
    depth: u8,
    pub(crate) shape: Shape,
}

impl Observed {
    /// One result.
    pub fn of(result: &Value) -> Self {
        Self { results: 1, depth: DEPTH, shape: Shape::of(result, DEPTH) }.bounded()
    }

    /// Both.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        let depth = self.depth.min(other.depth);
        let results = self.results.saturating_add(other.results);
        Self { results, depth, shape: self.shape.join(other.shape) }.bounded()
    }

    /// Does it say the same of results, whatever their number?
    pub fn same_shape(&self, other: &Self) -> bool {
        self.depth == other.depth && self.shape == other.shape
    }

    /// With fewer levels; without any, all that is said of an object is that it was one.
    fn shallower(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.shape.cut(self.depth);
    }

    fn bounded(mut self) -> Self {
        self.shape.cut(self.depth);
        while self.shape.nodes() > NODES && self.depth > 0 {
            self.shallower();
        }
        self
    }
}

/// What the results of a toolset's tools looked like; by `export.name`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observations {
    /// Version of this document's format: 1.
    pub v: u32,
    #[serde(default)]
    pub tools: BTreeMap<String, Observed>,
}

impl Observations {
    /// Bytes of JSON of the whole, about; tools lose their deepest levels to stay below.
    const LARGEST: usize = 256 << 10;

    /// Takes `more` into account.
    pub fn merge(&mut self, more: &Self) {
        self.v = 1;
        for (tool, observed) in &more.tools {
            if self.tools.len() >= TOOLS && !self.tools.contains_key(tool) {
                continue;
            }
            let joined = match self.tools.remove(tool) {
                Some(known) => known.join(observed.clone()),
                None => observed.clone(),
            };
            self.tools.insert(tool.clone(), joined);
        }
        // A shape takes about 60 bytes, its name among them.
        let size = |observed: &Observed| observed.shape.nodes() * 60 + 100;
        while self.tools.values().map(size).sum::<usize>() > Self::LARGEST {
            let largest =
                self.tools.values_mut().filter(|observed| observed.depth > 0).max_by_key(|observed| size(observed));
            match largest {
                Some(largest) => largest.shallower(),
                None => break,
            };
        }
    }
}
