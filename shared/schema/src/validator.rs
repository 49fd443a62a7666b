use std::fmt;

use jsonschema::{Draft, PatternOptions};
use rewind_model::Limits;
use serde_json::Value;

use crate::{
    SchemaError, Violation, check, effort,
    prepare::{Prepared, prepare},
    violation,
};

/// Steps that one match of a pattern with look-around or back-references may take; others take
/// linear time.
const BACKTRACKS: usize = 10_000;
/// Bytes of a compiled pattern.
const PATTERN_BYTES: usize = 1 << 20;
/// Levels of a value times schemas that each is checked against, one inside the other: what is left
/// of the stack of a calling thread holds that many (measured: 512 KiB, unoptimised).
const FRAMES: usize = 256;
/// Levels of JSON that are read; `serde_json` has the same limit.
const VALUE_DEPTH: usize = 127;
/// Stack for the value and the schema that both nest as deep as they may: 127 levels times 64 schemas.
const DEEP_STACK: usize = 32 << 20;

/// A compiled schema. It can be shared between threads; build it once for each schema.
///
/// `format` is an annotation and is not checked. References are resolved in the schema itself only.
pub struct Validator {
    compiled: jsonschema::Validator,
    schema: Value,
    /// Levels of a value for which the stack of the calling thread is enough.
    depth: usize,
}

/// Not the schema: it can be large.
impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validator").field("draft", &self.compiled.draft()).finish_non_exhaustive()
    }
}

pub(crate) fn options<'a>() -> jsonschema::ValidationOptions<'a> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(BACKTRACKS)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES);
    jsonschema::options().offline().should_validate_formats(false).with_pattern_options(patterns)
}

impl Validator {
    /// The validator, and what of the schema it does not check.
    ///
    /// # Errors
    /// When the schema is none, is over a limit, or says something that JSON Schema does not allow.
    pub fn new(schema: &Value, limits: &Limits) -> Result<(Self, Vec<String>), SchemaError> {
        let chain = check::check_bounds(schema, limits)?;
        let Prepared { schema, mut warnings } = prepare(schema);
        let compiled = compile(&schema, &mut warnings)?;
        let depth = (FRAMES / (chain + 1)).clamp(2, VALUE_DEPTH);
        Ok((Self { compiled, schema, depth }, warnings))
    }

    /// # Errors
    /// What is wrong with `value`: a few violations, the most telling ones.
    pub fn validate(&self, value: &Value) -> Result<(), Vec<Violation>> {
        if !check::depth_over(value, self.depth) {
            return self.validate_here(value);
        }
        if check::depth_over(value, VALUE_DEPTH) {
            return Err(vec![Violation::too_deep(VALUE_DEPTH)]);
        }
        std::thread::scope(|scope| {
            let thread =
                std::thread::Builder::new().stack_size(DEEP_STACK).spawn_scoped(scope, || self.validate_here(value));
            let result = thread.ok().and_then(|thread| thread.join().ok());
            result.unwrap_or_else(|| Err(vec![Violation::too_deep(self.depth)]))
        })
    }

    fn validate_here(&self, value: &Value) -> Result<(), Vec<Violation>> {
        if self.compiled.is_valid(value) {
            return Ok(());
        }
        if effort::too_much(&self.schema, value) {
            return Err(vec![Violation::unexplained(value)]);
        }
        Err(violation::of_errors(self.compiled.iter_errors(value), &self.schema))
    }

    /// As [`Validator::validate`], of JSON text.
    ///
    /// # Errors
    /// Also when `json` is not JSON.
    pub fn validate_json(&self, json: &str) -> Result<(), Vec<Violation>> {
        let value = serde_json::from_str(json).map_err(|error| vec![Violation::not_json(&error)])?;
        self.validate(&value)
    }
}

