//! Which keywords of JSON Schema hold schemas. Everything else that a schema holds is data: a
//! member of `enum`, `const`, `default` or `examples` may look like a schema, and is none.

use serde_json::{Map, Value};

/// How a keyword holds schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// One schema, or an array of them (`items` before 2020-12).
    OneOrMany,
    /// An object whose members are schemas, or (`dependencies`) arrays of property names.
    Members,
    Nothing,
}

pub(crate) fn holds(keyword: &str) -> Holds {
    match keyword {
        "additionalItems"
        | "additionalProperties"
        | "allOf"
        | "anyOf"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "items"
        | "not"
        | "oneOf"
        | "prefixItems"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Holds::OneOrMany,
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" | "properties" => {
            Holds::Members
        }
        _ => Holds::Nothing,
    }
}

/// The schemas directly inside `schema`.
pub(crate) fn children(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    schema.iter().flat_map(|(keyword, value)| {
        let (many, members, one) = match (holds(keyword), value) {
            (Holds::OneOrMany, Value::Array(many)) => (Some(many), None, None),
            (Holds::OneOrMany, one) => (None, None, Some(one)),
            (Holds::Members, Value::Object(members)) => (None, Some(members), None),
            _ => (None, None, None),
        };
        let many = many.into_iter().flatten();
        many.chain(members.into_iter().flat_map(Map::values)).chain(one).filter(|child| is_schema(child))
    })
}

/// Calls `visit` with each schema directly inside `schema`.
pub(crate) fn for_each_child_mut(schema: &mut Map<String, Value>, mut visit: impl FnMut(&mut Value)) {
    for (keyword, value) in schema.iter_mut() {
        match (holds(keyword), value) {
            (Holds::OneOrMany, Value::Array(many)) => {
                many.iter_mut().filter(|child| is_schema(child)).for_each(&mut visit)
            }
            (Holds::OneOrMany, one) if is_schema(one) => visit(one),
            (Holds::Members, Value::Object(members)) => {
                members.values_mut().filter(|child| is_schema(child)).for_each(&mut visit);
            }
            _ => {}
        }
    }
}

pub(crate) fn is_schema(value: &Value) -> bool {
    value.is_object() || value.is_boolean()
}

/// What JSON calls the type of `value`.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
