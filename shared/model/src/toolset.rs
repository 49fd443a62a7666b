//! The toolset document: what a script may call, pinned.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Digest, Policy, ToolName, ToolsetId};

/// What a toolset pins. Its canonical JSON (RFC 8785) is what the id is the digest of, so nothing
/// that may change without the toolset being another one belongs here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolset {
    /// Version of this document's format: 1.
    pub v: u32,
    /// By the name that the harness gave the server, which is its export in `rewind:tools`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, McpServer>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_tools: BTreeMap<String, Tool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpTool>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workflows: BTreeMap<String, Workflow>,
}

/// An MCP server: at a URL (streamable HTTP), or a command that a node starts (stdio). One of `url` and
/// `command` is there; [`McpServer::transport`] says which.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Sent with every request. Pinned and readable, so never a place for credentials.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// What the command's environment has besides the node's `PATH` and `HOME`. Pinned and readable.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What the server says about its own use, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// By the tool's own name, verbatim.
    pub tools: BTreeMap<String, Tool>,
}

/// One tool's pinned description and schemas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// A JSON Schema.
    pub input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// MCP's hints, as the server gave them. Untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
    pub policy: Policy,
}

/// A script that other scripts call as a tool: a run of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workflow {
    /// Of the TypeScript, as it was given; the blob of this digest holds it.
    pub script: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the script may call; the toolset that it stands in if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset: Option<ToolsetId>,
    /// Of it, `approval` and `park_limit` say something. Absent where it is the default one.
    #[serde(default, skip_serializing_if = "Policy::is_default")]
    pub policy: Policy,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport<'a> {
    Http { url: &'a str, headers: &'a BTreeMap<String, String> },
    Stdio { command: &'a str, args: &'a [String], env: &'a BTreeMap<String, String> },
}

impl McpServer {
    /// The command if there is one, the URL otherwise.
    pub fn transport(&self) -> Transport<'_> {
        match &self.command {
            Some(command) => Transport::Stdio { command, args: &self.args, env: &self.env },
            None => Transport::Http { url: self.url.as_deref().unwrap_or_default(), headers: &self.headers },
        }
    }
}

/// The `fetch` of scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpTool {
    pub allowed_hosts: BTreeSet<String>,
}

/// What stands behind a tool: decides who sends the call.
#[derive(Debug, Clone, Copy)]
pub enum ToolKind<'a> {
    Mcp(&'a McpServer),
    Host,
}

#[derive(Debug, thiserror::Error)]
pub enum ToolsetError {
    #[error("the toolset cannot be written as canonical JSON: {0}")]
    Canonical(serde_json::Error),
    #[error("this is not a toolset document: {0}")]
    Malformed(serde_json::Error),
    #[error("the toolset document has version {0}; this build reads version 1")]
    Version(u32),
}

impl Toolset {
    /// The export under which host tools stand.
    pub const HOST: &'static str = "host";
    /// The export under which workflows stand.
    pub const WORKFLOWS: &'static str = "workflows";

    /// The RFC 8785 bytes that [`Toolset::id`] is the digest of.
    ///
    /// # Errors
    /// When a schema holds a number that JSON cannot write (none that came from JSON does).
    pub fn canonical(&self) -> Result<Vec<u8>, ToolsetError> {
        serde_json_canonicalizer::to_vec(self).map_err(ToolsetError::Canonical)
    }

    /// `ts_` and the SHA-256 of the canonical bytes.
    ///
    /// # Errors
    /// As [`Toolset::canonical`].
    pub fn id(&self) -> Result<ToolsetId, ToolsetError> {
        Ok(ToolsetId::of_bytes(&self.canonical()?))
    }

    /// # Errors
    /// When `bytes` are no toolset document, or one of a later version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ToolsetError> {
        let toolset: Self = serde_json::from_slice(bytes).map_err(ToolsetError::Malformed)?;
        if toolset.v == 1 { Ok(toolset) } else { Err(ToolsetError::Version(toolset.v)) }
    }

    pub fn tool(&self, name: &ToolName) -> Option<(ToolKind<'_>, &Tool)> {
        if name.export == Self::HOST {
            return self.host_tools.get(&name.name).map(|tool| (ToolKind::Host, tool));
        }
        let server = self.mcp_servers.get(&name.export)?;
        server.tools.get(&name.name).map(|tool| (ToolKind::Mcp(server), tool))
    }

    /// Every tool, ordered by export and name.
    pub fn tools(&self) -> impl Iterator<Item = (ToolName, &Tool)> {
        let host = self.host_tools.iter().map(|(name, tool)| (ToolName::new(Self::HOST, name), tool));
        let mcp = self.mcp_servers.iter().flat_map(|(export, server)| {
            server.tools.iter().map(move |(name, tool)| (ToolName::new(export, name), tool))
        });
        mcp.chain(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolset(json: &str) -> Toolset {
        Toolset::from_bytes(json.as_bytes()).expect("valid")
    }

    #[test]
    fn the_id_does_not_depend_on_the_order_of_members() {
        let policy = serde_json::to_string(&Policy::default()).expect("writable");
        let one = toolset(&format!(
            r#"{{"v":1,"host_tools":{{"a":{{"input_schema":{{"type":"object","properties":{{"x":{{}},"y":{{}}}}}},"policy":{policy}}},"b":{{"input_schema":true,"policy":{policy}}}}}}}"#
        ));
        let two = toolset(&format!(
            r#"{{"host_tools":{{"b":{{"policy":{policy},"input_schema":true}},"a":{{"policy":{policy},"input_schema":{{"properties":{{"y":{{}},"x":{{}}}},"type":"object"}}}}}},"v":1}}"#
        ));
        assert_eq!(one.id().expect("id"), two.id().expect("id"));
        assert_eq!(
            one.id().expect("id").as_str().strip_prefix("ts_"),
            Some(&*crate::Digest::of(one.canonical().expect("canonical")).to_string())
        );
    }

    #[test]
    fn the_first_dot_divides_export_and_name() {
        let name: ToolName = "docs.a.b".parse().expect("valid");
        assert_eq!((name.export.as_str(), name.name.as_str()), ("docs", "a.b"));
    }
}
