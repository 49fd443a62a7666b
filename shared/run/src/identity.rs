//! Which calls are the same, whatever order the members of their arguments are written in.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rewind_model::{Digest, Json, Payload, Seq, Timestamp, ToolName};
use serde_json::value::RawValue;

use crate::{Call, Made, PastCall};

/// The calls of a history that have an outcome, by what they are.
#[derive(Debug)]
pub(crate) struct Index(HashMap<Identity, BTreeSet<Seq>>);

#[derive(Debug, PartialEq, Eq, Hash)]
enum Identity {
    Sleep(Timestamp),
    Tool { tool: ToolName, raw: bool, arguments: Digest },
}

impl Index {
    pub(crate) fn of(calls: &BTreeMap<Seq, PastCall>) -> Self {
        let mut index: HashMap<Identity, BTreeSet<Seq>> = HashMap::new();
        for (seq, past) in calls {
            if let (Made::Call(call), Some(_)) = (&past.made, &past.outcome) {
                index.entry(identity(call)).or_default().insert(*seq);
            }
        }
        Self(index)
    }

    /// The first of the same calls that is not `used`.
    pub(crate) fn first(&self, call: &Call, used: impl Fn(Seq) -> bool) -> Option<Seq> {
        let unused = |identity| self.0.get(&identity)?.iter().copied().find(|seq| !used(*seq));
        // One whose arguments are in a blob is known by their bytes alone.
        let by_bytes = unused(exact(call));
        unused(identity(call)).into_iter().chain(by_bytes).min()
    }
}

fn exact(call: &Call) -> Identity {
    match call {
        Call::Sleep { until, .. } => Identity::Sleep(*until),
        Call::Tool { tool, arguments, raw, .. } => {
            Identity::Tool { tool: tool.clone(), raw: *raw, arguments: arguments.digest() }
        }
    }
}

fn identity(call: &Call) -> Identity {
    match call {
        Call::Tool { tool, arguments: Payload::Inline(json), raw, .. } => {
            let arguments = canonical(json).map_or_else(|| Digest::of(json.as_str()), Digest::of);
            Identity::Tool { tool: tool.clone(), raw: *raw, arguments }
        }
        call => exact(call),
    }
}

/// Are they calls of the same tool with the same arguments, but for the order of members?
pub(crate) fn same_but_for_order(made: &Made, now: &Call) -> bool {
    match (made, now) {
        (Made::Call(Call::Tool { raw, .. }), Call::Tool { raw: raw_now, .. }) => {
            raw == raw_now && same_but_for_raw(made, now)
        }
        _ => false,
    }
}

/// As [`same_but_for_order`], whichever of the two asks for the whole MCP result.
pub(crate) fn same_but_for_raw(made: &Made, now: &Call) -> bool {
    match (made, now) {
        (
            Made::Call(Call::Tool { tool, arguments, .. }),
            Call::Tool { tool: tool_now, arguments: arguments_now, .. },
        ) if tool == tool_now && arguments.size() == arguments_now.size() => match (arguments, arguments_now) {
            (Payload::Inline(then), Payload::Inline(now)) => {
                then == now || canonical(then).is_some_and(|then| canonical(now) == Some(then))
            }
            _ => arguments.digest() == arguments_now.digest(),
        },
        _ => false,
    }
}

/// Levels of nesting in arguments that a script can call a tool with, and some.
const DEEPEST: usize = 128;

/// `None` for what no script can have as arguments.
///
/// Members sorted, no blanks, numbers as they are written: 1.0 is not 1, and what no double can hold is kept.
fn canonical(json: &Json) -> Option<String> {
    if json.depth() > DEEPEST {
        return None;
    }
    let mut text = String::with_capacity(json.len());
    write(serde_json::from_str(json.as_str()).ok()?, &mut text).ok()?;
    Some(text)
}

fn write(value: &RawValue, text: &mut String) -> serde_json::Result<()> {
    match value.get().as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(value.get())?;
            for (n, (name, value)) in members.iter().enumerate() {
                text.push(if n == 0 { '{' } else { ',' });
                text.push_str(&serde_json::to_string(name)?);
                text.push(':');
                write(value, text)?;
            }
            text.push_str(if members.is_empty() { "{}" } else { "}" });
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(value.get())?;
            text.push('[');
            for (n, value) in items.into_iter().enumerate() {
                if n > 0 {
                    text.push(',');
                }
                write(value, text)?;
            }
            text.push(']');
        }
        Some(b'"') => text.push_str(&serde_json::to_string(&serde_json::from_str::<String>(value.get())?)?),
        _ => text.push_str(value.get()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Option<String> {
        canonical(&Json::parse(text).expect("JSON"))
    }

    #[test]
    fn only_order_blanks_and_escapes_are_no_difference() {
        assert_eq!(
            form(r#"{"b": [1, {"d": 1, "c": "\u0041"}], "a": null}"#),
            form(r#"{"a":null,"b":[1,{"c":"A","d":1}]}"#)
        );
        assert_eq!(form("{ }").as_deref(), Some("{}"));
        for (one, other) in [("[1,2]", "[2,1]"), ("1.0", "1"), ("9007199254740993", "9007199254740992"), ("\"1\"", "1")]
        {
            assert_ne!(form(one), form(other));
        }
    }
}
