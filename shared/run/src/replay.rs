//! The script, run again, held against what the journal says it did.

use std::collections::VecDeque;

use rewind_model::Seq;

use crate::{Made, NewCall, Record, ScriptEnd, ScriptTurn, history::describe};

/// Matches what a replayed script does with what is recorded, in order.
///
/// Feed it each record ([`Replay::record`]) and each turn of the script ([`Replay::turn`]), in any
/// interleaving; [`Replay::finish`] then gives what the script did beyond the journal's end.
#[derive(Debug, Default)]
pub struct Replay {
    recorded: VecDeque<(Seq, Made)>,
    made: VecDeque<NewCall>,
    recorded_logs: usize,
    written_logs: VecDeque<(String, String)>,
    end: Option<ScriptEnd>,
}

/// The script asked for something else than the journal holds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Divergence {
    #[error("on replay, call {seq} of the script is {now}; the journal holds {then}")]
    OtherCall { seq: Seq, then: String, now: String },
    #[error("on replay, the script did not make call {seq}, which the journal holds as {then}")]
    Missing { seq: Seq, then: String },
    #[error("on replay, the script ended without call {seq}, which the journal holds as {then}")]
    EndedEarly { seq: Seq, then: String },
}

impl Replay {
    /// A record of the journal.
    ///
    /// # Errors
    /// When the script has already made another call in its place.
    pub fn record(&mut self, record: &Record) -> Result<(), Divergence> {
        match record {
            Record::Called { seq, call, .. } => self.recorded.push_back((*seq, Made::Call(call.clone()))),
            Record::Refused { seq, tool, arguments, .. } => {
                self.recorded.push_back((*seq, Made::Refused { tool: tool.clone(), arguments: *arguments }));
            }
            Record::Logged { .. } => self.recorded_logs += 1,
            Record::Created { .. }
            | Record::Adopted { .. }
            | Record::AttemptFailed { .. }
            | Record::Retried { .. }
            | Record::Parked { .. }
            | Record::Approved { .. }
            | Record::Rejected { .. }
            | Record::Deferred { .. }
            | Record::Taken { .. }
            | Record::Diverged { .. }
            | Record::Completed { .. }
            | Record::Fired { .. }
            | Record::Waiting { .. }
            | Record::Ended { .. } => {}
        }
        self.pair()
    }

    /// What the script did upon a frame of deliveries.
    ///
    /// # Errors
    /// When it made another call than the recorded one of the same number.
    pub fn turn(&mut self, turn: ScriptTurn) -> Result<(), Divergence> {
        self.made.extend(turn.calls);
        self.written_logs.extend(turn.logs);
        self.end = self.end.take().or(turn.end);
        self.pair()
    }

    /// What the script did beyond the journal, once all of both has been fed.
    ///
    /// # Errors
    /// When the journal holds a call that the script did not make.
    pub fn finish(self) -> Result<ScriptTurn, Divergence> {
        if let Some((seq, made)) = self.recorded.front() {
            return Err(Divergence::Missing { seq: *seq, then: made.describe() });
        }
        Ok(ScriptTurn { calls: self.made.into(), logs: self.written_logs.into(), end: self.end })
    }

    fn pair(&mut self) -> Result<(), Divergence> {
        while let (Some((seq, recorded)), Some(now)) = (self.recorded.front(), self.made.front()) {
            if *seq != now.seq || !recorded.is(&now.call) {
                let (then, now) = (recorded.describe(), describe(&now.call));
                return Err(Divergence::OtherCall { seq: *seq, then, now });
            }
            self.recorded.pop_front();
            self.made.pop_front();
        }
        let both = self.recorded_logs.min(self.written_logs.len());
        self.recorded_logs -= both;
        self.written_logs.drain(..both);
        match self.recorded.front() {
            Some((seq, made)) if self.end.is_some() => Err(Divergence::EndedEarly { seq: *seq, then: made.describe() }),
            Some(_) | None => Ok(()),
        }
    }
}
