//! What happened to a run, and which records that asks for.

use rewind_model::{
    ErrorCode, Json, Limits, NodeId, Outcome, Payload, Policy, RunError, Seq, Timestamp, ToolFailure, ToolName,
};
use serde::{Deserialize, Serialize};

use crate::{
    Call, End, History, ParkReason, Phase, Record, Run, Terms,
    finder::Finder,
    history::{describe, outcome_unknown},
};

/// Names the decision that time made.
const OVERDUE: &str = "park_limit";
/// Bytes of a name that somebody gave: of a decision, or of themselves.
const LONGEST_NAME: usize = 256;

/// Something that happened to a run.
#[derive(Debug, Clone)]
pub enum Input<'a> {
    /// This node owns the run's shard since `epoch`. `lost`: of what is outstanding, nothing is at work
    /// and nothing in a queue.
    Adopt { node: NodeId, epoch: u64, lost: bool },
    /// The script ran until it could only wait. The history is the one that its [`Spec`](crate::Spec) names.
    Script(ScriptTurn, Option<&'a History>),
    /// The script waits, maybe for an outcome that its history holds.
    Take(&'a History),
    /// A tool answered.
    Answer { seq: Seq, attempt: u32, outcome: Outcome },
    /// An attempt ended without an answer. The policy is the tool's pinned one; `sent`: the tool may have
    /// got the call.
    Interrupted { seq: Seq, attempt: u32, failure: ToolFailure, sent: bool, policy: &'a Policy },
    /// An attempt was not made, and somebody has to decide what is to be done.
    Park { seq: Seq, attempt: u32, reason: ParkReason, detail: String },
    /// The worker that has the call will answer it later.
    Deferred { seq: Seq, attempt: u32 },
    /// Somebody decides about a parked call.
    Decide { seq: Seq, verdict: Verdict },
    /// Somebody wants the run to end.
    Cancel,
    /// The time that was armed for this call may have come.
    Due { seq: Seq },
    /// The node would like to free the run's memory.
    Idle,
    /// The run cannot go on (nondeterminism, a crashed sandbox).
    Broken(RunError),
}

/// What somebody wants to become of a parked call. `decision` names the request, so that of several one
/// can see which one it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub decision: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub approved: bool,
    /// For the script, when it is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a script did, with a verdict on each call.
#[derive(Debug, Clone, Default)]
pub struct ScriptTurn {
    pub calls: Vec<NewCall>,
    /// (level, text)
    pub logs: Vec<(String, String)>,
    pub end: Option<ScriptEnd>,
}

#[derive(Debug, Clone)]
pub struct NewCall {
    pub seq: Seq,
    pub call: Call,
    /// Why it must not be sent, if it must not: arguments that the pinned schema refuses.
    pub refused: Option<ToolFailure>,
}

#[derive(Debug, Clone)]
pub enum ScriptEnd {
    Returned(Json),
    Failed(RunError),
}

impl Run {
    /// The records that `input` asks for at `now`; none when it changes nothing (a late or repeated
    /// answer, a timer of a call that has ended). The caller folds them.
    pub fn decide(&self, now: Timestamp, input: Input<'_>) -> Vec<Record> {
        let at = now.max(self.last_at()).max(self.inherited_time());
        if self.status().ended() {
            return Vec::new();
        }
        match input {
            Input::Adopt { node, epoch, lost } => self.decide_adopt(at, node, epoch, lost),
            Input::Script(turn, history) => self.decide_script(at, turn, history),
            Input::Take(history) => self.decide_take(at, history),
            Input::Answer { seq, attempt, outcome } => self.decide_answer(at, seq, attempt, outcome),
            Input::Interrupted { seq, attempt, failure, sent, policy } => {
                self.decide_interrupted(at, seq, attempt, failure, sent, policy)
            }
            Input::Park { seq, attempt, reason, detail } => self.decide_park(at, seq, attempt, reason, detail),
            Input::Deferred { seq, attempt } => self.decide_deferred(at, seq, attempt),
            Input::Decide { seq, verdict } => self.decide_verdict(at, seq, verdict),
            Input::Cancel => vec![Record::Ended { at, end: End::Cancelled }],
            Input::Due { seq } => self.decide_due(now, at, seq),
            Input::Idle => self.decide_idle(at),
            Input::Broken(error) => {
                vec![Record::Ended { at, end: End::Failed { error: bounded(error, &self.limits) } }]
            }
        }
    }

    /// What must not be sent twice and was being sent has an unknown outcome.
    fn decide_adopt(&self, at: Timestamp, node: NodeId, epoch: u64, lost: bool) -> Vec<Record> {
        let owned = self.owner().is_some_and(|owner| owner.node == node && owner.epoch == epoch);
        let mut records = if owned { Vec::new() } else { vec![Record::Adopted { at, node, epoch }] };
        for (seq, pending) in self.outstanding() {
            let unknown = match pending.phase {
                Phase::Unknown { attempt } => Some(attempt),
                Phase::Sent { attempt } | Phase::Elsewhere { attempt } if pending.call.terms().at_most_once => {
                    (lost || !owned && !pending.call.is_queued_elsewhere()).then_some(attempt)
                }
                _ => None,
            };
            if let (Some(attempt), Call::Tool { tool, .. }) = (unknown, &pending.call) {
                let why = "the node that had sent it was lost";
                records.push(Record::Completed {
                    at,
                    seq: *seq,
                    attempt,
                    outcome: Outcome::Err(outcome_unknown(tool, why)),
                });
            }
        }
        records
    }

    /// Once somebody has let it go though its tool has changed, that stops it no more.
    fn decide_park(
        &self,
        at: Timestamp,
        seq: Seq,
        attempt: u32,
        reason: ParkReason,
        mut detail: String,
    ) -> Vec<Record> {
        let Some(pending) = self.outstanding().get(&seq) else { return Vec::new() };
        match pending.phase {
            _ if pending.approved && reason == ParkReason::SchemaChanged => Vec::new(),
            Phase::Sent { attempt: last } | Phase::BackingOff { attempt: last, .. } if last == attempt => {
                cut(&mut detail, self.limits.log_line_bytes);
                vec![Record::Parked { at, seq, attempt, reason, detail }]
            }
            _ => Vec::new(),
        }
    }

    fn decide_deferred(&self, at: Timestamp, seq: Seq, attempt: u32) -> Vec<Record> {
        match self.outstanding().get(&seq).map(|pending| pending.phase) {
            Some(Phase::Sent { .. } | Phase::Elsewhere { .. }) if self.is_with_worker(seq) => {
                vec![Record::Deferred { at, seq, attempt: attempt.max(1) }]
            }
            _ => Vec::new(),
        }
    }

    fn decide_verdict(&self, at: Timestamp, seq: Seq, verdict: Verdict) -> Vec<Record> {
        let Some(pending) = self.outstanding().get(&seq) else { return Vec::new() };
        let (Phase::Parked { .. }, Call::Tool { tool, .. }) = (pending.phase, &pending.call) else { return Vec::new() };
        let Verdict { mut decision, mut by, approved, message } = verdict;
        by.iter_mut().chain([&mut decision]).for_each(|text| cut(text, LONGEST_NAME));
        if approved {
            return vec![Record::Approved { at, seq, decision, by }];
        }
        let message = message.unwrap_or_else(|| format!("{tool} was rejected"));
        let failure = bounded_failure(ToolFailure::new(ErrorCode::Rejected, message), &self.limits);
        vec![Record::Rejected { at, seq, decision, by, failure }]
    }

    fn decide_answer(&self, at: Timestamp, seq: Seq, attempt: u32, outcome: Outcome) -> Vec<Record> {
        match self.outstanding().get(&seq).map(|pending| pending.phase) {
            Some(
                Phase::Sent { .. }
                | Phase::BackingOff { .. }
                | Phase::Elsewhere { .. }
                | Phase::Deferred { .. }
                | Phase::Unknown { .. },
            ) => {
                let outcome = match outcome {
                    Outcome::Ok(payload) => Outcome::Ok(payload),
                    Outcome::Err(failure) => Outcome::Err(bounded_failure(failure, &self.limits)),
                };
                vec![Record::Completed { at, seq, attempt: attempt.max(1), outcome }]
            }
            Some(Phase::Queued { .. } | Phase::Sleeping | Phase::Parked { .. } | Phase::Recorded) | None => Vec::new(),
        }
    }

    fn decide_interrupted(
        &self,
        at: Timestamp,
        seq: Seq,
        attempt: u32,
        failure: ToolFailure,
        sent: bool,
        policy: &Policy,
    ) -> Vec<Record> {
        let Some(pending) = self.outstanding().get(&seq) else { return Vec::new() };
        match pending.phase {
            // An attempt after a back-off goes out without a record of its own: see `Run::due`.
            Phase::Sent { attempt: last }
            | Phase::Elsewhere { attempt: last }
            | Phase::BackingOff { attempt: last, .. }
                if last == attempt => {}
            _ => return Vec::new(),
        }
        let failure = bounded_failure(failure, &self.limits);
        if let (true, Call::Tool { tool, terms: Terms { at_most_once: true, .. }, .. }) = (sent, &pending.call) {
            let failure = bounded_failure(outcome_unknown(tool, &failure.message), &self.limits);
            return vec![Record::Completed { at, seq, attempt, outcome: Outcome::Err(failure) }];
        }
        match policy.retry.wait_after(pending.failures + 1) {
            Some(wait) => vec![Record::AttemptFailed { at, seq, attempt, failure, retry_at: at.plus(wait) }],
            None => vec![Record::Completed { at, seq, attempt, outcome: Outcome::Err(failure) }],
        }
    }

    /// Never early, by the wall clock itself: `at` may be ahead of it.
    fn decide_due(&self, now: Timestamp, at: Timestamp, seq: Seq) -> Vec<Record> {
        if let (Self::DEADLINE, Some(deadline)) = (seq, self.deadline()) {
            let over = || failed(at, "deadline", format!("the run had not ended by its deadline, {deadline}"));
            return if now >= deadline { vec![over()] } else { Vec::new() };
        }
        let Some(pending) = self.outstanding().get(&seq) else { return Vec::new() };
        match (&pending.call, pending.phase) {
            (Call::Sleep { until, .. }, Phase::Sleeping) if now >= *until => vec![Record::Fired { at, seq }],
            (Call::Tool { tool, .. }, Phase::Parked { until: Some(until), .. }) if now >= until => {
                let message = format!("{tool} was not done: nobody had decided about it by {until}");
                let failure = ToolFailure { retryable: false, ..ToolFailure::new(ErrorCode::Rejected, message) };
                vec![Record::Rejected { at, seq, decision: OVERDUE.into(), by: None, failure }]
            }
            (call, Phase::BackingOff { attempt, until }) if now >= until && call.terms().at_most_once => {
                vec![Record::Retried { at, seq, attempt }]
            }
            _ => Vec::new(),
        }
    }

    fn decide_idle(&self, at: Timestamp) -> Vec<Record> {
        let may = self.owner().is_some() && !self.outstanding().is_empty();
        if may && self.status() == rewind_model::RunStatus::Running { vec![Record::Waiting { at }] } else { Vec::new() }
    }

    fn decide_script(&self, at: Timestamp, turn: ScriptTurn, history: Option<&History>) -> Vec<Record> {
        let mut logs = turn.logs;
        if turn.end.is_some() {
            logs.extend(unsent(&turn.calls));
        }
        let mut records = self.decide_logs(at, logs);
        let room = self.limits.calls.saturating_sub(self.made());
        let over = turn.calls.len() > room as usize;
        let made = turn.calls.len();
        match turn.end {
            Some(end) => {
                records.extend(history.and_then(|history| self.ended_early(at, history)));
                records.push(Record::Ended { at, end: self.planned_end(ended(end, &self.limits)) });
            }
            None if over => records.push(failed(
                at,
                "limit_calls",
                format!("the script made more than {} calls, the limit of a run", self.limits.calls),
            )),
            None => {
                let mut finder = history.map(|history| Finder::new(history, self));
                for new in turn.calls {
                    self.record_call(at, new, finder.as_mut(), &mut records);
                }
                if made == 0 && self.outstanding().is_empty() {
                    records.push(failed(
                        at,
                        "stalled",
                        "the script waits, but for no call and no timer: nothing can ever wake it (a promise \
                         that is never resolved?)"
                            .into(),
                    ));
                }
            }
        }
        records
    }

    fn record_call(&self, at: Timestamp, mut new: NewCall, finder: Option<&mut Finder<'_>>, records: &mut Vec<Record>) {
        if let Call::Tool { tool, arguments, .. } = &new.call {
            new.refused = new.refused.take().or_else(|| too_large(tool, arguments, &self.limits));
        }
        let found = finder.map(|finder| finder.find(&mut new, self.script_time())).unwrap_or_default();
        let NewCall { seq, call, refused } = new;
        if let Some(then) = found.differs {
            records.push(Record::Diverged { at, seq, then: Some(then), now: Some(describe(&call)) });
        }
        records.push(match (call, refused) {
            (Call::Tool { tool, arguments, .. }, Some(failure)) => {
                let failure = bounded_failure(failure, &self.limits);
                Record::Refused { at, seq, tool, arguments: arguments.digest(), failure, then: found.then }
            }
            (call, _) => Record::Called { at, seq, call },
        });
    }

    fn decide_logs(&self, at: Timestamp, logs: Vec<(String, String)>) -> Vec<Record> {
        let room = self.limits.log_lines.saturating_sub(self.logs()) as usize;
        let mut records = Vec::new();
        for (n, (level, mut text)) in logs.into_iter().take(room).enumerate() {
            cut(&mut text, self.limits.log_line_bytes);
            if n + 1 == room {
                text =
                    format!("{} lines are the limit of a run's console; later ones are dropped", self.limits.log_lines);
            }
            records.push(Record::Logged { at, level, text });
        }
        records
    }
}

/// Calls of the turn in which the script ended: nobody would get their results, so they are not
/// sent, and the run's console says so (within its limit: a loop can make any number of them).
fn unsent(calls: &[NewCall]) -> impl Iterator<Item = (String, String)> + '_ {
    calls.iter().filter_map(|new| match &new.call {
        Call::Sleep { .. } => None,
        Call::Tool { tool, .. } => {
            let text = format!("{tool} was called but not awaited before the script returned; it was not sent");
            Some(("warn".into(), text))
        }
    })
}

fn too_large(tool: &ToolName, arguments: &Payload, limits: &Limits) -> Option<ToolFailure> {
    (arguments.size() > limits.argument_bytes as u64).then(|| {
        let message =
            format!("the arguments of {tool} are {} bytes; the limit is {}", arguments.size(), limits.argument_bytes);
        ToolFailure::new(ErrorCode::TooLarge, message)
    })
}

fn ended(end: ScriptEnd, limits: &Limits) -> End {
    match end {
        ScriptEnd::Returned(result) if result.len() > limits.result_bytes => End::Failed {
            error: error(
                "limit_result",
                format!("the script's result is {} bytes; the limit is {}", result.len(), limits.result_bytes),
            ),
        },
        ScriptEnd::Returned(result) => End::Completed { result: Payload::Inline(result) },
        ScriptEnd::Failed(error) => End::Failed { error: bounded(error, limits) },
    }
}

fn failed(at: Timestamp, code: &str, message: String) -> Record {
    Record::Ended { at, end: End::Failed { error: error(code, message) } }
}

fn error(code: &str, message: String) -> RunError {
    RunError { code: code.into(), message, tool: None, key: None, stack: None }
}

/// A script throws errors with any message; the journal message that ends its run must stay small.
fn bounded(mut error: RunError, limits: &Limits) -> RunError {
    cut(&mut error.code, limits.log_line_bytes);
    cut(&mut error.message, limits.log_line_bytes);
    if let Some(stack) = &mut error.stack {
        cut(stack, limits.log_line_bytes);
    }
    error
}

/// Workers and servers fail with anything, too. A failure is kept in its record, never as a blob:
/// one that no journal message can hold would be refused for ever, and its run would never go on.
/// Cut to what a journal holds. One that has been cut stays as it is.
pub(crate) fn bounded_failure(mut failure: ToolFailure, limits: &Limits) -> ToolFailure {
    /// Of what is added to a message.
    const LONGEST_NOTE: usize = 256;
    if failure.message.len() > limits.log_line_bytes + LONGEST_NOTE {
        cut(&mut failure.message, limits.log_line_bytes);
    }
    let (bytes, depth) = failure.details.as_ref().map_or((0, 0), |details| (details.len(), details.depth()));
    if bytes > limits.inline_bytes || depth > limits.result_depth {
        failure.details = None;
        failure.message.push_str(&format!(
            " (its details are left out: they are {bytes} bytes, nested {depth} levels deep; the limits are {} and {})",
            limits.inline_bytes, limits.result_depth
        ));
    }
    failure
}

fn cut(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.push('…');
    }
}
