//! The world around the node that owns a run: tools, queues, timers, people, crashes, take-overs.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rewind_model::{ErrorCode, Limits, Outcome, RunStatus, Seq, Timestamp, ToolFailure};
use rewind_run::{Delivery, Effect, Entry, History, Input, ParkReason, Phase, Record, Run, ScriptTurn, Spec};

use super::{
    chance::Chance,
    fixtures,
    life::{Life, Recorded, Sent},
    node::{Message, Node, fold, is_once, replay},
    script::{Program, Script},
};

/// A simulated life ends long before this many steps unless it is stuck.
const STEPS: usize = 5_000;

pub(crate) struct Simulation<'p> {
    program: &'p Program,
    limits: Limits,
    past: Option<&'p History>,
    chance: Chance,
    clock: Timestamp,
    /// The owner's clock less the world's, in milliseconds.
    skew: i64,
    epoch: u64,
    crashes_left: u32,
    cancels: bool,
    node: Option<Node<'p>>,
    life: Life,
    mail: Vec<Message>,
    /// What the node works on, and has not recorded.
    in_hand: Vec<Message>,
    timers: Vec<(Seq, Timestamp)>,
    /// Calls that some attempt of has reached its tool.
    reached: BTreeSet<Seq>,
    /// The last attempt of each call that is or was in the queue of host workers, or is a run.
    queued: BTreeMap<Seq, u32>,
}

impl<'p> Simulation<'p> {
    pub(crate) fn new(program: &'p Program, limits: Limits, seed: u64) -> Self {
        Self::of_spec(program, fixtures::spec(), fixtures::at(0), limits, seed)
    }

    pub(crate) fn of_spec(program: &'p Program, spec: Spec, at: Timestamp, limits: Limits, seed: u64) -> Self {
        let spec = Box::new(Spec { calls_in_flight: limits.calls_in_flight, ..spec });
        Self::resume(program, limits, seed, &[Record::Created { at, spec }])
    }

    /// A world in which nobody owns the run that these records made, and nothing is on its way.
    pub(crate) fn resume(program: &'p Program, limits: Limits, seed: u64, records: &[Record]) -> Self {
        let mut run = Run::new(fixtures::run_id(), limits);
        let history: Vec<Recorded> = records.iter().map(|record| fold(&mut run, record.clone())).collect();
        let entries = vec![Entry::new(records.to_vec()).to_bytes().expect("writable")];
        Self {
            program,
            limits,
            past: None,
            chance: Chance(seed),
            clock: run.last_at().plus(Duration::from_millis(1)),
            skew: 0,
            epoch: run.owner().map_or(0, |owner| owner.epoch),
            crashes_left: 3,
            cancels: true,
            node: None,
            life: Life { history, entries, sent: Vec::new(), armed: BTreeSet::new() },
            mail: Vec::new(),
            in_hand: Vec::new(),
            timers: Vec::new(),
            reached: BTreeSet::new(),
            queued: BTreeMap::new(),
        }
    }

    /// Outcomes are taken over from there.
    pub(crate) fn with_past(self, past: &'p History) -> Self {
        Self { past: Some(past), ..self }
    }

    /// Nobody cancels it.
    pub(crate) fn without_cancels(self) -> Self {
        Self { cancels: false, ..self }
    }

