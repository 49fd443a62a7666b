//! What became of calls that were made before: in the run that this one is a fork of, or on a cassette.

use std::collections::BTreeMap;

use rewind_model::{Digest, ErrorCode, Limits, Outcome, Payload, RunId, Seq, Timestamp, ToolFailure, ToolName};
use serde::{Deserialize, Serialize};

use crate::{Call, Delivered, Delivery, IllegalRecord, Phase, Record, Run};

/// The calls of a run by their numbers, kept as one document beside the journal of the run that takes their
/// outcomes over: it needs nothing else of the run that they are from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Version of the document: 1.
    pub v: u8,
    pub calls: BTreeMap<Seq, PastCall>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastCall {
    pub made: Made,
    /// `None` when it had none by then.
    pub outcome: Option<PastOutcome>,
}

/// As much of a call as tells it from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Made {
    Call(Call),
    /// It was never to be sent.
    Refused {
        tool: ToolName,
        arguments: Digest,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastOutcome {
    /// Its place among the outcomes, as the script got them.
    pub order: u32,
    /// Script time from there on.
    pub at: Timestamp,
    pub taken: Taken,
}

/// What a call got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    Outcome(Outcome),
    Slept,
}

/// Where the outcome of a call comes from that is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The call of this number in the history.
    Past(Seq),
    /// There is no such call.
    Nothing,
}

#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("it is no history of this build's format: {0}")]
    Malformed(#[from] rmp_serde::decode::Error),
    #[error("it has version {0}; this build reads version 1: upgrade it")]
    Version(u8),
    #[error("it cannot be written: {0}")]
    Unwritable(#[from] rmp_serde::encode::Error),
}

impl History {
    pub fn new() -> Self {
        Self { v: 1, calls: BTreeMap::new() }
    }

    /// What the run that `records` make has done so far. `past`: what it took outcomes from itself.
    ///
    /// A call that must not be made twice, and that may have been sent, has the outcome that nobody knows.
    ///
    /// # Errors
    /// When a record cannot follow the ones before it.
    pub fn of_run(id: RunId, records: &[Record], past: Option<&History>) -> Result<Self, IllegalRecord> {
        // What was with a tool when the run ended is so still.
        let before = records.iter().take_while(|record| !matches!(record, Record::Ended { .. }));
        let run = Run::of(id, Limits::DEFAULT, before)?;
        let mut history = Self::new();
        let mut order = 0..;
        for record in records {
            match record {
                Record::Called { seq, call, .. } => history.add(*seq, Made::Call(call.clone())),
                Record::Refused { seq, tool, arguments, .. } => {
                    history.add(*seq, Made::Refused { tool: tool.clone(), arguments: *arguments });
                }
                _ => {}
            }
            if let Some(Delivery { seq, at, value }) = Delivery::of(record) {
                history.end(seq, PastOutcome { order: order.next().unwrap_or(u32::MAX), at, taken: value.into() });
            }
        }
        let inherited = |call: &Call| match (call.origin(), past) {
            (Some(Origin::Past(seq)), Some(past)) => past.calls.get(&seq).and_then(|call| call.outcome.as_ref()),
            _ => None,
        };
        let mut waiting: Vec<_> = run.outstanding().iter().collect();
        waiting.sort_by_key(|(_, pending)| inherited(&pending.call).map_or(u32::MAX, |outcome| outcome.order));
        for (seq, pending) in waiting {
            let mut at = run.script_time();
            let taken = match (pending.phase, &pending.call) {
                (Phase::Recorded, call) => inherited(call).map(|outcome| {
                    at = at.max(outcome.at);
                    outcome.taken.clone()
                }),
                (
                    Phase::Sent { .. } | Phase::Elsewhere { .. } | Phase::Unknown { .. } | Phase::Deferred { .. },
                    Call::Tool { tool, terms, .. },
                ) if terms.at_most_once => {
                    let why = "it was being done when the run was forked";
                    Some(Taken::Outcome(Outcome::Err(outcome_unknown(tool, why))))
                }
                _ => None,
            };
            if let Some(taken) = taken {
                history.end(*seq, PastOutcome { order: order.next().unwrap_or(u32::MAX), at, taken });
            }
        }
        Ok(history)
    }

    fn add(&mut self, seq: Seq, made: Made) {
        self.calls.insert(seq, PastCall { made, outcome: None });
    }

    fn end(&mut self, seq: Seq, outcome: PastOutcome) {
        if let Some(call) = self.calls.get_mut(&seq) {
            call.outcome = Some(outcome);
        }
    }

    /// The blobs that it names.
    pub fn blobs(&self) -> impl Iterator<Item = Digest> + '_ {
        self.calls.values().flat_map(|PastCall { made, outcome }| {
            let arguments = match made {
                Made::Call(Call::Tool { arguments, .. }) => arguments.blob(),
                Made::Call(Call::Sleep { .. }) | Made::Refused { .. } => None,
            };
            let result = match outcome {
                Some(PastOutcome { taken: Taken::Outcome(Outcome::Ok(payload)), .. }) => payload.blob(),
                _ => None,
            };
            arguments.into_iter().chain(result)
        })
    }

    /// The arguments and results that it holds.
    pub fn payloads_mut(&mut self) -> impl Iterator<Item = &mut Payload> {
        self.calls.values_mut().flat_map(|PastCall { made, outcome }| {
            let arguments = match made {
                Made::Call(Call::Tool { arguments, .. }) => Some(arguments),
                Made::Call(Call::Sleep { .. }) | Made::Refused { .. } => None,
            };
            let result = match outcome {
                Some(PastOutcome { taken: Taken::Outcome(Outcome::Ok(payload)), .. }) => Some(payload),
                _ => None,
            };
            arguments.into_iter().chain(result)
        })
    }

    /// MessagePack with named fields.
    ///
    /// # Errors
    /// When it cannot be encoded.
    pub fn to_bytes(&self) -> Result<Vec<u8>, HistoryError> {
        Ok(rmp_serde::to_vec_named(self)?)
    }

    /// # Errors
    /// When `bytes` are no history, or one of a later version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, HistoryError> {
        #[derive(Deserialize)]
        struct Envelope {
            v: u8,
        }
        match rmp_serde::from_slice::<Envelope>(bytes)? {
            Envelope { v: 1 } => Ok(rmp_serde::from_slice(bytes)?),
            Envelope { v } => Err(HistoryError::Version(v)),
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self::new()
    }
}

