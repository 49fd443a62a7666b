//! Taking outcomes over from a history, in the order in which the script got them there.

use rewind_model::{ErrorCode, Json, Outcome, Payload, Seq, Timestamp, ToolFailure, ToolName};
use serde::Serialize;

use crate::{
    Call, End, History, Made, Origin, Pending, Phase, Record, Run, Taken, decide::bounded_failure, nearest::nearest,
};

/// Calls that a plan names, at most.
const LONGEST_PLAN: usize = 1_000;
/// Outcomes that are taken at once, at most: they are in one journal entry.
const TAKEN_TOGETHER: usize = 1_000;

/// The result of a plan.
#[derive(Debug, Serialize)]
struct Plan<'a> {
    /// Calls that would have been made, and of which the results are not known.
    calls: Vec<PlannedCall<'a>>,
    /// What the script returned, if it came to its end without them.
    #[serde(skip_serializing_if = "Option::is_none")]
    returned: Option<&'a Json>,
}

#[derive(Debug, Serialize)]
struct PlannedCall<'a> {
    seq: Seq,
    tool: &'a ToolName,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a Json>,
    approval: bool,
}

/// Which of the calls that wait gets its outcome first: the recorded ones in their order (what had no outcome by then
/// must not overtake them), then those that are not recorded, then the sleeps that nobody slept before.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Recorded(u32),
    Unrecorded,
    Asleep(Timestamp),
}

impl Run {
    /// The next outcome that the script gets from its history; of a plan that gets no more, the end.
    pub(crate) fn decide_take(&self, at: Timestamp, history: &History) -> Vec<Record> {
        let waiting = self.outstanding().iter().filter(|(_, pending)| pending.phase == Phase::Recorded);
        let next = waiting
            .filter_map(|(seq, pending)| Some((self.turn(history, pending)?, *seq, pending)))
            .min_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        match next {
            Some((Turn::Recorded(first), ..)) => self.taken_together(at, first, history),
            Some((_, seq, pending)) => vec![self.taken(at, seq, pending, self.script_time(), history)],
            None if self.is_plan() && !self.outstanding().is_empty() => {
                vec![Record::Ended { at, end: End::Completed { result: Payload::Inline(self.plan(None)) } }]
            }
            None => Vec::new(),
        }
    }

    /// The outcomes from the `first` one on that the script had got before it made its next call: it has to get
    /// them before a call of it is refused, and before it ends.
    fn taken_together(&self, at: Timestamp, first: u32, history: &History) -> Vec<Record> {
        let waiting = self.outstanding().iter().filter(|(_, pending)| pending.phase == Phase::Recorded);
        let mut waiting: Vec<_> =
            waiting.filter_map(|(seq, pending)| Some((past(history, pending)?, *seq, pending))).collect();
        waiting.sort_by_key(|(outcome, seq, _)| (outcome.order, *seq));
        let end = match waiting.first().and_then(|(outcome, ..)| outcome.made) {
            Some(made) => waiting
                .iter()
                .find_map(|(outcome, ..)| (outcome.made != Some(made)).then_some(outcome.order))
                .unwrap_or(u32::MAX),
            None => self.end_of_turn(history),
        };
        let waiting = waiting.into_iter().map(|(outcome, seq, pending)| (outcome.order, seq, pending));
        let waiting = waiting.filter(|(order, ..)| *order == first || *order < end);
        let mut then = self.script_time();
        // One that is missing is of a call that is yet to be made.
        (first..=u32::MAX)
            .zip(waiting)
            .take(TAKEN_TOGETHER)
            .take_while(|(order, (is, ..))| order == is)
            .map(|(_, (_, seq, pending))| {
                let record = self.taken(at, seq, pending, then, history);
                if let Record::Taken { then: now, .. } = &record {
                    then = *now;
                }
                record
            })
            .collect()
    }

    /// Where a history does not say what the script got together: what it got before its next call that was refused.
    fn end_of_turn(&self, history: &History) -> u32 {
        let mut later = history.calls.range(self.made() + 1..).peekable();
        if later.peek().is_none() {
            return u32::MAX;
        }
        let refused = later.find_map(|(_, call)| match (&call.made, &call.outcome) {
            (Made::Refused { .. }, Some(outcome)) => Some(outcome.order),
            _ => None,
        });
        refused.unwrap_or(0)
    }

