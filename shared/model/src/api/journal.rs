//! A run's history.

use serde::{Deserialize, Serialize};

use crate::{Digest, Key, RunId, Seq, Timestamp};

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
    /// `ok`, or the code of its `ToolError`. Before its end: `pending`, `parked`, `deferred` (its host tool answers
    /// later), `no_worker` (no worker of its host tool is there); `abandoned` when its run ended before it.
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
    /// It was not sent: its outcome is that of a call in another run, or on a cassette.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
    /// What happened to it between its beginning and its end: the first 100 things.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<CallEvent>,
}

/// Something that happened to a call: `attempt_failed`, `retried`, `parked`, `approved`, `rejected` or `deferred`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallEvent {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub at: Timestamp,
    pub event: String,
    /// Why, or by whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Where a fork does something else than the run that it was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diverged {
    /// The first call that differs.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub seq: Seq,
    /// What it was there, its arguments as a digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// What it is here; absent if the script ended without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
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
    /// The run that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub forked_from: Option<RunId>,
    /// Of a fork: where it does something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diverged: Option<Diverged>,
    /// Number of journal messages: appends that this run has cost.
    pub appends: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
