//! The state of a run: the fold of its records.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rewind_model::{Key, Limits, NodeId, RunId, RunStatus, Seq, Timestamp};

use crate::{Call, Delivery, End, Origin, ParkReason, Record, Spec, Terms, tally::Tally};

/// A run as its records so far make it. Results are not kept: they are in the journal and in the
/// script's memory.
#[derive(Debug, Clone)]
pub struct Run {
    id: RunId,
    pub(crate) limits: Limits,
    spec: Option<Box<Spec>>,
    owner: Option<Owner>,
    pending: BTreeMap<Seq, Pending>,
    in_flight: usize,
    /// No call up to this one waits for a place.
    dequeued: Seq,
    made: Seq,
    logs: u32,
    waiting: bool,
    ended: Option<RunStatus>,
    started_at: Option<Timestamp>,
    last_at: Timestamp,
    script_time: Timestamp,
    /// When the last timer that was ever armed is due.
    last_timer: Timestamp,
    /// The script does something else than what it is a fork of.
    diverged: bool,
    /// Calls of the history that are an origin.
    used: BTreeSet<Seq>,
    pub(crate) tally: Tally,
}

/// The node that may append: the one that appended `Adopted` last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub node: NodeId,
    pub epoch: u64,
}

/// A call without an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub call: Call,
    pub called_at: Timestamp,
    pub phase: Phase,
    /// Attempts that ended without an answer.
    pub failures: u32,
    /// Somebody let it go though it does not match what its tool is by now.
    pub approved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Over the in-flight limit: goes out as attempt number `attempt` when another call ends.
    Queued {
        attempt: u32,
    },
    /// May have been sent, as attempt number `attempt` (from 1).
    Sent {
        attempt: u32,
    },
    /// Goes out again at `until`, as attempt number `attempt`.
    BackingOff {
        attempt: u32,
        until: Timestamp,
    },
    /// Waits for somebody to decide; if they let it go, it goes out as attempt number `attempt`. It takes
    /// none of the places that calls in flight have.
    Parked {
        reason: ParkReason,
        attempt: u32,
        /// It is rejected then.
        until: Option<Timestamp>,
    },
    /// The worker that got attempt number `attempt` answers it later, and tells so by itself. It takes none of
    /// the places, either.
    Deferred {
        attempt: u32,
    },
    /// It is not sent: its outcome is taken from its origin.
    Recorded,
    /// Must not be sent twice, and is in a queue that an owner before put it into: that queue has it, or
    /// its answer is on the way.
    Elsewhere {
        attempt: u32,
    },
    /// Must not be sent twice, and was with an owner before: nobody knows what became of it.
    Unknown {
        attempt: u32,
    },
    Sleeping,
}

/// What a record calls for, once it is durable. A replay drops these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send the call.
    Dispatch { seq: Seq, attempt: u32 },
    /// Wake the run for this call at `at`, whatever becomes of this process.
    Arm { seq: Seq, at: Timestamp },
    /// Tell whoever works on this call that nobody waits for it any more.
    Abandon { seq: Seq, call: Call },
    /// Let go of every timer: nobody needs one any more.
    Disarm,
}

/// A record that cannot follow the ones before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{run}: the record `{record}` is illegal here: {why}")]
pub struct IllegalRecord {
    pub run: RunId,
    pub record: &'static str,
    pub why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("the run has no `created` yet")]
    NotCreated,
    #[error("the run was created before")]
    CreatedTwice,
    #[error("no node has adopted the run")]
    NotAdopted,
    #[error("epoch {given} is not after epoch {current}, in which it was adopted last")]
    StaleEpoch { given: u64, current: u64 },
    #[error("the run has ended as {0}")]
    Ended(RunStatus),
    #[error("call {given} is not the next one, which is {expected}")]
    WrongSeq { given: Seq, expected: Seq },
    #[error("call {0} is not outstanding")]
    NotOutstanding(Seq),
    #[error("call {0} is not of the kind that this record is about")]
    WrongKind(Seq),
    #[error("call {0} is not parked")]
    NotParked(Seq),
    #[error("call {seq} has not been sent as attempt {attempt}")]
    NotSent { seq: Seq, attempt: u32 },
    #[error("call {0} gets its outcome from somewhere else")]
    OtherOrigin(Seq),
}

impl Run {
    /// The run that `records` make, with the limits that its own [`Spec`] pins.
    ///
    /// # Errors
    /// When a record cannot follow the ones before it.
    pub fn of<'a>(
        id: RunId,
        limits: Limits,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Result<Self, IllegalRecord> {
        let mut run = Self::new(id, limits);
        for record in records {
            if let Record::Created { spec, .. } = record {
                run.limits.calls_in_flight = spec.calls_in_flight;
            }
            run.fold(record)?;
        }
        Ok(run)
    }

