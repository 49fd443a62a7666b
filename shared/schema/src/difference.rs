//! What has changed between two schemas of a tool, for people.

use std::fmt;

use serde_json::Value;

/// Lines that are shown.
const SHOWN: usize = 20;
const ANYTHING: &str = "anything";
/// Levels that are looked at.
const DEPTH: usize = 16;

/// Something that has changed, and where.
#[derive(Debug)]
enum Change {
    Added(String),
    Removed(String),
    /// (where, what it was, what it is)
    Type(String, String, String),
    Required(String),
    Optional(String),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Added(place) => write!(f, "added {place}"),
            Change::Removed(place) => write!(f, "removed {place}"),
            Change::Type(place, from, to) if place.is_empty() => write!(f, "{from} is now {to}"),
            Change::Type(place, from, to) => write!(f, "{place}: {from} is now {to}"),
            Change::Required(place) => write!(f, "{place} is now required"),
            Change::Optional(place) => write!(f, "{place} is no longer required"),
        }
    }
}

/// What has changed from `before` to `now`, a line each: members that came, went, or are of another type.
pub fn difference(before: &Value, now: &Value) -> Vec<String> {
    let mut lines = lines(before, now, |_| true);
    if lines.is_empty() {
        lines.push("nothing in its properties".to_owned());
    }
    lines
}

/// Of the changes, those that who reads a result would miss: members that went, that may be absent now, or that are
/// of another type. Empty when a result of `now` does as one of `before`, as far as properties show it.
pub fn lost(before: &Value, now: &Value) -> Vec<String> {
    lines(before, now, |change| matches!(change, Change::Removed(_) | Change::Type(..) | Change::Optional(_)))
}

fn lines(before: &Value, now: &Value, wanted: impl Fn(&Change) -> bool) -> Vec<String> {
    let mut changes = Vec::new();
    let (from, to) = (kind(before), kind(now));
    // A schema that names no type means the one that it has properties of.
    if from == to || from == ANYTHING || to == ANYTHING {
        compare("", before, now, 0, &mut changes);
    } else {
        changes.push(Change::Type(String::new(), from, to));
    }
    let mut lines: Vec<String> = changes.iter().filter(|change| wanted(change)).map(ToString::to_string).collect();
    if lines.len() > SHOWN {
        let more = lines.len() - SHOWN;
        lines.truncate(SHOWN);
        lines.push(format!("{more} more"));
    }
    lines
}

fn compare(path: &str, before: &Value, now: &Value, depth: usize, changes: &mut Vec<Change>) {
    if depth > DEPTH {
        return;
    }
    let members = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let required = |schema: &Value| -> Vec<String> {
        let list = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        list.filter_map(|name| name.as_str().map(ToOwned::to_owned)).collect()
    };
    let (old, new) = (members(before), members(now));
    let place = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, schema) in &new {
        match old.get(name) {
            None => changes.push(Change::Added(place(name))),
            Some(was) if was == schema => {}
            Some(was) => {
                let (from, to) = (kind(was), kind(schema));
                if from != to {
                    changes.push(Change::Type(place(name), from, to));
                } else {
                    compare(&place(name), was, schema, depth + 1, changes);
                }
            }
        }
    }
    changes.extend(old.keys().filter(|name| !new.contains_key(*name)).map(|name| Change::Removed(place(name))));
    if let (Some(was), Some(is)) = (before.get("items"), now.get("items")) {
        let each = format!("{path}[]");
        let (from, to) = (kind(was), kind(is));
        if from == to {
            compare(&each, was, is, depth + 1, changes);
        } else {
            changes.push(Change::Type(each, from, to));
        }
    }
    let (was, is) = (required(before), required(now));
    changes.extend(is.iter().filter(|name| !was.contains(name)).map(|name| Change::Required(place(name))));
    changes.extend(was.iter().filter(|name| !is.contains(name)).map(|name| Change::Optional(place(name))));
}

fn kind(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(one)) => one.clone(),
        Some(other) => other.to_string(),
        None => schema.get("enum").map_or_else(|| ANYTHING.to_owned(), |_| "one of a list".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_read_by_people() {
        let before = json!({"properties": {"title": {"type": "string"}, "n": {"type": "integer"}, "to": {"properties": {"a": {"type": "string"}}}}, "required": ["title"]});
        let now = json!({"properties": {"subject": {"type": "string"}, "n": {"type": "string"}, "to": {"properties": {"b": {}}}}, "required": ["subject"]});
        assert_eq!(
            difference(&before, &now),
            [
                "n: integer is now string",
                "added subject",
                "added to.b",
                "removed to.a",
                "removed title",
                "subject is now required",
                "title is no longer required"
            ]
        );
        assert_eq!(difference(&now, &now), ["nothing in its properties"]);
        assert_eq!(
            lost(&before, &now),
            ["n: integer is now string", "removed to.a", "removed title", "title is no longer required"]
        );
    }

    #[test]
    fn what_a_reader_does_not_miss_is_no_loss() {
        let before = json!({"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "string"}}}});
        let more = json!({"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "string"}}, "n": {}},
            "required": ["ids"]});
        assert_eq!(lost(&before, &more), Vec::<String>::new());
        let other = json!({"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}}}});
        assert_eq!(lost(&before, &other), ["ids[]: string is now integer"]);
        assert_eq!(lost(&before, &json!({"type": "array"})), ["object is now array"]);
    }
}