    /// Lets everything happen that happens, until the run has ended.
    pub(crate) fn run_to_end(mut self) -> Life {
        for _ in 0..STEPS {
            self.clock = self.clock.plus(Duration::from_millis(self.chance.below(20)));
            let batch = match &self.node {
                None => {
                    self.take_over();
                    continue;
                }
                Some(node) if node.run.status().ended() => {
                    self.late_answers_change_nothing();
                    return self.life;
                }
                Some(_) if self.crashes_left > 0 && self.chance.one_in(15) => {
                    self.crash();
                    continue;
                }
                Some(_) => self.next_batch(),
            };
            self.handle(batch);
        }
        panic!("invariant 13: the run makes progress; it is at {:?}", self.life.history.last());
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.clock.unix_ms() + self.skew)
    }

    fn crash(&mut self) {
        self.crashes_left -= 1;
        self.node = None;
        // An answer may still come, to the next owner: a late one, then. Timers are durable, and so are the
        // queues of host workers: what was not dealt with comes again.
        let mut mail = std::mem::take(&mut self.mail);
        mail.append(&mut self.in_hand);
        mail.retain(|message| {
            let queued = message.of_call().is_some_and(|seq| self.queued.contains_key(&seq));
            // What the node had to say of its own work is lost with it.
            let its_own = matches!(message, Message::NotSent { .. });
            !its_own && (queued || self.chance.one_in(2))
        });
        self.mail = mail;
    }

    /// Folds the journal, replays the script, records the take-over and what the script did beyond.
    fn take_over(&mut self) {
        self.epoch += 1;
        self.skew = self.chance.below(41) as i64 - 20;
        let mut node = self.reader();
        let before = node.run.clone();
        let adopt = Input::Adopt { node: fixtures::node(self.epoch), epoch: self.epoch, lost: false };
        node.decide(self.now(), adopt);
        if before.status().ended() {
            assert!(node.unwritten.is_empty(), "an ended run is nobody's");
            self.node = Some(node);
            return;
        }
        // What the take-over itself ends is news to the script.
        let mut records = self.life.records();
        records.extend(node.unwritten.iter().map(|recorded| recorded.record.clone()));
        let (script, beyond) = replay(self.program, &records).expect("the script is deterministic");
        node.script = Some(script);
        node.settle(self.now(), beyond);
        self.node = Some(node);
        self.append();
        self.look_after_others();
    }

    /// What is with others and of which no word is on its way is told of again, or given up.
    fn look_after_others(&mut self) {
        let Some(node) = &self.node else { return };
        for (seq, pending) in node.run.outstanding() {
            if self.mail.iter().any(|message| matches!(message, Message::Answer { seq: of, .. } if of == seq)) {
                continue;
            }
            match pending.phase {
                Phase::Elsewhere { attempt } => {
                    self.mail.push(Message::Interrupted { seq: *seq, attempt, sent: true });
                }
                Phase::Deferred { attempt } => {
                    let outcome = Outcome::Ok(fixtures::inline("\"later\""));
                    self.mail.push(Message::Answer { seq: *seq, attempt, outcome });
                }
                _ => {}
            }
        }
    }

    /// A node that has read the journal.
    fn reader(&self) -> Node<'p> {
        let run = fixtures::folded(self.limits, &self.life.records());
        Node { run, past: self.past, script: None, unwritten: Vec::new(), effects: Vec::new() }
    }

    fn replay(&self) -> (Script<'p>, ScriptTurn) {
        replay(self.program, &self.life.records()).expect("the script is deterministic")
    }

    /// One to three of the messages that have come, in any order.
    fn next_batch(&mut self) -> Vec<Message> {
        // A timer's clock is not the node's: it may come early, and come twice.
        let early = self.clock.plus(Duration::from_millis(self.chance.below(5)));
        let (due, later) = self.timers.iter().partition(|(_, at)| *at <= early);
        self.timers = later;
        let due: Vec<(Seq, Timestamp)> = due;
        for (seq, _) in due {
            self.mail.push(Message::Due { seq });
            if self.chance.one_in(10) {
                self.mail.push(Message::Due { seq });
            }
        }
        self.somebody_decides();
        if self.mail.is_empty() && self.timers.is_empty() && self.parked().next().is_some() {
            return vec![Message::Idle];
        }
        if self.mail.is_empty() && self.timers.is_empty() {
            self.look_after_others();
        }
        if self.mail.is_empty() {
            let next = self.timers.iter().map(|(_, at)| *at).min();
            let next = next.unwrap_or_else(|| {
                let outstanding = self.node.as_ref().map(|node| node.run.outstanding());
                panic!("invariant 6: a run that waits has something that wakes it: {outstanding:?}")
            });
            let idle = self.chance.one_in(2);
            self.clock = self.clock.max(next);
            return if idle { vec![Message::Idle] } else { Vec::new() };
        }
        let mut batch = Vec::new();
        for _ in 0..=self.chance.below(3) {
            if self.mail.is_empty() {
                break;
            }
            let index = self.chance.below(self.mail.len() as u64) as usize;
            batch.push(self.mail.swap_remove(index));
        }
        batch
    }

    fn parked(&self) -> impl Iterator<Item = Seq> + '_ {
        let outstanding = self.node.iter().flat_map(|node| node.run.outstanding());
        outstanding.filter(|(_, pending)| matches!(pending.phase, Phase::Parked { .. })).map(|(seq, _)| *seq)
    }

    /// About calls that are parked, and about some that are not; sometimes two at once.
    fn somebody_decides(&mut self) {
        let parked: Vec<Seq> = self.parked().collect();
        for seq in parked {
            for _ in 0..2 {
                if self.chance.one_in(6) {
                    self.mail.push(Message::Decide { seq, approved: self.chance.one_in(2) });
                }
            }
        }
        if self.chance.one_in(50) {
            self.mail.push(Message::Decide { seq: 1, approved: true });
        }
        if self.cancels && self.chance.one_in(150) {
            self.mail.push(Message::Cancel);
        }
    }

    /// The node's loop: decide, fold, append what was decided, perform the effects on the ack.
    fn handle(&mut self, batch: Vec<Message>) {
        let now = self.now();
        let Some(mut node) = self.node.take() else { return };
        if node.script.is_none() {
            let (script, beyond) = self.replay();
            assert!(beyond.calls.is_empty() && beyond.logs.is_empty() && beyond.end.is_none());
            node.script = Some(script);
        }
        let mut turn = ScriptTurn::default();
        for message in &batch {
            let deliveries = node.receive(now, message);
            node.resolve(&deliveries, &mut turn);
        }
        self.in_hand = batch;
        if node.unwritten.iter().any(|recorded| Delivery::of(&recorded.record).is_some()) {
            node.settle(now, turn);
        }
        if node.run.status() == RunStatus::Waiting {
            node.script = None;
        }
        self.node = Some(node);
        self.append();
    }

    /// One message, whole or not at all; effects once it is durable, unless the node dies before.
    fn append(&mut self) {
        let Some(node) = &mut self.node else { return };
        let unwritten = std::mem::take(&mut node.unwritten);
        let effects = std::mem::take(&mut node.effects);
        if unwritten.is_empty() {
            self.in_hand.clear();
            self.perform(effects);
            return;
        }
        if self.crashes_left > 0 && self.chance.one_in(30) {
            return self.crash();
        }
        let entry = Entry::new(unwritten.iter().map(|recorded| recorded.record.clone()).collect());
        let bytes = entry.to_bytes().expect("writable");
        assert_eq!(Entry::from_bytes(&bytes).expect("what was written can be read"), entry);
        self.in_hand.clear();
        self.life.entries.push(bytes);
        self.life.history.extend(unwritten);
        if self.crashes_left > 0 && self.chance.one_in(30) {
            return self.crash();
        }
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Dispatch { seq, attempt } => self.send(seq, attempt),
                Effect::Arm { seq, at } => {
                    self.life.armed.insert(seq);
                    self.timers.push((seq, at));
                }
                Effect::Abandon { seq, .. } => self.timers.retain(|(timer, _)| *timer != seq),
                Effect::Disarm => self.timers.clear(),
            }
        }
    }

    /// What the node does with a call that it has to send.
    fn send(&mut self, seq: Seq, attempt: u32) {
        let Some(pending) = self.node.as_ref().and_then(|node| node.run.outstanding().get(&seq)) else { return };
        let (once, approved) = (is_once(&pending.call), pending.approved);
        let elsewhere = pending.call.is_queued_elsewhere();
        assert!(!once || !self.reached.contains(&seq), "invariant 3: call {seq} is sent once");
        // It may have been parked in the very turn that a timer came in.
        if matches!(pending.phase, Phase::Parked { .. }) {
            return;
        }
        // An attempt that a timer brings about twice is made once.
        let of = |message: &Message| match message {
            Message::NotSent { seq, attempt, .. } => Some((*seq, *attempt)),
            _ => None,
        };
        if self.mail.iter().any(|message| of(message) == Some((seq, attempt))) {
            return;
        }
        let records = self.life.history.len();
        self.life.sent.push(Sent { seq, attempt, at: self.now(), reached: false, records });
        // What a queue has is not looked at again.
        let queued = self.queued.get(&seq) == Some(&attempt);
        if !approved && !queued && self.chance.one_in(8) {
            return self.mail.push(Message::NotSent { seq, attempt, reason: ParkReason::SchemaChanged });
        }
        if elsewhere { self.queue(seq, attempt) } else { self.send_to_server(seq, attempt) }
    }

    fn reach(&mut self, seq: Seq) {
        self.reached.insert(seq);
        if let Some(sent) = self.life.sent.last_mut() {
            sent.reached = true;
        }
    }

    /// A server gets the call. Answers to several attempts differ, so that taking the wrong one shows.
    fn send_to_server(&mut self, seq: Seq, attempt: u32) {
        if self.chance.one_in(12) {
            return self.mail.push(Message::NotSent { seq, attempt, reason: ParkReason::Credentials });
        }
        if self.chance.one_in(5) {
            let sent = self.chance.one_in(2);
            self.mail.push(Message::Interrupted { seq, attempt, sent });
            // The tool may have done its work all the same, and say so later.
            if !sent || self.chance.one_in(2) {
                if sent {
                    self.reach(seq);
                }
                return;
            }
        }
        self.reach(seq);
        let outcome = self.outcome(seq, attempt);
        self.mail.push(Message::Answer { seq, attempt, outcome: outcome.clone() });
        if self.chance.one_in(6) {
            self.mail.push(Message::Answer { seq, attempt, outcome });
        }
    }

    /// The queue of host workers gets the call, or a run is started for it, unless that has happened for this
    /// attempt. A worker answers, now or later.
    fn queue(&mut self, seq: Seq, attempt: u32) {
        self.reach(seq);
        if self.queued.insert(seq, attempt) == Some(attempt) {
            return;
        }
        if self.chance.one_in(6) {
            self.mail.push(Message::Interrupted { seq, attempt, sent: true });
        }
        if self.chance.one_in(2) {
            self.mail.push(Message::Deferred { seq, attempt });
        }
        let outcome = self.outcome(seq, attempt);
        self.mail.push(Message::Answer { seq, attempt, outcome });
    }

    fn outcome(&mut self, seq: Seq, attempt: u32) -> Outcome {
        if self.chance.one_in(6) {
            Outcome::Err(ToolFailure::new(ErrorCode::ToolFailed, format!("refused as {attempt}")))
        } else {
            Outcome::Ok(fixtures::inline(&format!("[{seq},{attempt},{}]", self.chance.below(1_000))))
        }
    }

    fn late_answers_change_nothing(&mut self) {
        let mail = std::mem::take(&mut self.mail);
        let now = self.now();
        let Some(node) = &mut self.node else { return };
        assert!(node.run.outstanding().is_empty() && node.run.pending().is_empty(), "invariant 6");
        for message in mail {
            node.receive(now, &message);
        }
        node.receive(now, &Message::Due { seq: 1 });
        node.receive(now, &Message::Decide { seq: 1, approved: true });
        node.receive(now, &Message::Cancel);
        let turn = ScriptTurn { end: None, ..ScriptTurn::default() };
        assert!(node.run.decide(now, Input::Script(turn, self.past)).is_empty());
        assert!(node.unwritten.is_empty() && node.effects.is_empty(), "an answer after the end changes nothing");
    }
}
