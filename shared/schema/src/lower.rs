use serde_json::{Map, Value};

use crate::{
    alias::Aliases,
    document::{self, Document},
    kinds::Kinds,
    literal,
    ty::{Tuple, Type},
};

/// Levels of one schema that are expressed; below, it is `unknown`. A `$ref` starts again at 0.
pub(crate) const DEPTH: usize = 64;
/// Schemas and literals of one document that are expressed.
const NODES: usize = 20_000;
/// A longer tuple is written as an array.
const LONGEST_TUPLE: usize = 64;

/// Turns the schemas of one document into types.
#[derive(Debug)]
pub(crate) struct Lowering<'a, 't> {
    document: Document<'a>,
    aliases: &'t mut Aliases<'a>,
    /// What the alias of the whole document is called, should it refer to itself.
    label: &'t str,
    nodes_left: usize,
    /// Are doc comments wanted?
    pub(crate) docs: bool,
}

impl<'a, 't> Lowering<'a, 't> {
    pub(crate) fn new(root: &'a Value, label: &'t str, aliases: &'t mut Aliases<'a>, docs: bool) -> Self {
        aliases.start_document();
        Self { document: Document::new(root), aliases, label, nodes_left: NODES, docs }
    }

    /// The type of the whole document, and of all that it refers to. `default` is what a document
    /// without a `type` is about.
    pub(crate) fn run(mut self, default: Kinds) -> Type<'a> {
        let root = self.document.root;
        let within = if root.get("type").is_some() { Kinds::ALL } else { default };
        let lowered = self.schema(root, within, 0);
        while let Some((alias, target)) = self.aliases.next_pending() {
            let lowered = self.schema(target, Kinds::ALL, 0);
            self.aliases.define(alias, lowered, target, self.docs);
        }
        lowered
    }

    /// `within` is what the place where `schema` stands allows already.
    pub(crate) fn schema(&mut self, schema: &'a Value, within: Kinds, depth: usize) -> Type<'a> {
        if depth > DEPTH {
            return Type::Unknown(Some("nested too deep"));
        }
        if !self.spend(1) {
            return Type::Unknown(Some("schema too large"));
        }
        match schema {
            Value::Bool(false) => Type::Never,
            Value::Object(map) => self.keywords(map, within, depth),
            _ => self.anything(within),
        }
    }

    /// False when the document has used up what it may.
    fn spend(&mut self, nodes: usize) -> bool {
        let enough = self.nodes_left >= nodes;
        self.nodes_left = self.nodes_left.saturating_sub(nodes);
        enough
    }

    fn keywords(&mut self, map: &'a Map<String, Value>, within: Kinds, depth: usize) -> Type<'a> {
        let mut parts = Vec::new();
        if let Some(reference) = document::reference(map) {
            let target = self.reference(reference);
            if self.document.ref_stands_alone {
                return target;
            }
            parts.push(target);
        }
        let kinds = Kinds::declared(map).map_or(within, |kinds| kinds.and(within));
        if kinds == Kinds::NONE || refuses_everything(map.get("not")) {
            return Type::Never;
        }
        if let Some(Value::Array(values)) = map.get("enum") {
            parts.push(self.values(values, kinds));
        }
        if let Some(value) = map.get("const") {
            parts.push(self.values(std::slice::from_ref(value), kinds));
        }
        if let Some(Value::Array(all)) = map.get("allOf") {
            parts.extend(all.iter().map(|one| self.schema(one, kinds, depth + 1)));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(alternatives)) =
                map.get(keyword).filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
            {
                parts.push(Type::union(alternatives.iter().map(|one| self.schema(one, kinds, depth + 1))));
            }
        }
        // What the parts say is within `kinds` already; the schema's own shape is needed only where it
        // adds something.
        if has_shape(map) || parts.iter().all(|part| matches!(part, Type::Unknown(_))) {
            let kinds = if kinds == Kinds::ALL { Kinds::inferred(map) } else { kinds };
            let reason = parts.iter().find_map(|part| if let Type::Unknown(reason) = part { *reason } else { None });
            match self.shape(map, kinds, depth) {
                Type::Unknown(None) => parts.push(Type::Unknown(reason)),
                shape => parts.insert(0, shape),
            }
        }
        Type::intersection(parts)
    }

    fn reference(&mut self, reference: &str) -> Type<'a> {
        match self.document.resolve(reference) {
            Some(target) => Type::Alias(self.aliases.of(&self.document, reference, target, self.label)),
            None if reference.starts_with('#') => Type::Unknown(Some("$ref to nothing")),
            None => Type::Unknown(Some("remote $ref")),
        }
    }

    fn values(&mut self, values: &'a [Value], kinds: Kinds) -> Type<'a> {
        if !self.spend(values.iter().map(literal::nodes).sum()) {
            return Type::Unknown(Some("schema too large"));
        }
        Type::union(values.iter().filter(|value| kinds.has(Kinds::of_value(value))).map(|value| literal::of(value, 0)))
    }

    fn anything(&self, kinds: Kinds) -> Type<'a> {
        if kinds == Kinds::ALL {
            return Type::ANY_VALUE;
        }
        Type::union(each(kinds).map(|kind| match kind {
            Kinds::OBJECT => Type::open_object(),
            Kinds::ARRAY => Type::Array(Box::new(Type::ANY_VALUE)),
            scalar => named(scalar),
        }))
    }

    /// What the schema says by itself about values of these kinds.
    fn shape(&mut self, map: &'a Map<String, Value>, kinds: Kinds, depth: usize) -> Type<'a> {
        if kinds == Kinds::ALL {
            return Type::ANY_VALUE;
        }
        let parts: Vec<_> = each(kinds)
            .map(|kind| match kind {
                Kinds::OBJECT => self.object(map, depth),
                Kinds::ARRAY => self.array(map, depth),
                scalar => named(scalar),
            })
            .collect();
        Type::union(parts)
    }

    fn array(&mut self, map: &'a Map<String, Value>, depth: usize) -> Type<'a> {
        let count =
            |keyword| map.get(keyword).and_then(Value::as_u64).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let (prefix, rest) = match (map.get("prefixItems"), map.get("items")) {
            (Some(Value::Array(prefix)), rest) => (prefix.as_slice(), rest),
            (_, Some(Value::Array(prefix))) => (prefix.as_slice(), map.get("additionalItems")),
            (_, items) => (&[][..], items),
        };
        let rest = rest.map_or(Type::ANY_VALUE, |rest| self.schema(rest, Kinds::ALL, depth + 1));
        if prefix.is_empty() && rest != Type::Never {
            return Type::Array(Box::new(rest));
        }
        let longest = count("maxItems").unwrap_or(usize::MAX);
        let items: Vec<_> = prefix.iter().take(longest).map(|item| self.schema(item, Kinds::ALL, depth + 1)).collect();
        if items.len() > LONGEST_TUPLE {
            return Type::Array(Box::new(Type::union(items.into_iter().chain([rest]))));
        }
        let required = count("minItems").unwrap_or(0).min(items.len());
        let rest = (rest != Type::Never && longest > items.len()).then_some(rest);
        Type::Tuple(Box::new(Tuple { items, required, rest }))
    }
}

fn each(kinds: Kinds) -> impl Iterator<Item = Kinds> {
    [Kinds::OBJECT, Kinds::ARRAY, Kinds::STRING, Kinds::NUMBER, Kinds::BOOLEAN, Kinds::NULL]
        .into_iter()
        .filter(move |kind| kinds.has(*kind))
}

fn named<'a>(scalar: Kinds) -> Type<'a> {
    Type::Named(match scalar {
        Kinds::STRING => "string",
        Kinds::NUMBER => "number",
        Kinds::BOOLEAN => "boolean",
        _ => "null",
    })
}

/// Does the schema itself say what is inside an object or an array?
fn has_shape(map: &Map<String, Value>) -> bool {
    let says = |keyword| match map.get(keyword) {
        None | Some(Value::Bool(true)) => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
        Some(_) => true,
    };
    ["properties", "required", "additionalProperties", "patternProperties", "items", "prefixItems"]
        .into_iter()
        .any(says)
}

/// `{"not": {}}` is how some generators write "nothing".
fn refuses_everything(not: Option<&Value>) -> bool {
    match not {
        Some(Value::Bool(everything)) => *everything,
        Some(Value::Object(map)) => map.is_empty(),
        _ => false,
    }
}
