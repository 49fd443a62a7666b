use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

/// A tool as a server describes it in `tools/list`; nothing of it has been checked but that it has a
/// name and an input schema (any JSON).
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTool {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub annotations: Option<Value>,
}

/// An entry of a list of tools that describes none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MalformedTool {
    /// From 0, over all pages.
    pub position: usize,
    pub name: Option<String>,
    pub reason: String,
}

impl ListedTool {
    /// Reads one entry of a list, at `position` in it. Each member is read by itself, so that one that
    /// nests too deep costs this tool and no other.
    ///
    /// # Errors
    /// Why it describes no tool.
    pub fn from_entry(entry: &RawValue, position: usize) -> Result<Self, MalformedTool> {
        let refuse =
            |name: Option<&str>, reason: String| MalformedTool { position, name: name.map(Into::into), reason };
        let members: BTreeMap<String, &RawValue> =
            serde_json::from_str(entry.get()).map_err(|_| refuse(None, "it is not an object".into()))?;
        let text = |name: &str| members.get(name).and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
        let name = text("name").ok_or_else(|| refuse(None, "it has no name".into()))?;
        let json = |member: &str| match members.get(member) {
            None => Ok(None),
            // Many serialisers write an absent member as `null`.
            Some(raw) => serde_json::from_str::<Option<Value>>(raw.get())
                .map_err(|error| refuse(Some(&name), format!("its {member} cannot be read: {error}"))),
        };
        if !members.contains_key("inputSchema") {
            return Err(refuse(Some(&name), "it has no inputSchema".into()));
        }
        Ok(Self {
            title: text("title"),
            description: text("description"),
            input_schema: json("inputSchema")?.unwrap_or_default(),
            output_schema: json("outputSchema")?,
            annotations: json("annotations")?,
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_entry_does_not_spoil_the_others() {
        let deep = format!("{}1{}", r#"{"items":"#.repeat(200), "}".repeat(200));
        let entries = format!(
            r#"[1,{{"name":"a","inputSchema":5}},{{"name":"b"}},{{"inputSchema":{{}}}},{{"name":"deep","inputSchema":{deep}}},
            {{"name":"a","title":null,"inputSchema":{{}},"outputSchema":null,"annotations":{{"readOnlyHint":true}}}}]"#
        );
        let entries: Vec<Box<RawValue>> = serde_json::from_str(&entries).expect("a list");
        let read: Vec<_> = entries.iter().enumerate().map(|(at, entry)| ListedTool::from_entry(entry, at)).collect();
        let malformed: Vec<_> = read.iter().filter_map(|read| read.as_ref().err()).collect();
        assert_eq!(malformed.iter().map(|entry| entry.position).collect::<Vec<_>>(), [0, 2, 3, 4]);
        assert_eq!(malformed[1].name.as_deref(), Some("b"));
        assert!(malformed[3].reason.starts_with("its inputSchema cannot be read: recursion"), "{malformed:?}");
        let tools: Vec<_> = read.iter().flatten().collect();
        assert_eq!(tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["a", "a"]);
        assert_eq!((tools[1].title.as_ref(), tools[1].output_schema.as_ref()), (None, None));
    }
}
