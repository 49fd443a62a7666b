use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{
    alias::Aliases,
    document::Document,
    kinds::Kinds,
    literal,
    ty::{Object, Type},
};

/// Levels of one schema that are expressed; below, it is `unknown`. A `$ref` starts again at 0.
pub(crate) const DEPTH: usize = 64;
/// Levels at which the schema behind a `$ref` is still looked into.
const EXPANDED: usize = 24;
/// Schemas and literals of one document that are expressed.
const NODES: usize = 20_000;

/// Turns the schemas of one document into types.
#[derive(Debug)]
pub(crate) struct Lowering<'a, 't> {
    pub(crate) document: Document<'a>,
    aliases: &'t mut Aliases<'a>,
    /// What the alias of the whole document is called, should it refer to itself.
    label: &'t str,
    nodes_left: usize,
    depth: usize,
    targets: HashMap<usize, &'a Value>,
    /// What is known of the aliases that had to be looked into; `None` while that goes on.
    expanded: HashMap<usize, Option<Type<'a>>>,
    /// The aliases that are being looked into.
    pub(crate) inside: Vec<usize>,
    /// Does a name match a regular expression? By expression; `None` when it cannot be compiled.
    pub(crate) patterns: HashMap<&'a str, Option<jsonschema::Validator>>,
    /// Are doc comments wanted?
    pub(crate) docs: bool,
}

impl<'a, 't> Lowering<'a, 't> {
    pub(crate) fn new(root: &'a Value, label: &'t str, aliases: &'t mut Aliases<'a>, docs: bool) -> Self {
        aliases.start_document();
        Self {
            document: Document::new(root),
            aliases,
            label,
            nodes_left: NODES,
            depth: 0,
            targets: HashMap::new(),
            expanded: HashMap::new(),
            inside: Vec::new(),
            patterns: HashMap::new(),
            docs,
        }
    }