    /// A run of which nothing is recorded yet.
    pub fn new(id: RunId, limits: Limits) -> Self {
        Self {
            id,
            limits,
            spec: None,
            owner: None,
            pending: BTreeMap::new(),
            in_flight: 0,
            dequeued: 0,
            made: 0,
            logs: 0,
            waiting: false,
            ended: None,
            started_at: None,
            last_at: Timestamp::default(),
            script_time: Timestamp::default(),
            last_timer: Timestamp::default(),
            diverged: false,
            used: BTreeSet::new(),
            tally: Tally::default(),
        }
    }

    pub fn id(&self) -> &RunId {
        &self.id
    }
    pub fn spec(&self) -> Option<&Spec> {
        self.spec.as_deref()
    }
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }
    /// Number of calls made: the seq of the last one.
    pub fn made(&self) -> Seq {
        self.made
    }
    /// Number of `console` lines recorded.
    pub fn logs(&self) -> u32 {
        self.logs
    }
    pub fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }
    /// The time of the last record: script time never goes back behind it.
    pub fn last_at(&self) -> Timestamp {
        self.last_at
    }
    /// What the script's clock shows.
    pub fn script_time(&self) -> Timestamp {
        self.script_time
    }
    pub(crate) fn diverged(&self) -> bool {
        self.diverged
    }
    pub(crate) fn used_origins(&self) -> &BTreeSet<Seq> {
        &self.used
    }
    /// Number of calls that a worker will answer later.
    pub fn deferred(&self) -> u32 {
        let deferred = self.pending.values().filter(|pending| matches!(pending.phase, Phase::Deferred { .. }));
        u32::try_from(deferred.count()).unwrap_or(u32::MAX)
    }
    pub fn key(&self, seq: Seq) -> Key {
        Key { run: self.id.clone(), seq }
    }
    /// Number of calls that wait for a decision.
    pub fn parked(&self) -> u32 {
        let parked = self.pending.values().filter(|pending| matches!(pending.phase, Phase::Parked { .. }));
        u32::try_from(parked.count()).unwrap_or(u32::MAX)
    }
    /// The calls without an outcome, by seq.
    pub fn outstanding(&self) -> &BTreeMap<Seq, Pending> {
        &self.pending
    }

    pub fn status(&self) -> RunStatus {
        match (self.ended, &self.owner) {
            (Some(ended), _) => ended,
            (None, None) => RunStatus::Queued,
            (None, Some(_)) if self.waiting => RunStatus::Waiting,
            (None, Some(_)) => RunStatus::Running,
        }
    }

    /// What is outstanding: the effects that a node performs after it has taken the run over (and
    /// recorded that), since nobody knows which of them the owner before it still did.
    pub fn pending(&self) -> Vec<Effect> {
        let calls = self.pending.iter().filter_map(|(seq, pending)| pending.effect(*seq));
        self.deadline().map(|at| Effect::Arm { seq: Self::DEADLINE, at }).into_iter().chain(calls).collect()
    }

    /// Stands for the run's deadline where a call's number would.
    pub const DEADLINE: Seq = 0;

    /// `None` once the run has ended.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.spec.as_ref().filter(|_| self.ended.is_none())?.deadline
    }

    /// What the coming of an armed time calls for when [`Run::decide`] records nothing for it: the
    /// next attempt of a call that backs off (its `AttemptFailed` is the durable fact behind it; one that
    /// must not be sent twice is recorded before), or the same time again, if whoever armed it has a faster
    /// clock than `now`; or to ask what became of a workflow's run.
    pub fn due(&self, now: Timestamp, seq: Seq) -> Option<Effect> {
        if seq == Self::DEADLINE {
            return self.deadline().filter(|at| now < *at).map(|at| Effect::Arm { seq, at });
        }
        let pending = self.pending.get(&seq)?;
        match (&pending.call, pending.phase) {
            // A child run that has ended long ago, if the word of it was lost.
            (call, Phase::Sent { attempt }) if call.is_workflow() => Some(Effect::Dispatch { seq, attempt }),
            (call, Phase::BackingOff { until, .. }) if now >= until && call.terms().at_most_once => None,
            (_, Phase::BackingOff { attempt, until }) if now >= until => Some(Effect::Dispatch { seq, attempt }),
            (Call::Sleep { until, .. }, Phase::Sleeping) if now >= *until => None,
            (_, Phase::Parked { until: Some(until), .. }) if now >= until => None,
            (_, Phase::BackingOff { .. } | Phase::Sleeping | Phase::Parked { .. }) => pending.effect(seq),
            (
                _,
                Phase::Queued { .. }
                | Phase::Sent { .. }
                | Phase::Deferred { .. }
                | Phase::Recorded
                | Phase::Elsewhere { .. }
                | Phase::Unknown { .. },
            ) => None,
        }
    }

    /// Applies a durable fact and says what it calls for.
    ///
    /// # Errors
    /// When the record cannot follow the ones before it. The run is unchanged then.
    pub fn fold(&mut self, record: &Record) -> Result<Vec<Effect>, IllegalRecord> {
        self.legal(record).map_err(|why| IllegalRecord { run: self.id.clone(), record: record.name(), why })?;
        self.last_at = self.last_at.max(record.at());
        self.tally.note(record);
        self.waiting = matches!(record, Record::Waiting { .. });
        if let Some(Delivery { at, .. }) = Delivery::of(record) {
            self.script_time = self.script_time.max(at);
        }
        let effects = self.apply(record);
        for effect in &effects {
            if let Effect::Arm { at, .. } = effect {
                self.last_timer = self.last_timer.max(*at);
            }
        }
        Ok(effects)
    }

    fn legal(&self, record: &Record) -> Result<(), Why> {
        if let Some(status) = self.ended {
            return Err(Why::Ended(status));
        }
        match record {
            Record::Created { .. } if self.spec.is_some() => return Err(Why::CreatedTwice),
            Record::Created { .. } => return Ok(()),
            _ if self.spec.is_none() => return Err(Why::NotCreated),
            Record::Adopted { epoch, .. } => return self.legal_epoch(*epoch),
            _ if self.owner.is_none() => return Err(Why::NotAdopted),
            _ => {}
        }
        match record {
            Record::Called { seq, .. } | Record::Refused { seq, .. } if *seq != self.made + 1 => {
                Err(Why::WrongSeq { given: *seq, expected: self.made + 1 })
            }
            Record::AttemptFailed { seq, attempt, .. } => match self.phase(*seq)? {
                Phase::Sent { attempt: last }
                | Phase::Elsewhere { attempt: last }
                | Phase::BackingOff { attempt: last, .. }
                    if last == *attempt =>
                {
                    Ok(())
                }
                _ => Err(Why::NotSent { seq: *seq, attempt: *attempt }),
            },
            Record::Retried { seq, attempt, .. } => match self.phase(*seq)? {
                Phase::BackingOff { attempt: next, .. } if next == *attempt => Ok(()),
                _ => Err(Why::NotSent { seq: *seq, attempt: *attempt }),
            },
            Record::Parked { seq, attempt, .. } => match self.phase(*seq)? {
                Phase::Sent { attempt: last } | Phase::BackingOff { attempt: last, .. } if last == *attempt => Ok(()),
                _ => Err(Why::NotSent { seq: *seq, attempt: *attempt }),
            },
            Record::Approved { seq, .. } | Record::Rejected { seq, .. } => match self.phase(*seq)? {
                Phase::Parked { .. } => Ok(()),
                _ => Err(Why::NotParked(*seq)),
            },
            // The answer to any attempt is the answer: all carry the same key, and a host worker
            // counts redeliveries that the run has not heard of.
            Record::Completed { seq, attempt, .. } => match self.phase(*seq)? {
                Phase::Sent { .. }
                | Phase::BackingOff { .. }
                | Phase::Elsewhere { .. }
                | Phase::Deferred { .. }
                | Phase::Unknown { .. } => Ok(()),
                Phase::Queued { .. } | Phase::Parked { .. } => Err(Why::NotSent { seq: *seq, attempt: *attempt }),
                Phase::Sleeping => Err(Why::WrongKind(*seq)),
                Phase::Recorded => Err(Why::OtherOrigin(*seq)),
            },
            Record::Deferred { seq, attempt, .. } => match self.phase(*seq)? {
                Phase::Sent { .. } | Phase::Elsewhere { .. } if self.is_with_worker(*seq) => Ok(()),
                _ => Err(Why::NotSent { seq: *seq, attempt: *attempt }),
            },
            Record::Taken { seq, .. } => match self.phase(*seq)? {
                Phase::Recorded => Ok(()),
                _ => Err(Why::OtherOrigin(*seq)),
            },
            Record::Fired { seq, .. } => match self.phase(*seq)? {
                Phase::Sleeping => Ok(()),
                Phase::Recorded => Err(Why::OtherOrigin(*seq)),
                _ => Err(Why::WrongKind(*seq)),
            },
            _ => Ok(()),
        }
    }

    fn legal_epoch(&self, given: u64) -> Result<(), Why> {
        match &self.owner {
            Some(owner) if given <= owner.epoch => Err(Why::StaleEpoch { given, current: owner.epoch }),
            _ => Ok(()),
        }
    }

    fn phase(&self, seq: Seq) -> Result<Phase, Why> {
        self.pending.get(&seq).map(|pending| pending.phase).ok_or(Why::NotOutstanding(seq))
    }

    pub(crate) fn is_with_worker(&self, seq: Seq) -> bool {
        self.pending.get(&seq).is_some_and(|pending| pending.call.is_of_worker())
    }

    fn apply(&mut self, record: &Record) -> Vec<Effect> {
        match record {
            Record::Created { at, spec } => {
                self.script_time = spec.past.as_ref().map_or(*at, |past| past.clock.started);
                self.spec = Some(spec.clone());
                Vec::new()
            }
            Record::Adopted { at, node, epoch } => self.adopt(*at, Owner { node: node.clone(), epoch: *epoch }),
            Record::Called { at, seq, call } => self.call(*at, *seq, call),
            Record::Refused { seq, .. } => {
                self.made = *seq;
                Vec::new()
            }
            Record::AttemptFailed { seq, attempt, retry_at, .. } => {
                let Some(pending) = self.pending.get_mut(seq) else { return Vec::new() };
                pending.failures += 1;
                pending.phase = Phase::BackingOff { attempt: attempt + 1, until: *retry_at };
                pending.effect(*seq).into_iter().collect()
            }
            Record::Retried { seq, attempt, .. } => self.send(*seq, *attempt),
            Record::Parked { at, seq, attempt, reason, .. } => {
                let mut effects = self.give_place();
                if let Some(pending) = self.pending.get_mut(seq) {
                    pending.park(*at, *reason, *attempt);
                    effects.extend(pending.effect(*seq));
                }
                effects
            }
            Record::Deferred { seq, attempt, .. } => {
                let held = self.set_phase(*seq, Phase::Deferred { attempt: *attempt });
                if held { self.give_place() } else { Vec::new() }
            }
            Record::Taken { seq, .. } => {
                self.pending.remove(seq);
                Vec::new()
            }
            Record::Diverged { .. } => {
                self.diverged = true;
                Vec::new()
            }
            Record::Approved { seq, .. } => self.approve(*seq),
            Record::Completed { seq, .. } | Record::Rejected { seq, .. } => self.complete(*seq),
            Record::Fired { seq, .. } => {
                self.pending.remove(seq);
                Vec::new()
            }
            Record::Logged { .. } => {
                self.logs += 1;
                Vec::new()
            }
            Record::Waiting { .. } => Vec::new(),
            Record::Ended { at, end } => self.end(*at, end),
        }
    }

    /// It goes out, as soon as there is a place for it.
    fn approve(&mut self, seq: Seq) -> Vec<Effect> {
        let full = self.in_flight >= self.limits.calls_in_flight;
        let Some(pending) = self.pending.get_mut(&seq) else { return Vec::new() };
        let Phase::Parked { attempt, reason, .. } = pending.phase else { return Vec::new() };
        pending.approved |= reason == ParkReason::SchemaChanged;
        if full {
            pending.phase = Phase::Queued { attempt };
            self.dequeued = self.dequeued.min(seq - 1);
            return Vec::new();
        }
        self.in_flight += 1;
        self.send(seq, attempt)
    }

    /// `false` when there is no such call.
    fn set_phase(&mut self, seq: Seq, phase: Phase) -> bool {
        self.pending.get_mut(&seq).map(|pending| pending.phase = phase).is_some()
    }

    fn send(&mut self, seq: Seq, attempt: u32) -> Vec<Effect> {
        let Some(pending) = self.pending.get_mut(&seq) else { return Vec::new() };
        pending.phase = Phase::Sent { attempt };
        pending.effect(seq).into_iter().collect()
    }

    /// Whatever the owner before was sending is lost with it: it is sent again, as one attempt more,
    /// unless it must not be. What it had queued is still that attempt.
    fn adopt(&mut self, at: Timestamp, owner: Owner) -> Vec<Effect> {
        self.owner = Some(owner);
        self.started_at.get_or_insert(at);
        for pending in self.pending.values_mut() {
            let Phase::Sent { attempt } = pending.phase else { continue };
            pending.phase = match (pending.call.is_queued_elsewhere(), pending.call.terms().at_most_once) {
                (true, false) => Phase::Sent { attempt },
                (false, false) => Phase::Sent { attempt: attempt + 1 },
                (true, true) => Phase::Elsewhere { attempt },
                (false, true) => Phase::Unknown { attempt },
            };
        }
        self.pending()
    }

    fn call(&mut self, at: Timestamp, seq: Seq, call: &Call) -> Vec<Effect> {
        self.made = seq;
        let phase = match call {
            _ if call.origin().is_some() => Phase::Recorded,
            Call::Sleep { .. } => Phase::Sleeping,
            Call::Tool { terms: terms @ Terms { approval: true, .. }, .. } => {
                Phase::Parked { reason: ParkReason::Approval, attempt: 1, until: parked_until(at, *terms) }
            }
            Call::Tool { .. } if self.in_flight >= self.limits.calls_in_flight => Phase::Queued { attempt: 1 },
            Call::Tool { .. } => {
                self.in_flight += 1;
                self.dequeued = seq;
                Phase::Sent { attempt: 1 }
            }
        };
        if let Some(Origin::Past(past)) = call.origin() {
            self.used.insert(past);
        }
        if call.is_workflow() && call.origin().is_none() {
            // Its node looks after it from time to time, by timers that no record tells of.
            self.last_timer = at.plus(Duration::from_secs(365 * 86_400));
        }
        let pending = Pending { call: call.clone(), called_at: at, phase, failures: 0, approved: false };
        let effect = pending.effect(seq);
        self.pending.insert(seq, pending);
        effect.into_iter().collect()
    }

    fn complete(&mut self, seq: Seq) -> Vec<Effect> {
        let ended = self.pending.remove(&seq);
        if ended.is_some_and(|ended| matches!(ended.phase, Phase::Parked { .. } | Phase::Deferred { .. })) {
            return Vec::new();
        }
        self.give_place()
    }

    /// A place among the calls in flight is free: the next one that waits for one goes out.
    fn give_place(&mut self) -> Vec<Effect> {
        self.in_flight -= 1;
        let later = self.pending.range(self.dequeued + 1..);
        let next = later.into_iter().find_map(|(seq, pending)| match pending.phase {
            Phase::Queued { attempt } => Some((*seq, attempt)),
            _ => None,
        });
        let Some((seq, attempt)) = next else { return Vec::new() };
        self.in_flight += 1;
        self.dequeued = seq;
        self.send(seq, attempt)
    }

    fn end(&mut self, at: Timestamp, end: &End) -> Vec<Effect> {
        let timers = self.deadline().max(Some(self.last_timer)).filter(|last| *last > at).map(|_| Effect::Disarm);
        self.ended = Some(match end {
            End::Completed { .. } => RunStatus::Completed,
            End::Failed { .. } => RunStatus::Failed,
            End::Cancelled => RunStatus::Cancelled,
        });
        self.in_flight = 0;
        let with_somebody = |phase: &Phase| match phase {
            Phase::Sent { .. } | Phase::BackingOff { .. } | Phase::Elsewhere { .. } | Phase::Deferred { .. } => true,
            Phase::Queued { .. } | Phase::Parked { .. } | Phase::Unknown { .. } | Phase::Sleeping | Phase::Recorded => {
                false
            }
        };
        let calls = std::mem::take(&mut self.pending)
            .into_iter()
            .filter(|(_, pending)| with_somebody(&pending.phase))
            .map(|(seq, pending)| Effect::Abandon { seq, call: pending.call });
        timers.into_iter().chain(calls).collect()
    }
}

/// When a call that is parked at `at` is rejected, if nobody decides.
fn parked_until(at: Timestamp, terms: Terms) -> Option<Timestamp> {
    terms.park_ms.map(|limit| at.plus(Duration::from_millis(limit)))
}

impl Pending {
    fn park(&mut self, at: Timestamp, reason: ParkReason, attempt: u32) {
        self.phase = Phase::Parked { reason, attempt, until: parked_until(at, self.call.terms()) };
    }

    fn effect(&self, seq: Seq) -> Option<Effect> {
        match (&self.call, self.phase) {
            (_, Phase::Queued { .. } | Phase::Elsewhere { .. } | Phase::Unknown { .. }) => None,
            (_, Phase::Deferred { .. } | Phase::Recorded) => None,
            (_, Phase::Sent { attempt }) => Some(Effect::Dispatch { seq, attempt }),
            (_, Phase::BackingOff { until, .. }) => Some(Effect::Arm { seq, at: until }),
            (_, Phase::Parked { until, .. }) => until.map(|at| Effect::Arm { seq, at }),
            (Call::Sleep { until, .. }, Phase::Sleeping) => Some(Effect::Arm { seq, at: *until }),
            (Call::Tool { .. }, Phase::Sleeping) => None,
        }
    }
}
