//! What harnesses are told by webhooks, and what could not be told.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{EventId, Key, RunId, RunStatus, Seq, Timestamp, ToolName};

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EventType {
    #[serde(rename = "run.completed")]
    RunCompleted,
    #[serde(rename = "run.failed")]
    RunFailed,
    #[serde(rename = "run.cancelled")]
    RunCancelled,
    /// A call waits for somebody's decision, as its tool's policy wants it.
    #[serde(rename = "call.approval_required")]
    ApprovalRequired,
    /// A call waits for credentials.
    #[serde(rename = "credentials.expired")]
    CredentialsExpired,
    /// A call waits: it does not match what its tool is by now.
    #[serde(rename = "tool.schema_changed")]
    SchemaChanged,
}

impl EventId {
    /// The event's id: a function of what happened. `seq` and `parking` (how often the call has been parked) are 0 for
    /// what happens to a run.
    pub fn of(kind: EventType, run: &RunId, seq: Seq, parking: u32) -> Self {
        Self::of_bytes(format!("{kind} {run} {seq} {parking}").as_bytes())
    }
}

impl EventType {
    pub const ALL: [EventType; 6] = [
        Self::RunCompleted,
        Self::RunFailed,
        Self::RunCancelled,
        Self::ApprovalRequired,
        Self::CredentialsExpired,
        Self::SchemaChanged,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunCompleted => "run.completed",
            Self::RunFailed => "run.failed",
            Self::RunCancelled => "run.cancelled",
            Self::ApprovalRequired => "call.approval_required",
            Self::CredentialsExpired => "credentials.expired",
            Self::SchemaChanged => "tool.schema_changed",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
impl FromStr for EventType {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| format!("{:?} is no type of event", text.chars().take(40).collect::<String>()))
    }
}

/// The body of a webhook. It names things and says why; what they hold has to be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Event {
    #[serde(rename = "type")]
    pub kind: EventType,
    /// When it happened, whenever it is told.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub timestamp: Timestamp,
    pub data: EventData,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventData {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub run: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Of a run that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Of a run that has failed; what it says beside is `error` of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The call of another run that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub parent: Option<Key>,
    /// The call that waits; `GET /v1/parked` has its arguments and details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<EventCall>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventCall {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub key: Key,
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub seq: Seq,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub tool: ToolName,
    /// `approval`, `schema_changed` or `credentials`.
    pub reason: String,
}

/// An event that an endpoint did not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeadDelivery {
    /// Of this delivery: the event's id and which endpoint.
    pub id: String,
    /// The event's, which its receiver finds in `webhook-id`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub event: EventId,
    #[serde(rename = "type")]
    pub kind: EventType,
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub run: RunId,
    /// Scheme, host and port; the rest of a URL may be a secret.
    pub endpoint: String,
    /// What came of the last attempt.
    pub why: String,
    /// At most: one that a coordinator took and died with counts as well.
    pub attempts: u32,
    /// When it was given up.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub since: Timestamp,
}

/// Answer of `…/resend`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Resent {
    /// Under which the endpoint gets it again.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub event: EventId,
}
