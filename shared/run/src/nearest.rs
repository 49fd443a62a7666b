//! For a call that is not on a cassette: what is there instead.

use rewind_model::{Payload, Seq, ToolName};
use serde_json::Value;

use crate::{Call, History, Made};

/// Differences that are named.
const MOST: usize = 3;
/// Characters of a value that are shown.
const EXCERPT: usize = 60;
/// Recorded calls that are compared.
const COMPARED: usize = 200;

/// Says which of the recorded calls is the nearest, and in what it differs.
pub(crate) fn nearest(history: &History, tool: &ToolName, arguments: &Payload, raw: bool) -> String {
    let recorded = history.calls.iter().filter_map(|(seq, past)| match &past.made {
        Made::Call(Call::Tool { tool: recorded, arguments, raw, .. }) if recorded == tool => {
            Some((*seq, arguments, *raw))
        }
        _ => None,
    });
    let now = value(arguments);
    let compared = recorded.take(COMPARED).map(|(seq, arguments, was_raw)| {
        let mut differences = differences(&value(arguments), &now);
        if was_raw != raw {
            let how = |raw| if raw { "with `.raw`" } else { "without `.raw`" };
            differences.insert(0, format!("the tool was called {} and not {}", how(was_raw), how(raw)));
        }
        (differences, seq)
    });
    match compared.min_by_key(|(differences, seq)| (differences.len(), *seq)) {
        None => format!("no call of {tool} is recorded"),
        Some((differences, seq)) if differences.is_empty() => same(seq),
        Some((differences, seq)) => {
            let more = differences.len().saturating_sub(MOST);
            let shown = differences[..differences.len().min(MOST)].join("; ");
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            format!("that call is not recorded; the nearest one is call {seq}, where {shown}{more}")
        }
    }
}

fn same(seq: Seq) -> String {
    format!("that call is recorded once less: call {seq} is the same, and its result was used before, or it had none")
}

fn value(payload: &Payload) -> Value {
    match payload {
        Payload::Inline(json) => json.to().unwrap_or_default(),
        Payload::Blob { .. } => Value::Null,
    }
}

/// A line for each place in which two values differ.
fn differences(then: &Value, now: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", then, now, &mut lines);
    lines
}

fn compare(path: &str, then: &Value, now: &Value, lines: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
                let of = |map: &serde_json::Map<String, Value>| map.get(name).cloned().unwrap_or_default();
                compare(&format!("{path}.{name}"), &of(a), &of(b), lines);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (n, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}[{n}]"), a, b, lines);
            }
        }
        (a, b) if a == b => {}
        (a, b) => lines.push(format!("arguments{path} is {} and not {}", excerpt(a), excerpt(b))),
    }
}

fn excerpt(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
