//! A run in memory: its state, its sandbox, and the turn that is in the making.

use std::{sync::Arc, time::Duration};

use rewind_bus::{
    BusError,
    journal::{Stored, Summary},
};
use rewind_dispatch::Sent;
use rewind_model::{ErrorCode, Json, Key, Outcome, Payload, RunError, RunId, RunStatus, Timestamp, ToolFailure};
use rewind_run::{
    Call, Delivery, Effect, End, Entry, History, IllegalRecord, Input, Phase, Record, Run, ScriptEnd, ScriptTurn,
};
use rewind_sandbox::{Instance, SandboxError};

use super::{
    Mail,
    append::append,
    child,
    script::{Script, ScriptError, error, limit_error},
};
use crate::{context::Context, library::LibraryError, observer::Seen};

/// Sandboxes that may die under a run's own hands before it fails: the first time, other runs were in
/// the process too; the second time it was alone.
const BLAMED: u32 = 2;
/// How often a run that waits outside of memory for a child run asks what became of it.
const CHECK: Duration = Duration::from_secs(60);
/// Of what is taken over from a history, the part that goes into one entry.
const TAKEN_BYTES: usize = 4 << 20;
const TAKEN_RECORDS: usize = 4_000;
/// A timer that is due later leaves nothing to be in memory for.
const LONG: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) run: Run,
    pub(crate) script: Arc<Script>,
    created_at: Timestamp,
    sequence: u64,
    /// None: the memory was given back, or never taken; the next delivery replays.
    instance: Option<Instance>,
    /// How often a sandbox died while this run was at work.
    blamed: u32,
    /// What it takes outcomes from, if it has a past.
    history: Option<History>,
}

/// A turn in the making: nothing of it has happened until it is appended.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) records: Vec<Record>,
    /// Of the records.
    bytes: usize,
    pub(crate) effects: Vec<Effect>,
    deliveries: Vec<Delivery>,
    /// Results of tools without an output schema.
    seen: Vec<Seen>,
    /// The run's end, and the call of its parent's that waits for it.
    end: Option<(Key, End)>,
    /// The script has to be brought up to the journal's end.
    replay: bool,
    /// There is more to be taken from the history, in an entry of its own.
    pub(crate) unfinished: bool,
    /// The journal as it was just read, so that the replay need not read it again.
    journal: Option<Vec<Stored>>,
}

/// Why a worker's result cannot be used.
struct Unusable {
    code: ErrorCode,
    why: String,
}

/// Why a turn was not finished.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnError {
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Illegal(#[from] IllegalRecord),
    #[error("{0} is owned by a later epoch than this node's")]
    NotOurs(RunId),
    #[error("{0} has no journal")]
    Empty(RunId),
}

impl Draft {
    /// A turn that begins with the journal in hand.
    pub(crate) fn after(journal: Vec<Stored>) -> Self {
        Self { journal: Some(journal), ..Self::default() }
    }
}

impl Live {
    /// A run as its journal has it. Its script is not started.
    pub(crate) async fn load(context: &Context, id: &RunId, entries: &[Stored]) -> Result<Self, TurnError> {
        let run = Run::of(id.clone(), context.limits, records(entries))?;
        let created_at = records(entries).next().map(Record::at);
        let (Some(spec), Some(created_at), Some(last)) = (run.spec(), created_at, entries.last()) else {
            return Err(TurnError::Empty(id.clone()));
        };
        let tools = context.library.tools(&spec.toolset).await?;
        let compiled = context.library.script(spec.script).await?;
        let script = Script::new(id.clone(), spec.clone(), created_at, tools, compiled, context.script_limits);
        let history = match &spec.past {
            Some(past) if !run.status().ended() => Some(context.library.history(past.history).await?),
            Some(_) | None => None,
        };
        let sequence = last.sequence;
        Ok(Self { run, script: Arc::new(script), created_at, sequence, instance: None, blamed: 0, history })
    }

