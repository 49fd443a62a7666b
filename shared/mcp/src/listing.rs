//! The tools of a server, as it lists them.

use std::time::Duration;

use rewind_model::Json;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::excerpt;

/// Which of the two protocols a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// Up to 2025-11-25: `initialize`, and usually a session.
    Session,
    /// From 2026-07-28: every request stands alone.
    Stateless,
}

/// Bounds on what a server can make the reader of its tool list do.
#[derive(Debug, Clone, Copy)]
pub struct ListLimits {
    /// For the whole list.
    pub timeout: Duration,
    pub pages: usize,
    pub tools: usize,
    /// Of all pages together.
    pub bytes: usize,
}

impl Default for ListLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), pages: 1_000, tools: 10_000, bytes: 64 << 20 }
    }
}

/// Everything that a server offers, in its order.
#[derive(Debug, Clone)]
pub struct Listing {
    pub era: Era,
    /// The negotiated version, such as `2026-07-28`.
    pub protocol_version: String,
    /// What the server says about its own use.
    pub instructions: Option<String>,
    /// Duplicates included.
    pub tools: Vec<ListedTool>,
    /// Entries of the list that describe no tool.
    pub malformed: Vec<MalformedTool>,
}

/// A tool as the server describes it; nothing of it has been checked but that it has a name and an
/// input schema (any JSON).
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTool {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub annotations: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedTool {
    /// From 0, over all pages.
    pub position: usize,
    pub name: Option<String>,
    pub reason: String,
}

/// One page of `tools/list`.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) tools: Vec<Value>,
    /// The empty string is a cursor like any other.
    pub(crate) next_cursor: Option<String>,
}

impl Page {
    pub(crate) fn parse(raw: &Json) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            tools: Vec<Value>,
            #[serde(default)]
            next_cursor: Option<String>,
        }
        let Wire { tools, next_cursor } =
            raw.to().map_err(|error| excerpt(&format!("a page is malformed: {error}")))?;
        Ok(Self { tools, next_cursor })
    }
}

impl Listing {
    /// Takes one entry of a page as a tool, or notes why it is none.
    pub(crate) fn push(&mut self, entry: Value) {
        let position = self.tools.len() + self.malformed.len();
        let refuse = |name: Option<String>, reason: &str| MalformedTool { position, name, reason: reason.into() };
        let Value::Object(mut members) = entry else {
            return self.malformed.push(refuse(None, "it is not an object"));
        };
        let Some(name) = text(&mut members, "name") else {
            return self.malformed.push(refuse(None, "it has no name"));
        };
        let Some(input_schema) = members.remove("inputSchema") else {
            return self.malformed.push(refuse(Some(name), "it has no inputSchema"));
        };
        self.tools.push(ListedTool {
            title: text(&mut members, "title"),
            description: text(&mut members, "description"),
            output_schema: present(&mut members, "outputSchema"),
            annotations: present(&mut members, "annotations"),
            input_schema,
            name,
        });
    }
}

fn text(members: &mut Map<String, Value>, name: &str) -> Option<String> {
    match members.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Many serialisers write an absent member as `null`.
fn present(members: &mut Map<String, Value>, name: &str) -> Option<Value> {
    members.remove(name).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Result<Page, String> {
        Page::parse(&Json::parse(text).expect("JSON"))
    }

    #[test]
    fn an_empty_cursor_is_a_cursor_and_null_is_none() {
        assert_eq!(page(r#"{"tools":[],"nextCursor":""}"#).expect("a page").next_cursor.as_deref(), Some(""));
        assert_eq!(page(r#"{"tools":[],"nextCursor":null}"#).expect("a page").next_cursor, None);
        assert_eq!(page(r#"{"tools":[]}"#).expect("a page").next_cursor, None);
        assert!(page(r#"{"tools":{}}"#).is_err());
        assert!(page(r#"{}"#).is_err());
    }

    #[test]
    fn one_bad_entry_does_not_spoil_the_others() {
        let mut listing = Listing {
            era: Era::Session,
            protocol_version: String::new(),
            instructions: None,
            tools: Vec::new(),
            malformed: Vec::new(),
        };
        let entries = r#"{"tools":[1,{"name":"a","inputSchema":5},{"name":"b"},{"inputSchema":{}},
            {"name":"a","title":null,"inputSchema":{},"outputSchema":null,"annotations":{"readOnlyHint":true}}]}"#;
        for entry in page(entries).expect("a page").tools {
            listing.push(entry);
        }
        assert_eq!(listing.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a", "a"]);
        assert_eq!((listing.tools[1].title.as_ref(), listing.tools[1].output_schema.as_ref()), (None, None));
        assert_eq!(listing.malformed.iter().map(|entry| entry.position).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(listing.malformed[1].name.as_deref(), Some("b"));
    }
}
