//! The script, run again, held against what the journal says it did.

use std::collections::VecDeque;

use rewind_model::{Digest, Seq, ToolName};

use crate::{Call, NewCall, Record, ScriptEnd, ScriptTurn};

/// Matches what a replayed script does with what is recorded, in order.
///
/// Feed it each record ([`Replay::record`]) and each turn of the script ([`Replay::turn`]), in any
/// interleaving; [`Replay::finish`] then gives what the script did beyond the journal's end.
#[derive(Debug, Default)]
pub struct Replay {
    recorded: VecDeque<Recorded>,
    made: VecDeque<NewCall>,
    recorded_logs: usize,
    written_logs: VecDeque<(String, String)>,
    end: Option<ScriptEnd>,
}

/// As much of a recorded call as tells it from another.
#[derive(Debug)]
enum Recorded {
    Made(Seq, Call),
    Refused { seq: Seq, tool: ToolName, arguments: Digest },
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
            Record::Called { seq, call, .. } => self.recorded.push_back(Recorded::Made(*seq, call.clone())),
            Record::Refused { seq, tool, arguments, .. } => {
                self.recorded.push_back(Recorded::Refused { seq: *seq, tool: tool.clone(), arguments: *arguments })
            }
            Record::Logged { .. } => self.recorded_logs += 1,
            Record::Created { .. }
            | Record::Adopted { .. }
            | Record::AttemptFailed { .. }
            | Record::Retried { .. }
            | Record::Parked { .. }
            | Record::Approved { .. }
            | Record::Rejected { .. }
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
        if let Some(recorded) = self.recorded.front() {
            let (seq, then) = recorded.describe();
            return Err(Divergence::Missing { seq, then });
        }
        Ok(ScriptTurn { calls: self.made.into(), logs: self.written_logs.into(), end: self.end })
    }

    fn pair(&mut self) -> Result<(), Divergence> {
        while let (Some(recorded), Some(made)) = (self.recorded.front(), self.made.front()) {
            if !recorded.is(made) {
                let (seq, then) = recorded.describe();
                return Err(Divergence::OtherCall { seq, then, now: describe(&made.call) });
            }
            self.recorded.pop_front();
            self.made.pop_front();
        }
        let both = self.recorded_logs.min(self.written_logs.len());
        self.recorded_logs -= both;
        self.written_logs.drain(..both);
        match self.recorded.front() {
            Some(recorded) if self.end.is_some() => {
                let (seq, then) = recorded.describe();
                Err(Divergence::EndedEarly { seq, then })
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Recorded {
    fn is(&self, made: &NewCall) -> bool {
        match (self, &made.call) {
            (Recorded::Made(seq, Call::Sleep { until }), Call::Sleep { until: now }) => {
                *seq == made.seq && until == now
            }
            (
                Recorded::Made(seq, Call::Tool { tool, arguments, raw, .. }),
                Call::Tool { tool: tool_now, arguments: arguments_now, raw: raw_now, .. },
            ) => {
                *seq == made.seq
                    && tool == tool_now
                    && raw == raw_now
                    && arguments.size() == arguments_now.size()
                    && (arguments == arguments_now || arguments.digest() == arguments_now.digest())
            }
            (Recorded::Refused { seq, tool, arguments }, Call::Tool { tool: tool_now, arguments: now, .. }) => {
                *seq == made.seq && tool == tool_now && *arguments == now.digest()
            }
            (Recorded::Made(..) | Recorded::Refused { .. }, _) => false,
        }
    }

    fn describe(&self) -> (Seq, String) {
        match self {
            Recorded::Made(seq, call) => (*seq, describe(call)),
            Recorded::Refused { seq, tool, arguments } => (*seq, format!("{tool} with arguments {}", short(arguments))),
        }
    }
}

/// Names the call; its arguments are the user's, so only their digest is shown.
fn describe(call: &Call) -> String {
    match call {
        Call::Tool { tool, arguments, raw, .. } => {
            let raw = if *raw { ".raw" } else { "" };
            format!("{tool}{raw} with arguments {}", short(&arguments.digest()))
        }
        Call::Sleep { until } => format!("sleep until {until}"),
    }
}

fn short(digest: &Digest) -> String {
    format!("sha256:{}", &digest.to_string()[..12])
}
