//! A run's calls and what became of them, as a document that people read, compare and keep beside their tests.

use rewind_model::{Digest, Json, Limits, Outcome, Payload, RunId, Seq, Timestamp, ToolFailure, ToolName, ToolsetId};
use serde::{Deserialize, Serialize};

use crate::{Call, Clock, History, Made, PastCall, PastOutcome, Taken, Terms};

/// The document. Its arguments and results are whole; no call of it is ever sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cassette {
    /// Version of the format: 1.
    pub rewind_cassette: u8,
    /// The run that it was made from.
    pub run: RunId,
    pub toolset: ToolsetId,
    pub clock: Clock,
    #[serde(default = "Json::null")]
    pub input: Json,
    /// In the order in which the script made them.
    pub calls: Vec<CassetteCall>,
}

/// A call of a tool (`tool`, `arguments`), one that was refused by its pinned schema (`tool`, `refused`) or a sleep
/// (`sleep_until`); what it got, if it got something, and as the how-manyth of all (`order`, `at`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CassetteCall {
    pub seq: Seq,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub arguments: Option<Json>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
    /// Digest of the arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep_until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
    /// Number of calls that the script had made by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub result: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CassetteError {
    #[error("rewind_cassette: this build reads version 1, and this one has version {0}: upgrade Rewind")]
    Version(u8),
    #[error("calls: call {0} is there twice")]
    Twice(Seq),
    #[error("calls: call {seq}: {why}")]
    Call { seq: Seq, why: &'static str },
    #[error("a payload of call {0} is not at hand")]
    NotInline(Seq),
}

/// `null` is a value, and not the same as none.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

impl Cassette {
    /// # Errors
    /// When a payload of the history is kept as a blob: the caller has to read it first.
    pub fn new(
        run: RunId,
        toolset: ToolsetId,
        clock: Clock,
        input: Json,
        history: History,
    ) -> Result<Self, CassetteError> {
        let calls = history.calls.into_iter().map(|(seq, past)| CassetteCall::new(seq, past));
        let calls = calls.collect::<Result<_, _>>()?;
        Ok(Self { rewind_cassette: 1, run, toolset, clock, input, calls })
    }

    /// # Errors
    /// When it is of another version, or a call is not well-formed.
    pub fn history(self) -> Result<History, CassetteError> {
        if self.rewind_cassette != 1 {
            return Err(CassetteError::Version(self.rewind_cassette));
        }
        let mut history = History::new();
        for call in self.calls {
            let seq = call.seq;
            if history.calls.insert(seq, call.past()?).is_some() {
                return Err(CassetteError::Twice(seq));
            }
        }
        history.renumber();
        Ok(history)
    }
}

impl CassetteCall {
    fn new(seq: Seq, past: PastCall) -> Result<Self, CassetteError> {
        let whole = |payload| match payload {
            Payload::Inline(json) => Ok(Some(json)),
            Payload::Blob { .. } => Err(CassetteError::NotInline(seq)),
        };
        let (mut raw, mut refused, mut sleep_until) = (false, None, None);
        let (tool, arguments) = match past.made {
            Made::Call(Call::Tool { tool, arguments, raw: is_raw, .. }) => {
                raw = is_raw;
                (Some(tool), whole(arguments)?)
            }
            Made::Call(Call::Sleep { until, .. }) => {
                sleep_until = Some(until);
                (None, None)
            }
            Made::Refused { tool, arguments } => {
                refused = Some(arguments);
                (Some(tool), None)
            }
        };
        let (order, at) = past.outcome.as_ref().map(|outcome| (outcome.order, outcome.at)).unzip();
        let made = past.outcome.as_ref().and_then(|outcome| outcome.made);
        let (result, error) = match past.outcome.map(|outcome| outcome.taken) {
            Some(Taken::Outcome(Outcome::Ok(payload))) => (whole(payload)?, None),
            Some(Taken::Outcome(Outcome::Err(failure))) => (None, Some(failure)),
            Some(Taken::Slept) | None => (None, None),
        };
        Ok(Self { seq, tool, arguments, raw, refused, sleep_until, order, made, at, result, error })
    }

    fn past(self) -> Result<PastCall, CassetteError> {
        let seq = self.seq;
        let wrong = |why| Err(CassetteError::Call { seq, why });
        if self.arguments.as_ref().is_some_and(|arguments| arguments.depth() > Limits::DEFAULT.result_depth) {
            return wrong("its `arguments` are nested more deeply than a script can make them");
        }
        let made = match (self.tool, self.arguments, self.refused, self.sleep_until) {
            (Some(tool), Some(arguments), None, None) => Made::Call(Call::Tool {
                tool,
                // As the sandbox writes them.
                arguments: Payload::Inline(arguments.compact()),
                raw: self.raw,
                terms: Terms::default(),
                origin: None,
            }),
            (Some(tool), None, Some(arguments), None) => Made::Refused { tool, arguments },
            (None, None, None, Some(until)) => Made::Call(Call::Sleep { until, origin: None }),
            _ => return wrong("it is a `tool` with `arguments`, a `tool` with `refused`, or a `sleep_until`"),
        };
        if self.result.as_ref().is_some_and(|result| result.depth() > Limits::DEFAULT.result_depth) {
            return wrong("its `result` is nested more deeply than a result may be");
        }
        let taken = match (self.result, self.error, &made) {
            (None, None, Made::Call(Call::Sleep { .. })) => Some(Taken::Slept),
            (_, _, Made::Call(Call::Sleep { .. })) => return wrong("a sleep has no `result` and no `error`"),
            (Some(_), Some(_), _) => return wrong("it has a `result` and an `error`"),
            (Some(result), None, _) => Some(Taken::Outcome(Outcome::Ok(Payload::Inline(result.compact())))),
            (None, Some(error), _) => Some(Taken::Outcome(Outcome::Err(error))),
            (None, None, _) => None,
        };
        let outcome = match (self.order, self.at, taken) {
            (Some(order), Some(at), Some(taken)) => Some(PastOutcome { order, made: self.made, at, taken }),
            (None, None, None) | (None, None, Some(Taken::Slept)) => None,
            _ => return wrong("`order`, `at` and a `result` or an `error` go together"),
        };
        Ok(PastCall { made, outcome })
    }
}
