//! Makes a toolset out of what a harness asks for and what its servers list.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};
use rewind_bus::catalog::Registration;
use rewind_mcp::{Client, Endpoint, ListLimits, Listing};
use rewind_model::{ListedTool, McpServer, ProblemCode, RegisterHostTool, RegisterMcpServer, RegisterToolset, Toolset};
use rewind_schema::{Quarantine, is_export_name, pin_tools};

use crate::refusal::Refusal;

/// Servers of one toolset, and how many of them are asked at once.
const MOST_SERVERS: usize = 64;
const AT_ONCE: usize = 16;
/// Bytes of a server's name.
const LONGEST_NAME: usize = 128;
/// Bytes of the whole document.
const LARGEST_TOOLSET: usize = 32 << 20;

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
    let host_tools = pin_tools(Toolset::HOST, host_tools.into_iter().map(listed).collect(), &mut quarantine);
    let toolset = Toolset { v: 1, mcp_servers, host_tools, http: None };
    let canonical =
        toolset.canonical().map_err(|error| Refusal::new(ProblemCode::InvalidToolset, error.to_string()))?;
    if canonical.len() > LARGEST_TOOLSET {
        let detail = format!("the pinned toolset has {} bytes; the limit is {LARGEST_TOOLSET}", canonical.len());
        return Err(Refusal::new(ProblemCode::InvalidToolset, detail));
    }
    let registration = Registration { tools: counts(&toolset), warnings: quarantine.into_warnings() };
    Ok(PinnedDocument { toolset, registration })
}

fn listed((name, tool): (String, RegisterHostTool)) -> ListedTool {
    ListedTool {
        name,
        title: None,
        description: Some(tool.description),
        input_schema: tool.input_schema,
        output_schema: tool.output_schema,
        annotations: None,
    }
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
    listing.malformed.iter().for_each(|entry| quarantine.malformed(name, entry));
    let tools = pin_tools(name, listing.tools, quarantine);
    let instructions = quarantine.instructions(name, listing.instructions);
    McpServer { url: server.url, headers: server.headers, instructions, tools }
}

#[cfg(test)]
mod tests {
    use super::*;

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
