//! Runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Diagnostic, Digest, Json, Key, RunId, Timestamp, ToolName, ToolsetId};

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
    /// Where events of the run and of its children are sent, besides the installation's endpoints: an http(s) URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// A document of `GET /v1/runs/{id}/cassette`: no tool is called; each call gets the outcome of the same call
    /// there, or a `ToolError` with the code `not_recorded`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub cassette: Option<Json>,
    /// No tool is called: the run ends when the script needs the result of a call, and its own result is
    /// `{"calls": […], "returned"?}`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan: bool,
}

/// Body of `POST /v1/runs/{id}/fork`. What is absent is as in the run that is forked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ForkRun {
    /// TypeScript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub toolset: Option<ToolsetId>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub input: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Never that of the run that is forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
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
    /// The run that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub forked_from: Option<RunId>,
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

/// `null` is a value, and not the same as none.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}
