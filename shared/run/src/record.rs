//! The facts of a run, as its journal holds them.

use rewind_model::{
    Approval, Delivery, Digest, NodeId, Outcome, Payload, Policy, RunError, Seq, Timestamp, ToolFailure, ToolName,
    Toolset,
};
use serde::{Deserialize, Serialize};

use crate::{Origin, Spec, Taken};

/// One fact. A variant is never changed once it has been written anywhere: a new version of it is a
/// new variant, and both are read for ever (`tests/golden/` holds each as it was written).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The first record of every run, written by the coordinator that accepted it.
    Created { at: Timestamp, spec: Box<Spec> },
    /// A node took the run over. What the owner before it had sent is sent again, with the same key.
    Adopted { at: Timestamp, node: NodeId, epoch: u64 },
    /// The script made a call; it may be sent from here on.
    Called { at: Timestamp, seq: Seq, call: Call },
    /// The script made a call that is never sent. Its arguments are kept as a digest only: they may
    /// be over every limit.
    Refused {
        at: Timestamp,
        seq: Seq,
        tool: ToolName,
        arguments: Digest,
        failure: ToolFailure,
        /// Script time, where that is not the run's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        then: Option<Timestamp>,
    },
    /// An attempt ended without an answer; the next one goes out at `retry_at`.
    AttemptFailed { at: Timestamp, seq: Seq, attempt: u32, failure: ToolFailure, retry_at: Timestamp },
    /// A call that must not be sent twice goes out again: the attempt before it was not sent.
    Retried { at: Timestamp, seq: Seq, attempt: u32 },
    /// A call was not sent, and waits for somebody's decision. `attempt` is the one that it would have been.
    Parked { at: Timestamp, seq: Seq, attempt: u32, reason: ParkReason, detail: String },
    /// Somebody let a parked call go. `decision` is of the request that did.
    Approved {
        at: Timestamp,
        seq: Seq,
        decision: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Somebody ended a parked call: the script gets the failure.
    Rejected {
        at: Timestamp,
        seq: Seq,
        decision: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        failure: ToolFailure,
    },
    /// The host worker that has the call will answer it later: no queue holds it meanwhile, and no time runs.
    Deferred { at: Timestamp, seq: Seq, attempt: u32 },
    /// A call got the outcome that its origin had, at `then` of script time.
    Taken { at: Timestamp, seq: Seq, then: Timestamp, taken: Taken },
    /// From this call on the script does something else than the run that it is a fork of. Both calls are
    /// described; one that is absent was not made.
    Diverged {
        at: Timestamp,
        seq: Seq,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        then: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        now: Option<String>,
    },
    /// A call ended. `attempt` is the one that brought the outcome.
    Completed { at: Timestamp, seq: Seq, attempt: u32, outcome: Outcome },
    /// A sleep is over.
    Fired { at: Timestamp, seq: Seq },
    /// The script wrote a line with `console`.
    Logged { at: Timestamp, level: String, text: String },
    /// Nothing to do until a timer fires or a long call is answered: the run left memory.
    Waiting { at: Timestamp },
    /// Nothing follows.
    Ended { at: Timestamp, end: End },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    Tool {
        tool: ToolName,
        arguments: Payload,
        /// The script asked for the whole MCP result.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        raw: bool,
        #[serde(default, skip_serializing_if = "Terms::are_usual")]
        terms: Terms,
        /// Where its outcome comes from, if it is not to be sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<Origin>,
    },
    /// Absolute, so that a crash neither shortens nor lengthens it.
    Sleep {
        until: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<Origin>,
    },
}

/// Why a call waits for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParkReason {
    /// Its tool's policy asks for one.
    Approval,
    /// It does not match what its tool is by now.
    SchemaChanged,
    /// Its server refused the credentials.
    Credentials,
}

impl ParkReason {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::SchemaChanged => "schema_changed",
            Self::Credentials => "credentials",
        }
    }
}

/// What the tool's pinned policy says of how a call goes through states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Never sent again once it may have been sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_most_once: bool,
    /// Parked until somebody lets it go.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approval: bool,
    /// Milliseconds for which it is parked at most; it is rejected then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub park_ms: Option<u64>,
}

