//! What a run was started with.

use std::collections::BTreeMap;

use rewind_model::{Digest, Key, Payload, RunId, Timestamp, ToolsetId, TraceContext};
use serde::{Deserialize, Serialize};

/// What a run was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    pub toolset: ToolsetId,
    /// Of the compiled script in the catalog.
    pub script: Digest,
    pub input: Payload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Of the request that started the run, so that an idempotency key used for another one is told.
    pub request: Digest,
    pub trace: TraceContext,
    /// Calls that may be with tools at once. Pinned, since it decides which calls count as sent: a
    /// journal must mean the same to a node with another setting.
    #[serde(default = "calls_in_flight", skip_serializing_if = "is_default_calls_in_flight")]
    pub calls_in_flight: usize,
    /// The call that started the run, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// When the run fails if it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Where its events are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// Calls that were made before, and what became of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub past: Option<Past>,
    /// It sends nothing: it ends with the calls of which it would need the results.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan: bool,
}

/// The call of a workflow that a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub key: Key,
    /// From 1: how many runs are above this one.
    pub depth: u32,
}

/// What a fork, a run on a cassette or a plan begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Of the [`crate::History`], in the blob store.
    pub history: Digest,
    pub clock: Clock,
    /// The run that this one is a fork of; none: of a cassette.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<RunId>,
}

/// What a script sees of time and chance at its beginning, where that is not its own run's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Of its random numbers.
    pub seed: RunId,
    pub started: Timestamp,
}

/// The limit of journals that name none. Never to be changed.
fn calls_in_flight() -> usize {
    100
}

fn is_default_calls_in_flight(limit: &usize) -> bool {
    *limit == calls_in_flight()
}
