use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::document::Document;

/// Schemas that checking one value may be held against when its errors are collected.
const MOST: u64 = 50_000;

/// Would collecting the errors of `value` take, and keep, too much?
///
/// Whether a value is valid is found in bounded time, for the validator remembers what it has seen.
/// Its errors are collected for each alternative of each alternative: where a recursive schema has two
/// of them for one member, their number doubles with each level of the value.
pub(crate) fn too_much(schema: &Value, value: &Value) -> bool {
    let document = Document::new(schema);
    let mut effort = Effort { document: &document, known: HashMap::new(), pairs_left: MOST };
    effort.of(schema, value) > MOST
}

struct Effort<'d, 'a> {
    document: &'d Document<'a>,
    /// By the addresses of schema and value.
    known: HashMap<(*const Value, *const Value), u64>,
    pairs_left: u64,
}

impl<'a> Effort<'_, 'a> {
    /// How often some schema is held against some part of `value`. Saturates.
    fn of(&mut self, schema: &'a Value, value: &Value) -> u64 {
        let Value::Object(map) = schema else { return 1 };
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&pair) {
            return *known;
        }
        self.pairs_left = self.pairs_left.saturating_sub(1);
        if self.pairs_left == 0 {
            return u64::MAX;
        }
        // What leads back here, for the same value, is not followed again.
        self.known.insert(pair, 1);
        let mut total = 1_u64;
        for part in self.document.in_place(map) {
            total = total.saturating_add(self.of(part, value));
        }
        total = total.saturating_add(match value {
            Value::Object(members) => self.members(map, members),
            Value::Array(items) => self.items(map, items),
            _ => 0,
        });
        self.known.insert(pair, total);
        total
    }

    fn members(&mut self, map: &'a Map<String, Value>, members: &Map<String, Value>) -> u64 {
        let mut total = 0_u64;
        for (name, value) in members {
            let own = map.get("properties").and_then(|properties| properties.get(name));
            let patterns = map.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values);
            let rest =
                ["additionalProperties", "unevaluatedProperties"].into_iter().filter_map(|keyword| map.get(keyword));
            for schema in own.into_iter().chain(patterns).chain(rest) {
                total = total.saturating_add(self.of(schema, value));
            }
        }
        total
    }

    fn items(&mut self, map: &'a Map<String, Value>, items: &[Value]) -> u64 {
        let mut total = 0_u64;
        for (at, value) in items.iter().enumerate() {
            let keywords = ["prefixItems", "items", "additionalItems", "contains", "unevaluatedItems"];
            for held in keywords.into_iter().filter_map(|keyword| map.get(keyword)) {
                let schema = if let Value::Array(prefix) = held { prefix.get(at) } else { Some(held) };
                total = total.saturating_add(schema.map_or(0, |schema| self.of(schema, value)));
            }
        }
        total
    }
}
