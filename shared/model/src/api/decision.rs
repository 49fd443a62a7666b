//! Parked calls, and what people decide about them.

use serde::{Deserialize, Serialize};

use crate::{Excerpt, Key, RunId, Seq, Timestamp, ToolName};

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
    /// The end user for whom its run acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// JSON, cut to 8 KiB for display: bytes and digest of the whole are beside it.
    pub arguments: Excerpt,
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