/// A schema that names no dialect is read as 2020-12, or as the newest one of which it is a valid schema.
fn compile(schema: &Value, warnings: &mut Vec<String>) -> Result<jsonschema::Validator, SchemaError> {
    let error = match options().build(schema) {
        Ok(compiled) => return Ok(compiled),
        Err(error) => error,
    };
    if schema.get("$schema").is_none() {
        for (draft, name) in [(Draft::Draft7, "draft-07"), (Draft::Draft4, "draft-04")] {
            if let Ok(compiled) = options().with_draft(draft).build(schema) {
                warnings.push(format!("the schema is no valid JSON Schema 2020-12 and is read as {name}"));
                return Ok(compiled);
            }
        }
    }
    Err(violation::of_schema(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(schema: Value, value: Value) -> Vec<String> {
        let (validator, _) = Validator::new(&schema, &Limits::DEFAULT).expect("a valid schema");
        validator.validate(&value).expect_err("refused").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn violations_say_what_to_do() {
        let schema = json!({"type": "object", "required": ["title", "per_page"], "additionalProperties": false, "properties": {
            "title": {"type": "string", "maxLength": 3}, "per_page": {"type": "integer", "maximum": 100}, "state": {"enum": ["open", "closed"]},
            "labels": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}}});
        assert_eq!(
            said(schema.clone(), json!({"title": "x", "perPage": 1})),
            [
                "per_page: expected a value: it is required, got nothing; did you mean per_page instead of perPage?",
                "perPage: expected only labels, per_page, state, title, got a property of this name; did you mean per_page?",
            ]
            .into_iter()
            .collect::<Vec<_>>()
        );
        assert_eq!(
            said(schema.clone(), json!({"title": "x", "per_page": 101, "state": "opne", "labels": [{}, {"name": 3}]})),
            [
                "labels[1].name: expected string, got the integer 3",
                "per_page: expected a number <= 100, got the integer 101",
                "state: expected one of \"open\", \"closed\", got \"opne\"; did you mean \"open\"?",
            ]
        );
        assert_eq!(said(schema, json!([])), ["expected object, got an array of 0 items"]);
    }

    #[test]
    fn the_alternative_that_was_meant_is_explained() {
        let schema = json!({"properties": {"shape": {"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
            {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
            {"type": "null"}]}, "id": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}});
        assert_eq!(
            said(schema.clone(), json!({"shape": {"kind": "square", "side": "1"}})),
            ["shape.side: expected number, got \"1\""]
        );
        assert_eq!(said(schema, json!({"id": true})), ["id: expected string or integer, got the boolean true"]);
    }

    #[test]
    fn few_and_short_violations() {
        let said = said(
            json!({"items": {"enum": (0..10_000).map(|n| json!(format!("value{n}"))).collect::<Vec<_>>()}}),
            json!(vec!["é".repeat(500); 100]),
        );
        assert!(said.len() <= 5 && said.iter().all(|one| one.len() < 1_000), "{said:?}");
    }

    #[test]
    fn what_cannot_be_checked_is_a_warning() {
        let schema = json!({"$schema": "https://example.com/dialect", "properties": {
            "a": {"$ref": "https://example.com/a.json"}, "b": {"type": "string", "pattern": "(unclosed"},
            "c": {"patternProperties": {"(": {"type": "string"}}, "additionalProperties": false}}});
        let (validator, warnings) = Validator::new(&schema, &Limits::DEFAULT).expect("a valid schema");
        assert_eq!(warnings.len(), 4, "{warnings:#?}");
        assert_eq!(validator.validate(&json!({"a": 1, "b": "x", "c": {"d": 1}})), Ok(()));
        assert!(validator.validate(&json!({"b": 1})).is_err());
    }

    #[test]
    fn dialects_are_told_apart() {
        let undeclared = json!({"properties": {"pair": {"items": [{"type": "string"}]}, "n": {"minimum": 1, "exclusiveMinimum": true}}});
        let (validator, warnings) = Validator::new(&undeclared, &Limits::DEFAULT).expect("a draft-04 schema");
        assert!(warnings.len() == 1 && warnings[0].contains("draft-04"), "{warnings:?}");
        assert!(validator.validate(&json!({"pair": [1]})).is_err() && validator.validate(&json!({"n": 1})).is_err());
        let (_, warnings) = Validator::new(
            &json!({"$schema": "https://json-schema.org/draft-07/schema#", "items": [{}]}),
            &Limits::DEFAULT,
        )
        .expect("draft-07");
        assert_eq!(warnings, [""; 0]);
    }

    #[test]
    fn formats_are_annotations_and_patterns_are_bounded() {
        let (validator, _) =
            Validator::new(&json!({"type": "string", "format": "email"}), &Limits::DEFAULT).expect("valid");
        assert_eq!(validator.validate(&json!("no address")), Ok(()));
        let (validator, _) = Validator::new(&json!({"pattern": "^(a+)+\\1$"}), &Limits::DEFAULT).expect("valid");
        let started = std::time::Instant::now();
        assert!(validator.validate(&json!(format!("{}b", "a".repeat(200)))).is_err());
        assert!(started.elapsed() < std::time::Duration::from_secs(2), "{:?}", started.elapsed());
    }

    #[test]
    fn errors_that_multiply_are_not_collected() {
        let branch = json!({"type": ["object", "string"], "properties": {"a": {"$ref": "#"}}});
        let schema = json!({"anyOf": [branch, branch, branch]});
        let value = (0..60).fold(json!(1), |inner, _| json!({"a": inner}));
        let said = said(schema, value);
        assert!(said.len() == 1 && said[0].contains("too many"), "{said:?}");
    }

    #[test]
    fn text_is_validated() {
        let (validator, _) = Validator::new(&json!({"type": "object"}), &Limits::DEFAULT).expect("valid");
        assert_eq!(validator.validate_json("{}"), Ok(()));
        assert!(validator.validate_json("[]").is_err());
        assert!(validator.validate_json("{").expect_err("refused")[0].to_string().contains("JSON"));
        fn shared<T: Send + Sync>(_: &T) {}
        shared(&validator);
    }
}