impl Made {
    /// Is it the same call, whoever makes it and whatever number it has?
    pub fn is(&self, now: &Call) -> bool {
        match (self, now) {
            (Made::Call(Call::Sleep { until, .. }), Call::Sleep { until: now, .. }) => until == now,
            (
                Made::Call(Call::Tool { tool, arguments, raw, .. }),
                Call::Tool { tool: tool_now, arguments: arguments_now, raw: raw_now, .. },
            ) => {
                tool == tool_now
                    && raw == raw_now
                    && arguments.size() == arguments_now.size()
                    && (arguments == arguments_now || arguments.digest() == arguments_now.digest())
            }
            (Made::Refused { tool, arguments }, Call::Tool { tool: tool_now, arguments: now, .. }) => {
                tool == tool_now && *arguments == now.digest()
            }
            (Made::Call(_) | Made::Refused { .. }, _) => false,
        }
    }

    /// Names the call; its arguments are the user's, so only their digest is shown.
    pub fn describe(&self) -> String {
        match self {
            Made::Call(call) => describe(call),
            Made::Refused { tool, arguments } => format!("{tool} with arguments {}", short(arguments)),
        }
    }
}

/// As [`Made::describe`].
pub(crate) fn describe(call: &Call) -> String {
    match call {
        Call::Tool { tool, arguments, raw, .. } => {
            let raw = if *raw { ".raw" } else { "" };
            format!("{tool}{raw} with arguments {}", short(&arguments.digest()))
        }
        Call::Sleep { until, .. } => format!("sleep until {until}"),
    }
}

fn short(digest: &Digest) -> String {
    format!("sha256:{}", &digest.to_string()[..12])
}

pub(crate) fn outcome_unknown(tool: &ToolName, why: &str) -> ToolFailure {
    let message = format!("{tool} may have been done or not, and must not be done twice: {why}");
    ToolFailure { retryable: false, ..ToolFailure::new(ErrorCode::OutcomeUnknown, message) }
}

impl From<Delivered> for Taken {
    fn from(value: Delivered) -> Self {
        match value {
            Delivered::Value(payload) => Taken::Outcome(Outcome::Ok(payload)),
            Delivered::Failure(failure) => Taken::Outcome(Outcome::Err(failure)),
            Delivered::Slept => Taken::Slept,
        }
    }
}

impl From<Taken> for Delivered {
    fn from(taken: Taken) -> Self {
        match taken {
            Taken::Outcome(Outcome::Ok(payload)) => Delivered::Value(payload),
            Taken::Outcome(Outcome::Err(failure)) => Delivered::Failure(failure),
            Taken::Slept => Delivered::Slept,
        }
    }
}