    /// `None`: it gets none.
    fn turn(&self, history: &History, pending: &Pending) -> Option<Turn> {
        match (past(history, pending), &pending.call) {
            (Some(outcome), _) => Some(Turn::Recorded(outcome.order)),
            (None, Call::Sleep { until, .. }) => Some(Turn::Asleep(*until)),
            (None, Call::Tool { .. }) => (!self.is_plan()).then_some(Turn::Unrecorded),
        }
    }

    fn taken(&self, at: Timestamp, seq: Seq, pending: &Pending, earliest: Timestamp, history: &History) -> Record {
        let (then, taken) = match (past(history, pending), &pending.call) {
            (Some(outcome), _) => {
                let taken = match outcome.taken.clone() {
                    // A cassette may have been written by anybody.
                    Taken::Outcome(Outcome::Err(failure)) => {
                        Taken::Outcome(Outcome::Err(bounded_failure(failure, &self.limits)))
                    }
                    taken => taken,
                };
                (outcome.at, taken)
            }
            (None, Call::Sleep { until, .. }) => (*until, Taken::Slept),
            (None, Call::Tool { tool, arguments, raw, .. }) => {
                let message = format!("{tool} was called, and {}", nearest(history, tool, arguments, *raw));
                let failure = ToolFailure { retryable: false, ..ToolFailure::new(ErrorCode::NotRecorded, message) };
                let failure = bounded_failure(failure, &self.limits);
                (earliest, Taken::Outcome(Outcome::Err(failure)))
            }
        };
        Record::Taken { at, seq, then: then.max(earliest), taken }
    }

    /// A fork's script has seen its source's times: what it gets from tools is no earlier, whatever this node's
    /// clock shows.
    pub(crate) fn inherited_time(&self) -> Timestamp {
        if self.is_fork() { self.script_time() } else { Timestamp::default() }
    }

    pub(crate) fn is_fork(&self) -> bool {
        self.spec().and_then(|spec| spec.past.as_ref()).is_some_and(|past| past.forked_from.is_some())
    }

    /// The script ended, and what it is a fork of had gone on with another call.
    pub(crate) fn ended_early(&self, at: Timestamp, history: &History) -> Option<Record> {
        let seq = self.made() + 1;
        let then = history.calls.get(&seq).filter(|_| self.is_fork() && !self.diverged())?.made.describe();
        Some(Record::Diverged { at, seq, then: Some(then), now: None })
    }

    pub(crate) fn planned_end(&self, end: End) -> End {
        match end {
            End::Completed { result: Payload::Inline(returned) } if self.is_plan() => {
                End::Completed { result: Payload::Inline(self.plan(Some(&returned))) }
            }
            end => end,
        }
    }

    fn is_plan(&self) -> bool {
        self.spec().is_some_and(|spec| spec.plan)
    }

    /// Where the arguments are too large together for a result, the calls are without them.
    fn plan(&self, returned: Option<&Json>) -> Json {
        let room = self.limits.result_bytes.saturating_sub(returned.map_or(0, Json::len) + (64 << 10));
        let inline = |pending: &Pending| match &pending.call {
            Call::Tool { arguments, .. } => arguments.inline_size(),
            Call::Sleep { .. } => 0,
        };
        let whole = self.outstanding().values().take(LONGEST_PLAN).map(inline).sum::<usize>() <= room;
        let calls = self.outstanding().iter().filter_map(|(seq, pending)| match &pending.call {
            Call::Tool { tool, arguments, terms, .. } => {
                let arguments = match arguments {
                    Payload::Inline(json) if whole => Some(json),
                    Payload::Inline(_) | Payload::Blob { .. } => None,
                };
                Some(PlannedCall { seq: *seq, tool, arguments, approval: terms.approval })
            }
            Call::Sleep { .. } => None,
        });
        let plan = Plan { calls: calls.take(LONGEST_PLAN).collect(), returned };
        Json::of(&plan).unwrap_or_else(|_| Json::null())
    }
}

fn past<'a>(history: &'a History, pending: &Pending) -> Option<&'a crate::PastOutcome> {
    match pending.call.origin() {
        Some(Origin::Past(seq)) => history.calls.get(&seq)?.outcome.as_ref(),
        Some(Origin::Nothing) | None => None,
    }
}
