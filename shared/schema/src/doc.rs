use serde_json::{Map, Value};

use crate::comment;

/// What a doc comment says of a member or a type, read from its schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Doc<'a> {
    pub(crate) description: &'a str,
    /// `@default 30`, `@format date-time`, …
    pub(crate) tags: Vec<String>,
}

/// Keywords whose value is shown as it is. `description` and `type` are treated on their own.
const SHOWN: [&str; 21] = [
    "default",
    "format",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "contentMediaType",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
];
const LONGEST_VALUE: usize = 200;

impl<'a> Doc<'a> {
    pub(crate) fn of(schema: &'a Value) -> Self {
        let Value::Object(map) = schema else {
            return Self::default();
        };
        let text = |keyword| map.get(keyword).and_then(Value::as_str);
        Self { description: text("description").or(text("title")).unwrap_or_default(), tags: tags(map) }
    }

    /// What types do not say of a tool's whole argument.
    pub(crate) fn tags_of(schema: &Value) -> Vec<String> {
        schema.as_object().map(tags).unwrap_or_default()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = comment::lines(self.description);
        lines.extend(self.tags.iter().cloned());
        lines
    }
}

fn tags(map: &Map<String, Value>) -> Vec<String> {
    let mut tags = Vec::new();
    if map.get("type").and_then(Value::as_str) == Some("integer") {
        tags.push("@integer".to_owned());
    }
    for keyword in SHOWN {
        let Some(value) = map.get(keyword) else {
            continue;
        };
        let text = match value {
            // A default of "30" is not one of 30; a format needs no quotes.
            Value::String(text) if keyword != "default" => comment::line(text),
            other => comment::line(&other.to_string()),
        };
        let kept = comment::cut(&text, LONGEST_VALUE);
        let more = if kept.len() < text.len() { "…" } else { "" };
        tags.push(format!("@{keyword} {kept}{more}"));
    }
    for (keyword, tag) in [("uniqueItems", "@uniqueItems"), ("deprecated", "@deprecated"), ("readOnly", "@readOnly")] {
        if map.get(keyword) == Some(&Value::Bool(true)) {
            tags.push(tag.to_owned());
        }
    }
    tags
}