    /// Makes the run this node's, if it is not.
    /// `lost`: of what is outstanding, nothing is at work and nothing in a queue.
    pub(crate) fn adopt(
        &mut self,
        context: &Context,
        epoch: u64,
        lost: bool,
        draft: &mut Draft,
    ) -> Result<(), TurnError> {
        let stale = self
            .run
            .owner()
            .is_some_and(|owner| owner.epoch > epoch || (owner.epoch == epoch && owner.node != context.id));
        if stale {
            return Err(TurnError::NotOurs(self.run.id().clone()));
        }
        let records = self.run.decide(Timestamp::now(), Input::Adopt { node: context.id.clone(), epoch, lost });
        draft.replay = !records.is_empty();
        self.take(draft, records)
    }

    /// Takes one piece of mail into account.
    pub(crate) async fn hear(&mut self, context: &Context, mail: &Mail, draft: &mut Draft) -> Result<(), TurnError> {
        let now = Timestamp::now();
        let records = match mail {
            Mail::Look { .. } => Vec::new(),
            Mail::Wake { seq, .. } | Mail::Due { seq } => {
                draft.effects.extend(self.run.due(now, *seq));
                self.run.decide(now, Input::Due { seq: *seq })
            }
            Mail::Sent { seq, attempt, sent } => match sent {
                Sent::Queued => Vec::new(),
                Sent::Answered(outcome) => {
                    self.run.decide(now, Input::Answer { seq: *seq, attempt: *attempt, outcome: outcome.clone() })
                }
                Sent::Parked(reason, detail) => {
                    let (reason, detail) = (*reason, detail.clone());
                    self.run.decide(now, Input::Park { seq: *seq, attempt: *attempt, reason, detail })
                }
                Sent::Interrupted { failure, sent } => self.interrupted(now, *seq, *attempt, failure.clone(), *sent),
            },
            Mail::Deferred { seq, attempt, .. } => {
                self.run.decide(now, Input::Deferred { seq: *seq, attempt: *attempt })
            }
            Mail::Decide { seq, verdict, .. } => {
                self.run.decide(now, Input::Decide { seq: *seq, verdict: verdict.clone() })
            }
            Mail::Cancel { .. } => self.run.decide(now, Input::Cancel),
            // Workers answer for calls that went to workers, whatever number they name.
            Mail::Answer { answer, .. } if !self.is_with_worker(answer.seq) => Vec::new(),
            Mail::Answer { answer, .. } => match (&answer.outcome, self.attempt_of(answer.seq)) {
                // The queue brings an answer twice when its acknowledgement was lost: what it says of an
                // earlier attempt is known.
                (Outcome::Err(_), Some(attempt)) if answer.timed_out && answer.attempt < attempt => Vec::new(),
                (Outcome::Err(failure), Some(attempt)) if answer.timed_out => {
                    self.interrupted(now, answer.seq, attempt, failure.clone(), true)
                }
                (outcome, _) => {
                    let outcome = self.checked(context, answer.seq, outcome.clone()).await?;
                    self.run.decide(now, Input::Answer { seq: answer.seq, attempt: answer.attempt, outcome })
                }
            },
        };
        self.take(draft, records)
    }

    fn is_with_worker(&self, seq: rewind_model::Seq) -> bool {
        self.run.outstanding().get(&seq).is_some_and(|pending| pending.call.is_queued_elsewhere())
    }

    fn attempt_of(&self, seq: rewind_model::Seq) -> Option<u32> {
        match self.run.outstanding().get(&seq)?.phase {
            Phase::Sent { attempt }
            | Phase::BackingOff { attempt, .. }
            | Phase::Elsewhere { attempt }
            | Phase::Deferred { attempt }
            | Phase::Unknown { attempt } => Some(attempt),
            Phase::Queued { .. } | Phase::Sleeping | Phase::Parked { .. } | Phase::Recorded => None,
        }
    }

    fn interrupted(
        &self,
        now: Timestamp,
        seq: rewind_model::Seq,
        attempt: u32,
        failure: ToolFailure,
        sent: bool,
    ) -> Vec<Record> {
        let Some(Call::Tool { tool, .. }) = self.run.outstanding().get(&seq).map(|pending| &pending.call) else {
            return Vec::new();
        };
        let policy = self.script.tools.policy(tool).cloned().unwrap_or_default();
        self.run.decide(now, Input::Interrupted { seq, attempt, failure, sent, policy: &policy })
    }