impl Terms {
    pub fn of(policy: &Policy) -> Self {
        Self {
            at_most_once: policy.delivery == Delivery::AtMostOnce,
            approval: policy.approval == Approval::Always,
            park_ms: policy.park_limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Completed { result: Payload },
    Failed { error: RunError },
    Cancelled,
}

impl Call {
    /// Once sent, is it something that outlives the node that sent it? A host tool's call is in a queue: a
    /// worker has it or will have it, whoever owns the run by then. A workflow's call is a run.
    pub fn is_queued_elsewhere(&self) -> bool {
        self.is_of_worker() || self.is_workflow()
    }

    /// Of a host tool.
    pub fn is_of_worker(&self) -> bool {
        matches!(self, Call::Tool { tool, .. } if tool.export == Toolset::HOST)
    }

    pub fn is_workflow(&self) -> bool {
        matches!(self, Call::Tool { tool, .. } if tool.export == Toolset::WORKFLOWS)
    }

    pub fn terms(&self) -> Terms {
        match self {
            Call::Tool { terms, .. } => *terms,
            Call::Sleep { .. } => Terms::default(),
        }
    }

    pub fn origin(&self) -> Option<Origin> {
        match self {
            Call::Tool { origin, .. } | Call::Sleep { origin, .. } => *origin,
        }
    }

    pub(crate) fn set_origin(&mut self, from: Option<Origin>) {
        match self {
            Call::Tool { origin, .. } | Call::Sleep { origin, .. } => *origin = from,
        }
    }
}

impl Record {
    pub fn at(&self) -> Timestamp {
        match self {
            Record::Created { at, .. }
            | Record::Adopted { at, .. }
            | Record::Called { at, .. }
            | Record::Refused { at, .. }
            | Record::AttemptFailed { at, .. }
            | Record::Retried { at, .. }
            | Record::Parked { at, .. }
            | Record::Approved { at, .. }
            | Record::Rejected { at, .. }
            | Record::Deferred { at, .. }
            | Record::Taken { at, .. }
            | Record::Diverged { at, .. }
            | Record::Completed { at, .. }
            | Record::Fired { at, .. }
            | Record::Logged { at, .. }
            | Record::Waiting { at }
            | Record::Ended { at, .. } => *at,
        }
    }

    /// The variant's name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Record::Created { .. } => "created",
            Record::Adopted { .. } => "adopted",
            Record::Called { .. } => "called",
            Record::Refused { .. } => "refused",
            Record::AttemptFailed { .. } => "attempt_failed",
            Record::Retried { .. } => "retried",
            Record::Parked { .. } => "parked",
            Record::Approved { .. } => "approved",
            Record::Rejected { .. } => "rejected",
            Record::Deferred { .. } => "deferred",
            Record::Taken { .. } => "taken",
            Record::Diverged { .. } => "diverged",
            Record::Completed { .. } => "completed",
            Record::Fired { .. } => "fired",
            Record::Logged { .. } => "logged",
            Record::Waiting { .. } => "waiting",
            Record::Ended { .. } => "ended",
        }
    }

    /// Bytes of the texts that the record carries, without what encodes them.
    pub fn size(&self) -> usize {
        let json = |json: &Option<rewind_model::Json>| json.as_ref().map_or(0, rewind_model::Json::len);
        match self {
            Record::Created { spec, .. } => {
                let labels: usize = spec.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
                spec.input.inline_size() + labels
            }
            Record::Called { call: Call::Tool { arguments, tool, .. }, .. } => {
                arguments.inline_size() + tool.name.len() + tool.export.len()
            }
            Record::Refused { tool, failure, .. } => tool.name.len() + failure.message.len() + json(&failure.details),
            Record::AttemptFailed { failure, .. }
            | Record::Rejected { failure, .. }
            | Record::Taken { taken: Taken::Outcome(Outcome::Err(failure)), .. }
            | Record::Completed { outcome: Outcome::Err(failure), .. } => {
                failure.message.len() + json(&failure.details)
            }
            Record::Completed { outcome: Outcome::Ok(payload), .. }
            | Record::Taken { taken: Taken::Outcome(Outcome::Ok(payload)), .. } => payload.inline_size(),
            Record::Diverged { then, now, .. } => [then, now].into_iter().flatten().map(String::len).sum(),
            Record::Logged { text, .. } => text.len(),
            Record::Parked { detail, .. } => detail.len(),
            Record::Ended { end: End::Completed { result }, .. } => result.inline_size(),
            Record::Ended { end: End::Failed { error }, .. } => {
                error.message.len() + error.stack.as_ref().map_or(0, String::len)
            }
            Record::Ended { end: End::Cancelled, .. }
            | Record::Adopted { .. }
            | Record::Called { call: Call::Sleep { .. }, .. }
            | Record::Retried { .. }
            | Record::Approved { .. }
            | Record::Deferred { .. }
            | Record::Taken { taken: Taken::Slept, .. }
            | Record::Fired { .. }
            | Record::Waiting { .. } => 0,
        }
    }

    /// The blobs that the record names.
    pub fn blobs(&self) -> impl Iterator<Item = Digest> + use<> {
        let payload = match self {
            Record::Created { spec, .. } => Some(&spec.input),
            Record::Called { call: Call::Tool { arguments, .. }, .. } => Some(arguments),
            Record::Completed { outcome: Outcome::Ok(payload), .. }
            | Record::Taken { taken: Taken::Outcome(Outcome::Ok(payload)), .. } => Some(payload),
            Record::Ended { end: End::Completed { result }, .. } => Some(result),
            _ => None,
        };
        let history = match self {
            Record::Created { spec, .. } => spec.past.as_ref().map(|past| past.history),
            _ => None,
        };
        payload.and_then(Payload::blob).into_iter().chain(history)
    }

    /// The payload that may be kept as a blob instead, if the record has one.
    pub fn payload_mut(&mut self) -> Option<&mut Payload> {
        match self {
            Record::Created { spec, .. } => Some(&mut spec.input),
            Record::Called { call: Call::Tool { arguments, .. }, .. } => Some(arguments),
            Record::Completed { outcome: Outcome::Ok(payload), .. }
            | Record::Taken { taken: Taken::Outcome(Outcome::Ok(payload)), .. } => Some(payload),
            Record::Ended { end: End::Completed { result }, .. } => Some(result),
            Record::Adopted { .. }
            | Record::Called { call: Call::Sleep { .. }, .. }
            | Record::Refused { .. }
            | Record::AttemptFailed { .. }
            | Record::Retried { .. }
            | Record::Parked { .. }
            | Record::Approved { .. }
            | Record::Rejected { .. }
            | Record::Deferred { .. }
            | Record::Taken { .. }
            | Record::Diverged { .. }
            | Record::Completed { outcome: Outcome::Err(_), .. }
            | Record::Fired { .. }
            | Record::Logged { .. }
            | Record::Waiting { .. }
            | Record::Ended { .. } => None,
        }
    }
}
