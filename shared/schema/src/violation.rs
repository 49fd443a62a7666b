use std::fmt;

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
    paths::{Location, LocationSegment},
};
use serde_json::Value;

use crate::{SchemaError, comment, hint, keyword};

/// Violations that are told; more would not help.
const MOST: usize = 5;
/// Bytes of each part of a violation.
const LONGEST: usize = 240;
/// Bytes of a string of the value that are shown.
const LONGEST_VALUE: usize = 60;
/// Alternatives of `anyOf` inside one another that are looked into for the reason.
const DEPTH: usize = 8;

/// One thing that is wrong with a value, in words that whoever wrote the value can act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// As JavaScript would write it: `labels[0].name`. Empty for the whole value.
    pub path: String,
    pub expected: String,
    pub got: String,
    /// An allowed value or name that is much like the one that was given.
    pub nearest: Option<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "expected {}, got {}", self.expected, self.got)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean {nearest}?"),
            None => Ok(()),
        }
    }
}

impl Violation {
    fn new(path: String, expected: impl AsRef<str>, got: impl AsRef<str>) -> Self {
        Self { path: bounded(&path), expected: bounded(expected.as_ref()), got: bounded(got.as_ref()), nearest: None }
    }

    fn with_nearest(mut self, nearest: Option<String>) -> Self {
        self.nearest = nearest.as_deref().map(bounded);
        self
    }

    pub(crate) fn too_deep(limit: usize) -> Self {
        Self::new(String::new(), format!("at most {limit} levels of nesting"), "more")
    }

    /// Of a value whose errors are more than can be looked through.
    pub(crate) fn unexplained(value: &Value) -> Self {
        Self::new(
            String::new(),
            "a value that fits the schema (too many alternatives to say where it does not)",
            shown(value),
        )
    }

    pub(crate) fn not_json(error: &serde_json::Error) -> Self {
        Self::new(String::new(), "JSON", format!("a text that is none: {error}"))
    }
}

/// The violations that `errors` are, in the order in which they were found, without duplicates.
pub(crate) fn of_errors<'e>(errors: impl Iterator<Item = ValidationError<'e>>, schema: &Value) -> Vec<Violation> {
    let mut found: Vec<Violation> = Vec::new();
    for error in errors.take(MOST) {
        of_error(&error, schema, 0, &mut found);
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|violation| seen.insert(violation.to_string()));
    found.truncate(MOST);
    found
}

/// The error that a schema itself is invalid.
pub(crate) fn of_schema(error: &ValidationError<'_>) -> SchemaError {
    let mut found = Vec::new();
    of_error(error, &Value::Null, 0, &mut found);
    let path = path(error.instance_path());
    let reason = match found.first() {
        Some(first) if first.path.is_empty() || first.path == path => {
            format!("expected {}, got {}", first.expected, first.got)
        }
        Some(first) => first.to_string(),
        None => bounded(&error.masked().to_string()),
    };
    SchemaError::Invalid { path: if path.is_empty() { "its root".to_owned() } else { path }, reason }
}

fn of_error(error: &ValidationError<'_>, schema: &Value, depth: usize, found: &mut Vec<Violation>) {
    let here = path(error.instance_path());
    let value = error.instance();
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            of_alternatives(error, context, schema, depth, found)
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            let known = known_properties(error.schema_path(), schema);
            for name in unexpected.iter().take(MOST) {
                let nearest = hint::nearest(name, known.iter().copied());
                let expected =
                    if known.is_empty() { "no such property".to_owned() } else { format!("only {}", list(&known)) };
                found.push(
                    Violation::new(member(&here, name), expected, "a property of this name")
                        .with_nearest(nearest.map(str::to_owned)),
                );
            }
        }
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let given = value.as_object().into_iter().flat_map(|map| map.keys().map(String::as_str));
            let nearest = hint::nearest(name, given).map(|given| format!("{name} instead of {given}"));
            found.push(Violation::new(member(&here, name), "a value: it is required", "nothing").with_nearest(nearest));
        }
        Kind::Enum { options } => {
            let strings = || options.as_array().into_iter().flatten().filter_map(Value::as_str);
            let nearest =
                value.as_str().and_then(|given| hint::nearest(given, strings())).map(|near| format!("{near:?}"));
            found.push(Violation::new(here, expectation(error), shown(value)).with_nearest(nearest));
        }
        _ => found.push(Violation::new(here, expectation(error), shown(value))),
    }
}