    /// A worker's result, held against what its tool declares.
    async fn checked(&self, context: &Context, seq: rewind_model::Seq, outcome: Outcome) -> Result<Outcome, TurnError> {
        let pending = self.run.outstanding().get(&seq);
        let (Some(Call::Tool { tool, .. }), Outcome::Ok(payload)) = (pending.map(|pending| &pending.call), &outcome)
        else {
            return Ok(outcome);
        };
        let json = match self.result_of_worker(context, payload).await? {
            Ok(json) => json,
            Err(Unusable { code, why }) => {
                return Ok(Outcome::Err(ToolFailure::new(code, format!("the result of {tool} {why}"))));
            }
        };
        Ok(self.script.tools.result_refusal(tool, &json).map_or(outcome, Outcome::Err))
    }

    /// The JSON of a worker's result. A blob is only named by the worker: what the store holds under that
    /// name, if anything, counts. If it went unread into the journal, no replay could get past it.
    async fn result_of_worker(
        &self,
        context: &Context,
        payload: &Payload,
    ) -> Result<Result<Json, Unusable>, TurnError> {
        let unusable = |code, why| Ok(Err(Unusable { code, why }));
        let bus = &context.bus;
        let size = match payload {
            Payload::Inline(json) => Ok(json.len() as u64),
            Payload::Blob { digest, .. } => bus.retry("read a blob", || bus.blob_size(*digest)).await,
        };
        let limit = context.limits.result_bytes as u64;
        let json = match size {
            Ok(size) if size > limit => {
                return unusable(ErrorCode::TooLarge, format!("is {size} bytes; the limit is {limit}"));
            }
            Ok(_) => bus.payload_json_surely(payload).await,
            Err(error) => Err(error),
        };
        let deepest = context.limits.result_depth;
        match json {
            Ok(json) if json.depth() > deepest => {
                let why = format!("is nested {} levels deep; the limit is {deepest}", json.depth());
                unusable(ErrorCode::TooLarge, why)
            }
            Ok(json) => Ok(Ok(json)),
            Err(error @ (BusError::BlobMissing(_) | BusError::Malformed { .. })) => {
                unusable(ErrorCode::InvalidResult, format!("cannot be read: {error}"))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn take(&mut self, draft: &mut Draft, records: Vec<Record>) -> Result<(), TurnError> {
        for record in records {
            draft.seen.extend(self.seen(&record));
            draft.effects.extend(self.run.fold(&record)?);
            draft.deliveries.extend(Delivery::of(&record));
            if let (Record::Ended { end, .. }, Some(parent)) = (&record, self.parent()) {
                draft.end = Some((parent, end.clone()));
            }
            draft.bytes += record.size();
            draft.records.push(record);
        }
        Ok(())
    }

    fn parent(&self) -> Option<Key> {
        self.run.spec()?.parent.as_ref().map(|parent| parent.key.clone())
    }

    /// For calls that nothing else would wake the run for, if the word of their end were lost.
    pub(crate) fn checks(&self, now: Timestamp) -> impl Iterator<Item = Effect> + '_ {
        let workflows = self.run.outstanding().iter().filter(|(_, pending)| pending.call.is_workflow());
        workflows.map(move |(seq, _)| Effect::Arm { seq: *seq, at: now.plus(CHECK) })
    }

    /// The result in `record`, if it teaches something about its tool.
    fn seen(&self, record: &Record) -> Option<Seen> {
        let Record::Completed { seq, outcome: Outcome::Ok(Payload::Inline(result)), .. } = record else { return None };
        let Call::Tool { tool, raw: false, .. } = &self.run.outstanding().get(seq)?.call else { return None };
        let (_, pinned) = self.script.tools.find(tool)?;
        let toolset = self.run.spec()?.toolset.clone();
        pinned.output_schema.is_none().then(|| Seen { toolset, tool: tool.clone(), result: result.clone() })
    }

    /// Tells the script all that there is to tell, and takes what it says, until it only waits.
    pub(crate) async fn settle(&mut self, context: &Context, draft: &mut Draft) -> Result<(), TurnError> {
        loop {
            while (draft.replay || !draft.deliveries.is_empty()) && !self.run.status().ended() {
                let turn = self.tell(context, draft).await?;
                let records = self.run.decide(Timestamp::now(), Input::Script(turn, self.history.as_ref()));
                self.take(draft, records)?;
            }
            let Some(history) = &self.history else { return Ok(()) };
            let taken = self.run.decide(Timestamp::now(), Input::Take(history));
            if taken.is_empty() {
                return Ok(());
            }
            if draft.bytes >= TAKEN_BYTES || draft.records.len() >= TAKEN_RECORDS {
                draft.unfinished = true;
                return Ok(());
            }
            self.take(draft, taken)?;
        }
    }

    async fn tell(&mut self, context: &Context, draft: &mut Draft) -> Result<ScriptTurn, TurnError> {
        draft.replay = false;
        let deliveries = std::mem::take(&mut draft.deliveries);
        if let Some(instance) = &mut self.instance {
            match self.script.deliver(context, instance, deliveries).await {
                Ok(turn) => return Ok(turn),
                Err(ScriptError::Sandbox(error)) => {
                    self.instance = None;
                    if let Some(turn) = self.lost(context, &error) {
                        return Ok(turn);
                    }
                }
                Err(ScriptError::Bus(error)) => return Err(error.into()),
                Err(ScriptError::Diverged(divergence)) => {
                    return Ok(failed(error("nondeterminism", divergence.to_string())));
                }
            }
        }
        self.replay(context, draft).await
    }

    /// Runs the script from its start on all that the journal and the draft hold, and says what it did
    /// beyond that.
    async fn replay(&mut self, context: &Context, draft: &mut Draft) -> Result<ScriptTurn, TurnError> {
        let mut entries = match draft.journal.take() {
            Some(entries) => entries,
            None => context.bus.read_surely(self.run.id()).await?,
        };
        if entries.last().is_none_or(|last| last.sequence != self.sequence) {
            return Err(BusError::Fenced { run: self.run.id().clone(), expected: self.sequence }.into());
        }
        entries.push(Stored { sequence: 0, entry: Entry::new(draft.records.clone()) });
        loop {
            match self.script.replay(context, &entries, self.blamed > 0).await {
                Ok((instance, beyond)) => {
                    self.instance = Some(instance);
                    return Ok(beyond);
                }
                Err(ScriptError::Diverged(divergence)) => {
                    return Ok(failed(error("nondeterminism", divergence.to_string())));
                }
                Err(ScriptError::Bus(error)) => return Err(error.into()),
                Err(ScriptError::Sandbox(error)) => {
                    if let Some(turn) = self.lost(context, &error) {
                        return Ok(turn);
                    }
                }
            }
        }
    }

    /// Counts a lost sandbox; the run's end, if it was this run's doing once too often.
    fn lost(&mut self, context: &Context, lost: &SandboxError) -> Option<ScriptTurn> {
        tracing::info!(run = %self.run.id(), error = %lost, "the script's sandbox is gone");
        let end = match lost {
            SandboxError::Lost => return None,
            SandboxError::Blamed(limit) => limit_error(*limit, &context.script_limits),
            SandboxError::Crashed(_) => error("sandbox_crashed", format!("the script's sandbox died twice: {lost}")),
            SandboxError::TooLarge(_) => return Some(failed(error("limit_memory", lost.to_string()))),
            SandboxError::Spawn(_) | SandboxError::NotConfined(_) | SandboxError::ShutDown => {
                return Some(failed(error("sandbox_crashed", lost.to_string())));
            }
        };
        self.blamed += 1;
        (self.blamed >= BLAMED).then(|| failed(end))
    }

    /// If nothing but long timers and parked calls is outstanding, the run leaves memory with this very entry.
    pub(crate) fn rest(&mut self, draft: &mut Draft) -> Result<(), TurnError> {
        let now = Timestamp::now();
        let long = |phase: &Phase, call: &Call| match (phase, call) {
            (Phase::Sleeping, Call::Sleep { until, .. }) => until.since(now) >= LONG,
            (Phase::BackingOff { until, .. }, _) => until.since(now) >= LONG,
            (Phase::Parked { .. } | Phase::Deferred { .. }, _) => true,
            _ => false,
        };
        let rests = self.run.outstanding().values().all(|pending| long(&pending.phase, &pending.call));
        if rests && !draft.records.is_empty() { self.leave_memory(draft) } else { Ok(()) }
    }

    /// Records that the run leaves memory, if it may.
    pub(crate) fn leave_memory(&mut self, draft: &mut Draft) -> Result<(), TurnError> {
        let records = self.run.decide(Timestamp::now(), Input::Idle);
        self.take(draft, records)
    }

    /// May the run be woken by what others keep: timers in JetStream, calls in the host queue?
    pub(crate) fn others_wake(&self) -> bool {
        let by_others = |phase: &Phase, call: &Call| match (phase, call) {
            (Phase::Sent { .. }, call @ Call::Tool { .. }) => call.is_queued_elsewhere(),
            (Phase::Queued { .. } | Phase::Sleeping | Phase::BackingOff { .. }, _) => true,
            (Phase::Parked { .. } | Phase::Elsewhere { .. } | Phase::Deferred { .. }, _) => true,
            (Phase::Unknown { .. } | Phase::Recorded, _) => false,
            (Phase::Sent { .. }, Call::Sleep { .. }) => false,
        };
        self.run.outstanding().values().all(|pending| by_others(&pending.phase, &pending.call))
    }

    pub(crate) fn free_script(&mut self) {
        self.instance = None;
    }

    /// Appends the draft. Nothing in it has happened when this fails.
    pub(crate) async fn commit(&mut self, context: &Context, draft: &mut Draft) -> Result<(), TurnError> {
        let records = std::mem::take(&mut draft.records);
        if records.is_empty() {
            return Ok(());
        }
        let id = self.run.id().clone();
        let summary = Summary::of(&self.run, self.created_at).ok_or_else(|| TurnError::Empty(id.clone()))?;
        self.sequence = append(&context.bus, &id, &summary, records, self.sequence, &context.limits).await?;
        draft.seen.drain(..).for_each(|seen| context.observer.see(seen));
        if let Some((parent, end)) = draft.end.take() {
            child::report(context, &id, &parent, end).await;
        }
        Ok(())
    }

    pub(crate) fn over(&self) -> bool {
        let status = self.run.status();
        status.ended() || status == RunStatus::Waiting
    }
}

/// Ends a run of which something is gone that it needs: its toolset or script from the catalog, a payload.
pub(crate) async fn end_broken(
    context: &Context,
    id: &RunId,
    entries: &[Stored],
    epoch: u64,
    why: &str,
) -> Result<(), TurnError> {
    let mut run = Run::of(id.clone(), context.limits, records(entries))?;
    if run.status().ended() {
        return Ok(());
    }
    let created_at = records(entries).next().map(Record::at);
    let now = Timestamp::now();
    let mut last_words = Vec::new();
    let broken = error("script_error", format!("the run cannot go on: {why}"));
    for input in [Input::Adopt { node: context.id.clone(), epoch, lost: false }, Input::Broken(broken)] {
        for record in run.decide(now, input) {
            run.fold(&record)?;
            last_words.push(record);
        }
    }
    let empty = || TurnError::Empty(id.clone());
    let summary = Summary::of(&run, created_at.ok_or_else(empty)?).ok_or_else(empty)?;
    let after = entries.last().map_or(0, |last| last.sequence);
    append(&context.bus, id, &summary, last_words, after, &context.limits).await?;
    Ok(())
}

fn records(entries: &[Stored]) -> impl Iterator<Item = &Record> {
    entries.iter().flat_map(|stored| &stored.entry.records)
}

fn failed(error: RunError) -> ScriptTurn {
    ScriptTurn { end: Some(ScriptEnd::Failed(error)), ..ScriptTurn::default() }
}
