//! What has changed between two schemas of a tool, for people.

use serde_json::Value;

/// Lines that are shown.
const SHOWN: usize = 20;
/// Levels that are looked at.
const DEPTH: usize = 16;

/// What has changed from `before` to `now`, a line each: members that came, went, or are of another type.
pub fn difference(before: &Value, now: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", before, now, 0, &mut lines);
    if lines.len() > SHOWN {
        let more = lines.len() - SHOWN;
        lines.truncate(SHOWN);
        lines.push(format!("{more} more"));
    }
    if lines.is_empty() {
        lines.push("nothing in its properties".to_owned());
    }
    lines
}

fn compare(path: &str, before: &Value, now: &Value, depth: usize, lines: &mut Vec<String>) {
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
            None => lines.push(format!("added {}", place(name))),
            Some(was) if was == schema => {}
            Some(was) => {
                let (from, to) = (kind(was), kind(schema));
                if from != to {
                    lines.push(format!("{}: {from} is now {to}", place(name)));
                } else {
                    compare(&place(name), was, schema, depth + 1, lines);
                }
            }
        }
    }
    lines.extend(old.keys().filter(|name| !new.contains_key(*name)).map(|name| format!("removed {}", place(name))));
    let (was, is) = (required(before), required(now));
    lines.extend(is.iter().filter(|name| !was.contains(name)).map(|name| format!("{} is now required", place(name))));
    lines.extend(
        was.iter().filter(|name| !is.contains(name)).map(|name| format!("{} is no longer required", place(name))),
    );
}

fn kind(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(one)) => one.clone(),
        Some(other) => other.to_string(),
        None => schema.get("enum").map_or_else(|| "anything".to_owned(), |_| "one of a list".to_owned()),
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
    }
}