/// No alternative fits. When all fail for what the value is as a whole, that is the reason;
/// else the reasons of the alternative that fits best are more telling.
fn of_alternatives(
    error: &ValidationError<'_>,
    context: &[Vec<ValidationError<'static>>],
    schema: &Value,
    depth: usize,
    found: &mut Vec<Violation>,
) {
    let here = error.instance_path();
    let as_a_whole = |errors: &Vec<ValidationError<'static>>| {
        errors.iter().any(|inner| inner.instance_path() == here && is_about_value(inner))
    };
    let best = context.iter().filter(|errors| !as_a_whole(errors) && !errors.is_empty()).min_by_key(|errors| {
        // A constant that differs, such as a `kind`, tells that another alternative was meant.
        let meant_another =
            errors.iter().filter(|inner| matches!(inner.kind(), Kind::Constant { .. } | Kind::Enum { .. })).count();
        (meant_another, errors.len())
    });
    match best {
        Some(best) if depth < DEPTH => {
            for inner in best.iter().take(MOST) {
                of_error(inner, schema, depth + 1, found);
            }
        }
        _ => {
            let mut expected: Vec<String> =
                context.iter().flatten().filter(|inner| inner.instance_path() == here).map(expectation).collect();
            expected.dedup();
            let expected = if expected.is_empty() { "another value".to_owned() } else { expected.join(" or ") };
            found.push(Violation::new(path(here), expected, shown(error.instance())));
        }
    }
}

fn is_about_value(error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), Kind::Type { .. } | Kind::Constant { .. } | Kind::Enum { .. } | Kind::FalseSchema)
}

/// What the keyword asks for, without the value.
fn expectation(error: &ValidationError<'_>) -> String {
    match error.kind() {
        Kind::Type { kind: TypeKind::Single(kind) } => kind.to_string(),
        Kind::Type { kind: TypeKind::Multiple(kinds) } => {
            kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or ")
        }
        Kind::Enum { options } => {
            let options: Vec<String> =
                options.as_array().into_iter().flatten().take(50).map(Value::to_string).collect();
            format!("one of {}", list(&options.iter().map(String::as_str).collect::<Vec<_>>()))
        }
        Kind::Constant { expected_value } => expected_value.to_string(),
        Kind::Minimum { limit } => format!("a number >= {limit}"),
        Kind::Maximum { limit } => format!("a number <= {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("a number > {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("a number < {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {limit} characters"),
        Kind::MaxLength { limit } => format!("at most {limit} characters"),
        Kind::MinItems { limit } => format!("at least {limit} items"),
        Kind::MaxItems { limit } => format!("at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("at most {limit} items"),
        Kind::MinProperties { limit } => format!("at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("at most {limit} properties"),
        Kind::Pattern { pattern } => format!("a text that matches /{pattern}/"),
        Kind::BacktrackLimitExceeded { .. } => {
            "a text that the schema's pattern can be matched with in bounded time".to_owned()
        }
        Kind::UniqueItems => "items that all differ".to_owned(),
        Kind::FalseSchema => "nothing here".to_owned(),
        Kind::OneOfMultipleValid { .. } => "a value that fits exactly one alternative".to_owned(),
        Kind::Not { schema } => format!("anything but {schema}"),
        _ => format!("a value for which this does not hold: {}", error.masked()),
    }
}

/// The properties that the schema at the place of the error declares.
fn known_properties<'s>(keyword: &Location, schema: &'s Value) -> Vec<&'s str> {
    let Some((parent, _)) = keyword.as_str().rsplit_once('/') else {
        return Vec::new();
    };
    let properties = schema.pointer(parent).and_then(|parent| parent.get("properties")?.as_object());
    properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str)).collect()
}

fn list(names: &[&str]) -> String {
    names.join(", ")
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if text.len() > LONGEST_VALUE => {
            format!(
                "{:?} and {} bytes more",
                comment::cut(text, LONGEST_VALUE),
                text.len() - comment::cut(text, LONGEST_VALUE).len()
            )
        }
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!("an array of {} items", items.len()),
        Value::Object(map) if map.is_empty() => "an object without properties".to_owned(),
        Value::Object(map) => {
            let names: Vec<_> = map.keys().take(20).map(String::as_str).collect();
            format!("an object with {}", list(&names))
        }
        Value::Null => "null".to_owned(),
        scalar => format!("the {} {scalar}", keyword::type_name(scalar)),
    }
}

fn path(location: &Location) -> String {
    let mut path = String::new();
    for segment in location.segments() {
        match segment {
            LocationSegment::Property(name) => path = member(&path, &name),
            LocationSegment::Index(index) => path = format!("{path}[{index}]"),
        }
    }
    path
}

fn member(path: &str, name: &str) -> String {
    if !crate::name::is_identifier(name) {
        return format!("{path}[{name:?}]");
    }
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn bounded(text: &str) -> String {
    let kept = comment::cut(text, LONGEST);
    if kept.len() < text.len() { format!("{kept}…") } else { text.to_owned() }
}
