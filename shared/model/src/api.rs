//! The shapes of the HTTP API. The CLI and the tests use the same ones as the coordinator.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Approval, Delivery, Digest, Json, Key, RunId, Seq, Timestamp, ToolName, Toolset, ToolsetId};

/// Body of `POST /v1/toolsets`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegisterToolset {
    /// A registered toolset whose servers and host tools this one takes over, byte for byte; no server is
    /// contacted. With it, only `workflows` may be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub base: Option<ToolsetId>,
    /// Name in `rewind:tools` → server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, RegisterMcpServer>,
    /// Name → host tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_tools: BTreeMap<String, RegisterHostTool>,
    /// `server.tool` or `host.tool` → how it is called; `server.*` is the default of a server's tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, RegisterPolicy>,
    /// Name → script that other scripts call as a tool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
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
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub delivery: Option<Delivery>,
    /// Of one attempt, such as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    #[serde(default)]
    pub retry: RegisterRetry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub approval: Option<Approval>,
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

/// Body of `…/approve`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Approve {
    /// Who approves, for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// Body of `…/reject`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reject {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What the script is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A call that waits for a decision.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ParkedCall {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub run: RunId,
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub seq: Seq,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: Key,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub tool: ToolName,
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub arguments: Json,
    /// `approval`, or `schema_changed`: it does not match what its tool is by now; `detail` says how.
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub since: Timestamp,
}

/// The decision that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MadeDecision {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: Key,
    pub approved: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
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

/// Answer of `GET /v1/toolsets/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistryEntry {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: ToolsetId,
    /// What the id is the digest of; `?canonical` gives the very bytes.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub toolset: Toolset,
    /// The toolset that it was derived from. Not part of its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub base: Option<ToolsetId>,
    /// Number of tools that scripts may call, by export.
    pub tools: BTreeMap<String, usize>,
    /// What was said when the toolset was last registered. Not part of its id.
    pub warnings: Vec<ToolsetWarning>,
    /// Number of results from which the result types of tools without an output schema were learned.
    #[serde(default)]
    pub observed: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolsetWarning {
    /// `server.tool`, as far as it has a name.
    pub tool: String,
    pub reason: String,
}

/// Answer of a search for tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FoundTools {
    pub tools: Vec<FoundTool>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FoundTool {
    /// `export.name`
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub tool: ToolName,
    /// The higher, the better the hit; absent where nothing was searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// The tool's type as in the compact rendering, before it the types that it uses.
    pub signature: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rendering {
    Full,
    Compact,
}

/// Body of `POST /v1/toolsets/{id}/check`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckScript {
    pub script: String,
}

/// Answer of a check: `ok` is whether a run with this script would start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckedScript {
    pub ok: bool,
    pub diagnostics: Vec<Diagnostic>,
    pub warnings: Vec<Diagnostic>,
}

/// A finding of the type-checker, at a place in the user's script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diagnostic {
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in UTF-16 code units, as TypeScript counts.
    pub column: u32,
    /// TypeScript's, such as `TS2345`; `RW…` for Rewind's own.
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Body of `POST /v1/runs`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct StartRun {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub toolset: ToolsetId,
    /// TypeScript: `export default async function main(input) { … }`. This or `workflow`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// The name of a workflow of the toolset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// When the run fails if it has not ended: a time, or a duration from now. Its children have it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Any JSON; `null` if absent.
    #[serde(default = "Json::null")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub input: Json,
    /// The end user for whom the run acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The same key returns the same run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Recorded; no node has begun.
    Queued,
    Running,
    /// Nothing but timers and long calls outstanding; it is in no node's memory.
    Waiting,
    Completed,
    Failed,
    Cancelled,
}

impl RunStatus {
    pub const ALL: [RunStatus; 6] =
        [Self::Queued, Self::Running, Self::Waiting, Self::Completed, Self::Failed, Self::Cancelled];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
    pub fn ended(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Queued | Self::Running | Self::Waiting => false,
        }
    }
}

impl std::fmt::Display for RunStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for RunStatus {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| {
            format!("{text:?} is no status: one of queued, running, waiting, completed, failed, cancelled")
        })
    }
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunError {
    /// `script_error`, a `ToolError`'s code, `limit_…`, `stalled`, ….
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub tool: Option<ToolName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub key: Option<Key>,
    /// With positions in the TypeScript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
}

/// A run as the API shows it. A list has no `input` and no `result`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Run {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: RunId,
    pub status: RunStatus,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub toolset: ToolsetId,
    /// Digest of the script as it was checked.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub script: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub input: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    #[serde(default)]
    pub warnings: Vec<Diagnostic>,
    /// Number of calls made so far, and how many of them wait for an answer.
    #[serde(default)]
    pub calls: CallCounts,
    /// Parked calls.
    #[serde(default)]
    pub parked: u32,
    /// The call of another run that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub parent: Option<Key>,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallCounts {
    pub made: u32,
    pub outstanding: u32,
}

/// `null` is a result, and not the same as none.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// A page of a list.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Give it as `cursor` for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One call (or timer) of a run, put together from its journal's records.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JournalCall {
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub seq: Seq,
    /// `sleep` for a timer.
    pub tool: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: Key,
    /// `pending`, `ok`, or the code of its `ToolError`.
    pub status: String,
    /// The run that the call of a workflow is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub child: Option<RunId>,
    pub attempts: u32,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub called_at: Timestamp,
    /// Milliseconds from the call to its recorded end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// JSON, cut to 1 KiB for display: bytes and digest of the whole are beside it.
    pub arguments: Excerpt,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Excerpt>,
    /// The message of its `ToolError`, if it ended with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The beginning of a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Excerpt {
    pub text: String,
    pub bytes: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub sha256: Digest,
}

/// A line that the script wrote with `console`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogLine {
    pub level: String,
    pub text: String,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
}

/// A node's taking over of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Adoption {
    pub node: String,
    pub epoch: u64,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
}

/// Answer of `GET /v1/runs/{id}/journal`: calls in the order in which they were made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Journal {
    pub items: Vec<JournalCall>,
    pub logs: Vec<LogLine>,
    pub adoptions: Vec<Adoption>,
    /// Number of journal messages: appends that this run has cost.
    pub appends: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An error answer, RFC 9457, `application/problem+json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// `/problems/{slug}`.
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    /// What happened, to what, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Of a rejected script.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
}
