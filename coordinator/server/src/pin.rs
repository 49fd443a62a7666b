//! Makes a toolset out of what a harness asks for and what its servers list.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt};
use rewind_bus::catalog::Registration;
use rewind_mcp::{Client, Endpoint, ListLimits, ListedTool, Listing};
use rewind_model::{
    McpServer, Policy, ProblemCode, RegisterHostTool, RegisterMcpServer, RegisterToolset, Tool, Toolset, ToolsetWarning,
};
use rewind_schema::{check_schema, is_export_name, normalize};
use serde_json::Value;

use crate::refusal::Refusal;

/// Servers of one toolset, and how many of them are asked at once.
const MOST_SERVERS: usize = 64;
const AT_ONCE: usize = 16;
/// Bytes of a tool's name, of its texts, and of what a server says about its own use.
const LONGEST_NAME: usize = 128;
const LONGEST_TEXT: usize = 64 << 10;
/// Bytes of the whole document.
const LARGEST_TOOLSET: usize = 32 << 20;
const MOST_WARNINGS: usize = 1_000;

/// Exports of `rewind:tools` that are not servers, and the names by which calls that are no tool calls
/// go (`http`): a server of such a name could not be told from them.
const TAKEN: [&str; 5] = ["host", "http", "sleep", "workflows", "ToolError"];

/// A toolset that can be stored.
#[derive(Debug)]
pub(crate) struct PinnedDocument {
    pub(crate) toolset: Toolset,
    pub(crate) registration: Registration,
}

/// Asks every server for its tools and pins them.
///
/// # Errors
/// `invalid-toolset` when the request names something that cannot be; a server's problem, with its
/// name, when one does not answer as it should. Nothing is stored either way.
pub(crate) async fn pin(request: RegisterToolset) -> Result<PinnedDocument, Refusal> {
    check_names(&request)?;
    let listed =
        futures::stream::iter(request.mcp_servers).map(list).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    document(listed, request.host_tools)
}

fn check_names(request: &RegisterToolset) -> Result<(), Refusal> {
    let invalid = |detail: String| Err(Refusal::new(ProblemCode::InvalidToolset, detail));
    if request.mcp_servers.is_empty() && request.host_tools.is_empty() {
        return invalid("a toolset needs `mcp_servers` or `host_tools`: a script without tools can do nothing".into());
    }
    if request.mcp_servers.len() > MOST_SERVERS {
        return invalid(format!("mcp_servers: {} servers; the limit is {MOST_SERVERS}", request.mcp_servers.len()));
    }
    for name in request.mcp_servers.keys() {
        if name.len() > LONGEST_NAME || TAKEN.contains(&name.as_str()) || !is_export_name(name) {
            let shown: String = name.chars().take(LONGEST_NAME).collect();
            return invalid(format!(
                "mcp_servers: {shown:?} cannot be an export of \"rewind:tools\": use an ASCII identifier that is no \
                 reserved word of JavaScript and none of {}",
                TAKEN.join(", ")
            ));
        }
    }
    Ok(())
}

/// A server, by its name, and what it listed.
type Listed = (String, RegisterMcpServer, Listing);

async fn list((name, server): (String, RegisterMcpServer)) -> Result<Listed, Refusal> {
    let endpoint = Endpoint { url: server.url.clone(), headers: server.headers.clone() };
    let listed = async { Client::new(&endpoint)?.list_tools(ListLimits::default()).await }.await;
    match listed {
        Ok(listing) => Ok((name, server, listing)),
        Err(error) => Err(Refusal::server(&name, &error)),
    }
}

fn document(servers: Vec<Listed>, host_tools: BTreeMap<String, RegisterHostTool>) -> Result<PinnedDocument, Refusal> {
    let mut quarantine = Quarantine::default();
    let mut mcp_servers = BTreeMap::new();
    for (name, server, listing) in servers {
        let pinned = pin_server(&name, server, listing, &mut quarantine);
        mcp_servers.insert(name, pinned);
    }
    let host_tools = host_tools
        .into_iter()
        .filter_map(|(name, tool)| {
            let tool = ListedTool {
                name,
                title: None,
                description: Some(tool.description),
                input_schema: tool.input_schema,
                output_schema: tool.output_schema,
                annotations: None,
            };
            pin_tool(Toolset::HOST, tool, &mut quarantine)
        })
        .collect();
    let toolset = Toolset { v: 1, mcp_servers, host_tools, http: None };
    let canonical =
        toolset.canonical().map_err(|error| Refusal::new(ProblemCode::InvalidToolset, error.to_string()))?;
    if canonical.len() > LARGEST_TOOLSET {
        let detail = format!("the pinned toolset has {} bytes; the limit is {LARGEST_TOOLSET}", canonical.len());
        return Err(Refusal::new(ProblemCode::InvalidToolset, detail));
    }
    let registration = Registration { tools: counts(&toolset), warnings: quarantine.warnings() };
    Ok(PinnedDocument { toolset, registration })
}

fn counts(toolset: &Toolset) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> =
        toolset.mcp_servers.iter().map(|(name, server)| (name.clone(), server.tools.len())).collect();
    if !toolset.host_tools.is_empty() {
        counts.insert(Toolset::HOST.to_owned(), toolset.host_tools.len());
    }
    counts
}

