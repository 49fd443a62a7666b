//! Everything that the crate does with a schema, done.

use rewind_model::{Limits, Rendering};
use rewind_schema::{Validator, check_schema, normalize, render};
use serde_json::{Value, json};

use crate::tsc;

/// Less than any thread that calls the crate has.
const STACK: usize = 512 << 10;

pub(crate) fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work).expect("a thread");
    thread.join().expect("no panic");
}

/// Everything that the crate does with a schema.
pub(crate) fn use_schema(schema: &Value) {
    let normal = normalize(schema.clone());
    assert_eq!(normalize(normal.clone()), normal);
    let toolset = tsc::toolset("s", json!({"t": {"input_schema": normal, "output_schema": schema}}));
    for rendering in [Rendering::Full, Rendering::Compact] {
        assert_eq!(render(&toolset, rendering), render(&toolset, rendering));
    }
    let checked = check_schema(schema);
    let validator = Validator::new(schema, &Limits::DEFAULT);
    assert_eq!(checked.as_ref().err(), validator.as_ref().err());
    if let Ok((validator, _)) = validator {
        for value in [
            json!({}),
            json!(null),
            json!([1, "a", {}]),
            json!({"a": {"b": 1}, "required": []}),
            schema.clone(),
            nested(100),
        ] {
            if let Err(said) = validator.validate(&value) {
                assert!((1..=5).contains(&said.len()), "{said:?}");
                assert!(said.iter().all(|violation| violation.to_string().len() < 1_200), "{said:?}");
            }
        }
    }
}

pub(crate) fn nested(levels: usize) -> Value {
    (0..levels).fold(json!("x"), |inner, level| if level % 2 == 0 { json!({"a": inner}) } else { json!([inner]) })
}

pub(crate) const KEYWORDS: [&str; 44] = [
    "$ref",
    "$defs",
    "definitions",
    "$schema",
    "$id",
    "$anchor",
    "$dynamicRef",
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "format",
    "pattern",
    "minimum",
    "maxLength",
    "minItems",
    "maxItems",
    "description",
    "default",
    "nullable",
    "dependentSchemas",
    "dependentRequired",
    "unevaluatedProperties",
    "title",
    "a",
    "b",
    "x-y",
    "__proto__",
    "*/",
];
pub(crate) const TEXTS: [&str; 22] = [
    "string",
    "object",
    "array",
    "number",
    "null",
    "#",
    "#/$defs/a",
    "#/$defs/b",
    "#/definitions/a",
    "#/properties/a",
    "#a",
    "http://x/y",
    "",
    "a*/b\n@ts-ignore",
    "^x-",
    "(",
    "(a+)+$",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-04/schema#",
    "a",
    "%zz",
    "\u{2028}",
];
