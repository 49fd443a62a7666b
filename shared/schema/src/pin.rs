//! From the tools that are listed to the tools that are pinned.

use std::collections::{BTreeMap, BTreeSet};

use rewind_model::{ListedTool, MalformedTool, Policy, Tool, ToolsetWarning};

use crate::{comment, normalize, validator::Validator};

/// Bytes of a tool's name, of its texts, and of what a server says about its own use.
const LONGEST_NAME: usize = 128;
const LONGEST_TEXT: usize = 64 << 10;
/// Bytes of one reason, and number of them.
const LONGEST_REASON: usize = 500;
const MOST_WARNINGS: usize = 1_000;

/// Takes the tools of an export of `rewind:tools` that can be used. One that cannot is left out, and
/// the reason is kept; the order in which they are listed changes nothing.
pub fn pin_tools(export: &str, listed: Vec<ListedTool>, quarantine: &mut Quarantine) -> BTreeMap<String, Tool> {
    let mut once = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for tool in &listed {
        if !once.insert(tool.name.as_str()) {
            twice.insert(tool.name.clone());
        }
    }
    for tool in &twice {
        // Which of them is meant depends on the order of the list, which means nothing.
        quarantine.tool(export, tool, "more than one tool of this name is listed");
    }
    let usable = listed.into_iter().filter(|tool| !twice.contains(&tool.name));
    usable.filter_map(|tool| pin_tool(export, tool, quarantine)).collect()
}

fn pin_tool(export: &str, tool: ListedTool, quarantine: &mut Quarantine) -> Option<(String, Tool)> {
    match check(&tool) {
        Err(reason) => {
            quarantine.tool(export, &tool.name, &reason);
            return None;
        }
        Ok(unchecked) => unchecked.iter().for_each(|what| quarantine.tool(export, &tool.name, what)),
    }
    let ListedTool { name, title, description, input_schema, output_schema, annotations } = tool;
    let tool = Tool {
        title,
        description,
        input_schema: normalize(input_schema),
        output_schema: output_schema.map(normalize),
        annotations,
        policy: Policy::default(),
    };
    Some((name, tool))
}

/// What of a usable tool's schemas is not checked.
fn check(tool: &ListedTool) -> Result<Vec<String>, String> {
    if tool.name.is_empty() || tool.name.len() > LONGEST_NAME {
        return Err(format!("a tool's name has 1 to {LONGEST_NAME} bytes"));
    }
    for (what, text) in [("title", &tool.title), ("description", &tool.description)] {
        if text.as_ref().is_some_and(|text| text.len() > LONGEST_TEXT) {
            return Err(format!("its {what} is over {LONGEST_TEXT} bytes"));
        }
    }
    if tool.annotations.as_ref().is_some_and(|value| value.to_string().len() > LONGEST_TEXT) {
        return Err(format!("its annotations are over {LONGEST_TEXT} bytes"));
    }
    let mut unchecked = Vec::new();
    for (which, schema) in [("input", Some(&tool.input_schema)), ("output", tool.output_schema.as_ref())] {
        let Some(schema) = schema else { continue };
        let built = Validator::new(schema, &rewind_model::Limits::DEFAULT);
        let (_, warnings) = built.map_err(|error| format!("its {which} schema: {error}"))?;
        unchecked.extend(warnings.into_iter().map(|warning| format!("in its {which} schema, {warning}")));
    }
    Ok(unchecked)
}

/// What is left out of a toolset, or is not checked of what is in it, and why.
#[derive(Debug, Default)]
pub struct Quarantine(Vec<ToolsetWarning>);

impl Quarantine {
    /// Of one tool.
    pub fn tool(&mut self, export: &str, tool: &str, reason: &str) {
        let name = comment::cut(tool, LONGEST_NAME);
        let reason = comment::cut(reason, LONGEST_REASON).to_owned();
        self.0.push(ToolsetWarning { tool: format!("{export}.{name}"), reason });
    }

    /// Of an entry of a list that describes no tool.
    pub fn malformed(&mut self, export: &str, entry: &MalformedTool) {
        let position = || format!("(entry {})", entry.position);
        self.tool(export, &entry.name.clone().unwrap_or_else(position), &entry.reason);
    }

    /// What the server says about its own use, if it is of a bearable length.
    pub fn instructions(&mut self, export: &str, instructions: Option<String>) -> Option<String> {
        let (kept, too_long) = match instructions {
            Some(text) if text.len() > LONGEST_TEXT => (None, true),
            kept => (kept, false),
        };
        if too_long {
            self.tool(export, "(instructions)", &format!("over {LONGEST_TEXT} bytes: left out"));
        }
        kept
    }

    /// In an order that is not the servers'.
    pub fn into_warnings(mut self) -> Vec<ToolsetWarning> {
        self.0.sort_by(|a, b| (&a.tool, &a.reason).cmp(&(&b.tool, &b.reason)));
        self.0.dedup();
        if self.0.len() > MOST_WARNINGS {
            let more = self.0.len() - MOST_WARNINGS;
            self.0.truncate(MOST_WARNINGS);
            self.0.push(ToolsetWarning { tool: "(more)".into(), reason: format!("{more} more warnings") });
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(name: &str, input_schema: Value) -> ListedTool {
        ListedTool {
            name: name.into(),
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            annotations: None,
        }
    }

    fn pinned(tools: Vec<ListedTool>) -> (BTreeMap<String, Tool>, Vec<ToolsetWarning>) {
        let mut quarantine = Quarantine::default();
        (pin_tools("s", tools, &mut quarantine), quarantine.into_warnings())
    }

    #[test]
    fn one_bad_tool_is_left_out_with_its_reason_and_the_others_stay() {
        let object = json!({"type": "object"});
        let long = "n".repeat(LONGEST_NAME + 1);
        let (tools, warnings) = pinned(vec![
            tool("good", object.clone()),
            tool("bad", json!({"type": "objekt"})),
            tool("twice", object.clone()),
            tool("twice", json!({"type": "object", "properties": {}})),
            tool(&long, object),
            tool("remote", json!({"properties": {"a": {"$ref": "http://elsewhere/x"}}})),
        ]);
        assert_eq!(tools.keys().collect::<Vec<_>>(), ["good", "remote"]);
        let warned: Vec<_> = warnings.iter().map(|warning| warning.tool.as_str()).collect();
        assert_eq!(warned, ["s.bad", &format!("s.{}", &long[..LONGEST_NAME]), "s.remote", "s.twice"]);
        assert!(warnings[2].reason.contains("not fetched"), "{warnings:?}");
    }

    #[test]
    fn the_order_in_which_a_server_lists_changes_nothing() {
        let one = json!({"type": "object", "required": ["a", "b"]});
        let other = json!({"required": ["b", "a"], "type": "object"});
        let forward = pinned(vec![tool("x", one), tool("y", json!({})), tool("z", json!(1))]);
        let backward = pinned(vec![tool("z", json!(1)), tool("y", json!({})), tool("x", other)]);
        assert_eq!(forward, backward);
    }
}
