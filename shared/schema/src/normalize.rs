use serde_json::{Map, Value};

use crate::keyword;

/// Deeper schemas are refused anyway ([`crate::check_schema`]), so what lies below keeps its order.
const DEPTH: usize = 128;

/// Puts what is a set in JSON Schema (`required`, `type`, `enum`, and the names of
/// `dependentRequired`) in one order, without duplicates, so that a server that lists the same
/// schema in another order gives the same toolset id.
///
/// Only where a schema stands: a *property* called `required`, and the data inside `const`,
/// `default`, `examples` and `enum` members, stay as they are.
pub fn normalize(mut schema: Value) -> Value {
    normalize_at(&mut schema, 0);
    schema
}

fn normalize_at(schema: &mut Value, depth: usize) {
    let Value::Object(map) = schema else { return };
    if depth > DEPTH {
        return;
    }
    for keyword in ["required", "type", "enum"] {
        if let Some(Value::Array(set)) = map.get_mut(keyword) {
            sort_set(set);
        }
    }
    for keyword in ["dependentRequired", "dependencies"] {
        if let Some(Value::Object(members)) = map.get_mut(keyword) {
            sort_members(members);
        }
    }
    keyword::for_each_child_mut(map, |child| normalize_at(child, depth + 1));
}

fn sort_members(members: &mut Map<String, Value>) {
    for value in members.values_mut() {
        if let Value::Array(set) = value {
            sort_set(set);
        }
    }
}

/// By their canonical text: any total order does, as long as it is a function of the values alone.
fn sort_set(set: &mut Vec<Value>) {
    set.sort_by_cached_key(canonical);
    set.dedup_by_key(|value| canonical(value));
}

/// JSON with sorted members, whatever order the map type keeps.
fn canonical(value: &Value) -> String {
    let mut sorted = value.clone();
    sorted.sort_all_objects();
    sorted.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_sets_does_not_matter() {
        let one = json!({"type": ["string", "null"], "required": ["b", "a", "b"], "enum": [{"y": 1, "x": 2}, "k", null],
            "properties": {"p": {"enum": ["z", "a"]}}, "allOf": [{"required": ["d", "c"]}],
            "dependentRequired": {"a": ["z", "y"]}});
        let two = json!({"type": ["null", "string"], "required": ["a", "b"], "enum": [null, {"x": 2, "y": 1}, "k"],
            "properties": {"p": {"enum": ["a", "z"]}}, "allOf": [{"required": ["c", "d"]}],
            "dependentRequired": {"a": ["y", "z"]}});
        assert_eq!(normalize(one), normalize(two.clone()));
        assert_eq!(normalize(normalize(two.clone())), normalize(two));
    }

    #[test]
    fn data_and_properties_named_like_keywords_stay() {
        let schema = json!({
            "properties": {"required": {"default": ["b", "a"]}, "enum": {"const": {"enum": ["b", "a"]}}},
            "default": {"required": ["b", "a"]}, "examples": [{"enum": ["b", "a"]}], "prefixItems": [{"const": ["b", "a"]}],
        });
        assert_eq!(normalize(schema.clone()), schema);
    }

    #[test]
    fn the_order_of_alternatives_and_tuples_stays() {
        let schema = json!({"anyOf": [{"type": "string"}, {"type": "null"}], "prefixItems": [{"type": "string"}, {}]});
        assert_eq!(normalize(schema.clone()), schema);
    }
}
