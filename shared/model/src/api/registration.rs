//! Registering toolsets.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Approval, Delivery, ToolsetId, unique};

/// Body of `POST /v1/toolsets`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegisterToolset {
    /// A registered toolset whose servers and host tools this one takes over, byte for byte; no server is
    /// contacted. With it, only `workflows` and their `policies` may be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub base: Option<ToolsetId>,
    /// Name in `rewind:tools` → server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "unique::map")]
    pub mcp_servers: BTreeMap<String, RegisterMcpServer>,
    /// Name → host tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "unique::map")]
    pub host_tools: BTreeMap<String, RegisterHostTool>,
    /// `server.tool`, `host.tool` or `workflows.name` → how it is called; `server.*` is the default of a server's
    /// tools. Of a workflow's, `approval` and `park_limit` may be given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "unique::map")]
    pub policies: BTreeMap<String, RegisterPolicy>,
    /// Name → script that other scripts call as a tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "unique::map")]
    pub workflows: BTreeMap<String, RegisterWorkflow>,
}

/// An MCP server of the 2025 or the 2026-07-28 protocol: streamable HTTP at `url`, or, where the operator
/// allows it, a `command` that each node starts and talks to over stdio.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegisterMcpServer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Sent with every request, pinned, readable by everyone who reads the toolset: no credentials.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Pinned and readable like `headers`: no credentials.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The tools that are pinned, if not all: names, in which `*` stands for any characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<BTreeSet<String>>,
    /// Tools that are not pinned, whatever `include` says.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub exclude: BTreeSet<String>,
}

/// How a tool is called. What is absent is as in the default: at least once, 60 s, 5 attempts from 200 ms
/// on, twice as long each time up to 30 s, no approval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegisterPolicy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Of one attempt, such as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    #[serde(default)]
    pub retry: RegisterRetry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// How long a call waits for a decision at most, such as `2d`; it is rejected then. Without: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub park_limit: Option<String>,
}

/// Attempts of a call that was interrupted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegisterRetry {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_interval: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_interval: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<f64>,
}

/// A script that other scripts call as `workflows.name(input)`; each call is a run of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegisterWorkflow {
    /// TypeScript: `export default async function main(input) { … }`.
    pub script: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schemas. Without one, the input or the result is any JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// A registered toolset that the script may call; the toolset that is being registered if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub toolset: Option<ToolsetId>,
}

/// A tool that a worker of the harness answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegisterHostTool {
    pub description: String,
    /// A JSON Schema.
    pub input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}

/// Answer of `POST /v1/toolsets`: `201` the first time, `200` when the toolset existed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegisteredToolset {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: ToolsetId,
    /// Number of tools that scripts may call, by export.
    pub tools: BTreeMap<String, usize>,
    /// Tools that were left out, and other things worth knowing. Not part of the toolset's id.
    pub warnings: Vec<ToolsetWarning>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolsetWarning {
    /// `server.tool`, as far as it has a name.
    pub tool: String,
    pub reason: String,
}