    /// The type of the whole document, and of all that it refers to. `default` is what a document
    /// without a `type` is about.
    pub(crate) fn run(mut self, default: Kinds) -> Type<'a> {
        let root = self.document.root;
        let mut lowered = self.schema(root, default, 0);
        if !matches!(lowered, Type::Alias(_)) && default != Kinds::ALL && root.get("type").is_none() {
            lowered = self.meet(Type::of_kinds(default), lowered);
        }
        while let Some((alias, target)) = self.aliases.next_pending() {
            let lowered = match self.expanded.remove(&alias) {
                Some(Some(known)) => known,
                _ => self.schema(target, Kinds::ALL, 0),
            };
            self.aliases.define(alias, lowered, target, self.docs);
        }
        lowered
    }

    /// `within` is what the place where `schema` stands allows already.
    pub(crate) fn schema(&mut self, schema: &'a Value, within: Kinds, depth: usize) -> Type<'a> {
        if depth > DEPTH || self.depth > DEPTH {
            return Type::Unknown(Some("nested too deep"));
        }
        if !self.spend(1) {
            return Type::Unknown(Some("schema too large"));
        }
        match schema {
            Value::Bool(false) => Type::Never,
            Value::Object(map) => {
                self.depth += 1;
                let lowered = self.keywords(map, within, depth);
                self.depth -= 1;
                lowered
            }
            _ => Type::ANY_VALUE,
        }
    }

    /// False when the document has used up what it may.
    pub(crate) fn spend(&mut self, nodes: usize) -> bool {
        let enough = self.nodes_left >= nodes;
        self.nodes_left = self.nodes_left.saturating_sub(nodes);
        enough
    }

    /// What the alias stands for; `None` where that is not known yet, for it refers to itself.
    pub(crate) fn expand(&mut self, alias: usize) -> Option<Type<'a>> {
        if let Some(known) = self.expanded.get(&alias) {
            return known.clone();
        }
        let target = *self.targets.get(&alias)?;
        if self.depth > EXPANDED {
            return None;
        }
        self.expanded.insert(alias, None);
        let inside = std::mem::take(&mut self.inside);
        let lowered = self.schema(target, Kinds::ALL, 0);
        self.inside = inside;
        self.expanded.insert(alias, Some(lowered.clone()));
        Some(lowered)
    }

    fn keywords(&mut self, map: &'a Map<String, Value>, within: Kinds, depth: usize) -> Type<'a> {
        let target = self.reference(map);
        if let (Some(target), true) = (&target, self.document.ref_stands_alone) {
            return target.clone();
        }
        let kinds = Kinds::declared(map).map_or(within, |kinds| kinds.and(within));
        if kinds == Kinds::NONE {
            return Type::Never;
        }
        // Does some keyword say more than the type does?
        let mut vague = matches!(target, Some(Type::Unknown(_)));
        let mut met = self.shape(map, kinds, depth);
        for part in target.into_iter().chain(self.values(map, kinds)) {
            met = self.meet(met, part);
        }
        for one in list(map, "allOf") {
            let one = self.schema(one, kinds, depth + 1);
            met = self.meet(met, one);
        }
        for alternatives in self.alternatives(map, kinds, depth, &mut vague) {
            met = self.refined(met, alternatives, map);
        }
        if let Some(not) = map.get("not") {
            let refused = self.negate(not, 0).unspoken();
            let narrowed = self.meet(met.clone(), refused);
            // What multiplies is not worth it.
            if narrowed.size() <= 2 * met.size() + 16 {
                met = narrowed;
            }
        }
        if vague { met } else { self.unevaluated(map, met, kinds, depth) }
    }

    /// `None` without a reference.
    fn reference(&mut self, map: &'a Map<String, Value>) -> Option<Type<'a>> {
        let (reference, target) = (crate::document::reference(map)?, self.document.target(map)?);
        Some(match target {
            Some(target) => {
                let alias = self.aliases.of(&self.document, reference, target, self.label);
                self.targets.insert(alias, target);
                Type::Alias(alias)
            }
            None if reference.starts_with('#') => Type::Unknown(Some("$ref to nothing")),
            None => Type::Unknown(Some("remote $ref")),
        })
    }

    fn values(&mut self, map: &'a Map<String, Value>, kinds: Kinds) -> Vec<Type<'a>> {
        let listed = map.get("enum").and_then(Value::as_array).map(Vec::as_slice);
        let one = map.get("const").filter(|_| self.document.dialect > 4).map(std::slice::from_ref);
        listed.into_iter().chain(one).map(|values| self.literals(values, kinds)).collect()
    }

    fn literals(&mut self, values: &'a [Value], kinds: Kinds) -> Type<'a> {
        if !self.spend(values.iter().map(literal::nodes).sum()) {
            return Type::Unknown(Some("schema too large"));
        }
        Type::union(values.iter().filter(|value| kinds.has(Kinds::of_value(value))).map(|value| literal::of(value, 0)))
    }

    /// What the schema says by itself about values of these kinds.
    fn shape(&mut self, map: &'a Map<String, Value>, kinds: Kinds, depth: usize) -> Type<'a> {
        let says = |keywords: &[&str]| has(map, keywords, self.document.asks_evaluated);
        let (object, array) = (says(&OBJECT_KEYWORDS), says(&ARRAY_KEYWORDS));
        if !map.contains_key("type") && !object && !array {
            return Type::ANY_VALUE;
        }
        let parts: Vec<_> = kinds
            .each()
            .map(|kind| match kind {
                Kinds::OBJECT if object => self.object(map, depth),
                Kinds::ARRAY if array => self.array(map, depth),
                other => Type::of_kind(other),
            })
            .collect();
        self.union(parts)
    }

    /// `met`, where one of the alternatives holds as well.
    fn refined(&mut self, met: Type<'a>, alternatives: Type<'a>, map: &'a Map<String, Value>) -> Type<'a> {
        if matches!(alternatives, Type::Unknown(_)) {
            return self.meet(met, alternatives);
        }
        let merged = self.meet(met.clone(), alternatives.clone());
        let closing = ["unevaluatedProperties", "unevaluatedItems"].iter().any(|keyword| map.contains_key(*keyword));
        if closing || !matches!(merged, Type::Union(_)) {
            return merged;
        }
        match self.beside(&met, alternatives) {
            Some(factored) if factored.size() + 4 < merged.size() => factored,
            _ => merged,
        }
    }

    /// An object that says all that is common, and beside it what the alternatives add.
    fn beside(&mut self, met: &Type<'a>, alternatives: Type<'a>) -> Option<Type<'a>> {
        let Type::Object(base) = met else { return None };
        let Type::Union(parts) = self.meet(Type::open_object(), alternatives) else { return None };
        let mut refining = Vec::new();
        for part in parts {
            let Type::Object(mut part) = part else { return None };
            let within = |part: &Object<'a>| part.members.iter().all(|member| base.member(member.name).is_some());
            if !part.is_open() || !(base.is_open() || within(&part)) {
                return None;
            }
            part.beside = true;
            for member in &mut part.members {
                let known = self.value_of(base, member.name);
                if self.disjoint(&known, &member.value) {
                    member.value = Type::Never;
                }
            }
            if part.members.iter().all(|member| member.optional || member.value != Type::Never) {
                refining.push(Type::object(*part));
            }
        }
        if refining.iter().any(|part| matches!(part, Type::Object(object) if object.members.is_empty())) {
            return Some(met.clone());
        }
        Some(Type::intersection([met.clone(), Type::union(refining)]))
    }
}

pub(crate) fn list<'a>(map: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    map.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

const OBJECT_KEYWORDS: [&str; 7] = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
    "maxProperties",
];
const ARRAY_KEYWORDS: [&str; 6] =
    ["items", "prefixItems", "additionalItems", "minItems", "maxItems", "unevaluatedItems"];

/// Does the schema itself say what is inside an object or an array?
fn has(map: &Map<String, Value>, keywords: &[&str], even_nothing: bool) -> bool {
    keywords.iter().any(|keyword| match map.get(*keyword) {
        None => false,
        Some(_) if even_nothing => true,
        Some(Value::Bool(true)) => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(members)) => !members.is_empty(),
        Some(_) => true,
    })
}
