//! What became of calls that were made before: in the run that this one is a fork of, or on a cassette.

use std::{collections::BTreeMap, sync::OnceLock};

use rewind_model::{Digest, ErrorCode, Limits, Outcome, Payload, RunId, Seq, Timestamp, ToolFailure, ToolName};
use serde::{Deserialize, Serialize};

use crate::{Call, Delivered, Delivery, IllegalRecord, Phase, Record, Run, identity::Index};

/// The calls of a run by their numbers, kept as one document beside the journal of the run that takes their
/// outcomes over: it needs nothing else of the run that they are from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Version of the document: 1.
    pub v: u8,
    pub calls: BTreeMap<Seq, PastCall>,
    #[serde(skip)]
    index: Lazy,
}

/// [`Index`] of a history, from when it is first asked for. No part of what the history is.
#[derive(Debug, Default)]
struct Lazy(OnceLock<Index>);

impl Clone for Lazy {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Lazy {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Lazy {}

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
    /// Number of calls that the script had made by then: those of one number it got together. Absent in documents
    /// of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Seq>,
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
        Self { v: 1, calls: BTreeMap::new(), index: Lazy::default() }
    }

    /// What the run that `records` make has done so far. `past`: what it took outcomes from itself, and if it is a
    /// fork, what it would have taken later on.
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
        let (mut made, mut order) = (0, 0..);
        for record in records {
            match record {
                Record::Called { seq, call, .. } => {
                    made = *seq;
                    history.add(*seq, Made::Call(call.clone()));
                }
                Record::Refused { seq, tool, arguments, .. } => {
                    made = *seq;
                    history.add(*seq, Made::Refused { tool: tool.clone(), arguments: *arguments });
                }
                _ => {}
            }
            if let Some(Delivery { seq, at, value }) = Delivery::of(record) {
                let order = order.next().unwrap_or(u32::MAX);
                history.end(seq, PastOutcome { order, made: Some(made), at, taken: value.into() });
            }
        }
        let mut later: Vec<(Seq, PastOutcome)> = history.inherit(&run, records, past);
        later.extend(unknown(&run));
        later.sort_by_key(|(_, outcome)| outcome.order);
        for (seq, outcome) in later {
            let (order, at) = (order.next().unwrap_or(u32::MAX), outcome.at.max(run.script_time()));
            history.end(seq, PastOutcome { order, at, ..outcome });
        }
        Ok(history)
    }

    /// The outcomes that the run was yet to take from its own past. Calls that it had not come to yet are added: it
    /// would have taken their outcomes, too, as long as it did not part from its past, and of those that must not be
    /// made twice even then.
    fn inherit(&mut self, run: &Run, records: &[Record], past: Option<&History>) -> Vec<(Seq, PastOutcome)> {
        let Some(past) = past else { return Vec::new() };
        let waiting = run.outstanding().iter().filter(|(_, pending)| pending.phase == Phase::Recorded);
        let mut outcomes: Vec<_> = waiting
            .filter_map(|(seq, pending)| match pending.call.origin() {
                Some(Origin::Past(origin)) => Some((*seq, past.calls.get(&origin)?.outcome.clone()?)),
                Some(Origin::Nothing) | None => None,
            })
            .collect();
        if run.is_fork() {
            let parted = records.iter().any(|record| matches!(record, Record::Diverged { now: Some(_), .. }));
            for (seq, call) in past.calls.range(run.made() + 1..) {
                if parted && !call.is_at_most_once() {
                    continue;
                }
                self.calls.insert(*seq, PastCall { made: call.made.clone(), outcome: None });
                outcomes.extend(call.outcome.clone().map(|outcome| (*seq, outcome)));
            }
        }
        outcomes
    }

    fn add(&mut self, seq: Seq, made: Made) {
        self.calls.insert(seq, PastCall { made, outcome: None });
    }

    fn end(&mut self, seq: Seq, outcome: PastOutcome) {
        if let Some(call) = self.calls.get_mut(&seq) {
            call.outcome = Some(outcome);
        }
    }

    /// Outcomes that somebody has written by hand may have any numbers: afterwards they follow one another.
    pub(crate) fn renumber(&mut self) {
        let mut outcomes: Vec<_> = self.calls.iter_mut().collect();
        outcomes.retain(|(_, call)| call.outcome.is_some());
        outcomes.sort_by_key(|(seq, call)| (call.outcome.as_ref().map(|outcome| outcome.order), **seq));
        for (order, (_, call)) in (0..).zip(outcomes) {
            call.outcome.iter_mut().for_each(|outcome| outcome.order = order);
        }
    }

    pub(crate) fn index(&self) -> &Index {
        self.index.0.get_or_init(|| Index::of(&self.calls))
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
        self.index = Lazy::default();
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

impl PastCall {
    fn is_at_most_once(&self) -> bool {
        matches!(&self.made, Made::Call(call) if call.terms().at_most_once)
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

/// What must not be made twice, and is with a tool.
fn unknown(run: &Run) -> impl Iterator<Item = (Seq, PastOutcome)> + '_ {
    run.outstanding().iter().filter_map(|(seq, pending)| match (pending.phase, &pending.call) {
        (
            Phase::Sent { .. } | Phase::Elsewhere { .. } | Phase::Unknown { .. } | Phase::Deferred { .. },
            Call::Tool { tool, terms, .. },
        ) if terms.at_most_once => {
            let why = "it was being done when the run was forked";
            let taken = Taken::Outcome(Outcome::Err(outcome_unknown(tool, why)));
            let (order, made) = (u32::MAX, Some(run.made()));
            Some((*seq, PastOutcome { order, made, at: run.script_time(), taken }))
        }
        _ => None,
    })
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
