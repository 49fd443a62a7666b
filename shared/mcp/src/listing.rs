//! The tools of a server, as it lists them.

use std::time::Duration;

use rewind_model::{Json, ListedTool, MalformedTool};
use serde::Deserialize;
use serde_json::value::RawValue;

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

/// One page of `tools/list`.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) tools: Vec<Box<RawValue>>,
    /// The empty string is a cursor like any other.
    pub(crate) next_cursor: Option<String>,
}

impl Page {
    pub(crate) fn parse(raw: &Json) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire {
            tools: Vec<Box<RawValue>>,
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
    pub(crate) fn push(&mut self, entry: &RawValue) {
        match ListedTool::from_entry(entry, self.tools.len() + self.malformed.len()) {
            Ok(tool) => self.tools.push(tool),
            Err(malformed) => self.malformed.push(malformed),
        }
    }
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
}