fn pin_server(name: &str, server: RegisterMcpServer, listing: Listing, quarantine: &mut Quarantine) -> McpServer {
    for entry in listing.malformed {
        let tool = entry.name.unwrap_or_else(|| format!("(entry {})", entry.position));
        quarantine.add(name, &tool, &entry.reason);
    }
    let mut once = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for tool in &listing.tools {
        if !once.insert(tool.name.clone()) {
            twice.insert(tool.name.clone());
        }
    }
    for tool in &twice {
        // Which of them is meant depends on the order of the list, which means nothing.
        quarantine.add(name, tool, "the server lists more than one tool of this name");
    }
    let usable = listing.tools.into_iter().filter(|tool| !twice.contains(&tool.name));
    let tools = usable.filter_map(|tool| pin_tool(name, tool, quarantine)).collect();
    let too_long = |text: &String| text.len() > LONGEST_TEXT;
    if listing.instructions.as_ref().is_some_and(too_long) {
        quarantine.add(name, "(instructions)", &format!("over {LONGEST_TEXT} bytes"));
    }
    let instructions = listing.instructions.filter(|text| !too_long(text));
    McpServer { url: server.url, headers: server.headers, instructions, tools }
}

/// `None` when the tool cannot be used: it is left out, and the reason is kept.
fn pin_tool(export: &str, tool: ListedTool, quarantine: &mut Quarantine) -> Option<(String, Tool)> {
    if let Err(reason) = check(&tool) {
        quarantine.add(export, &tool.name, &reason);
        return None;
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

fn check(tool: &ListedTool) -> Result<(), String> {
    if tool.name.is_empty() || tool.name.len() > LONGEST_NAME {
        return Err(format!("a tool's name has 1 to {LONGEST_NAME} bytes"));
    }
    for (what, text) in [("title", &tool.title), ("description", &tool.description)] {
        if text.as_ref().is_some_and(|text| text.len() > LONGEST_TEXT) {
            return Err(format!("its {what} is over {LONGEST_TEXT} bytes"));
        }
    }
    if tool.annotations.as_ref().is_some_and(|value: &Value| value.to_string().len() > LONGEST_TEXT) {
        return Err(format!("its annotations are over {LONGEST_TEXT} bytes"));
    }
    check_schema(&tool.input_schema).map_err(|error| format!("its input schema: {error}"))?;
    let output = tool.output_schema.as_ref().map_or(Ok(()), check_schema);
    output.map_err(|error| format!("its output schema: {error}"))
}

/// What was left out, and why.
#[derive(Debug, Default)]
struct Quarantine(Vec<ToolsetWarning>);

impl Quarantine {
    fn add(&mut self, export: &str, tool: &str, reason: &str) {
        let name: String = tool.chars().take(LONGEST_NAME).collect();
        let reason: String = reason.chars().take(500).collect();
        self.0.push(ToolsetWarning { tool: format!("{export}.{name}"), reason });
    }

    /// In an order that is not the servers'.
    fn warnings(mut self) -> Vec<ToolsetWarning> {
        self.0.sort_by(|a, b| (&a.tool, &a.reason).cmp(&(&b.tool, &b.reason)));
        if self.0.len() > MOST_WARNINGS {
            let more = self.0.len() - MOST_WARNINGS;
            self.0.truncate(MOST_WARNINGS);
            self.0.push(ToolsetWarning { tool: "(more)".into(), reason: format!("{more} more were left out") });
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use rewind_mcp::Era;
    use serde_json::json;

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

    fn pinned(tools: Vec<ListedTool>) -> PinnedDocument {
        let listing = Listing {
            era: Era::Session,
            protocol_version: String::new(),
            instructions: None,
            tools,
            malformed: Vec::new(),
        };
        let server = RegisterMcpServer { url: "http://x/".into(), headers: BTreeMap::new() };
        document(vec![("s".into(), server, listing)], BTreeMap::new()).expect("a toolset")
    }

    #[test]
    fn one_bad_tool_is_left_out_with_its_reason_and_the_others_stay() {
        let object = json!({"type": "object"});
        let long = "n".repeat(LONGEST_NAME + 1);
        let document = pinned(vec![
            tool("good", object.clone()),
            tool("bad", json!({"type": "objekt"})),
            tool("twice", object.clone()),
            tool("twice", json!({"type": "object", "properties": {}})),
            tool(&long, object),
        ]);
        let tools: Vec<_> = document.toolset.tools().map(|(name, _)| name.to_string()).collect();
        assert_eq!(tools, ["s.good"]);
        assert_eq!(document.registration.tools["s"], 1);
        let left_out: Vec<_> = document.registration.warnings.iter().map(|warning| warning.tool.as_str()).collect();
        assert_eq!(left_out, ["s.bad", &format!("s.{}", &long[..LONGEST_NAME]), "s.twice"]);
    }

    #[test]
    fn the_order_in_which_a_server_lists_changes_nothing() {
        let one = json!({"type": "object", "required": ["a", "b"]});
        let other = json!({"required": ["b", "a"], "type": "object"});
        let forward = pinned(vec![tool("x", one.clone()), tool("y", json!({})), tool("z", json!(1))]);
        let backward = pinned(vec![tool("z", json!(1)), tool("y", json!({})), tool("x", other)]);
        assert_eq!(forward.toolset.id().expect("id"), backward.toolset.id().expect("id"));
        assert_eq!(forward.registration, backward.registration);
    }

    #[test]
    fn a_server_cannot_be_named_like_something_else() {
        let named = |name: &str| {
            let server = RegisterMcpServer { url: "http://x/".into(), headers: BTreeMap::new() };
            check_names(&RegisterToolset { mcp_servers: [(name.into(), server)].into(), host_tools: BTreeMap::new() })
        };
        assert!(named("github").is_ok() && named("_$1").is_ok());
        for bad in [
            "host",
            "http",
            "sleep",
            "workflows",
            "ToolError",
            "await",
            "class",
            "a-b",
            "1a",
            "",
            "é",
            &"a".repeat(200),
        ] {
            assert!(named(bad).is_err(), "{bad}");
        }
        assert!(check_names(&RegisterToolset::default()).is_err());
    }
}
