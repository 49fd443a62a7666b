//! A node that owns one run, and the world around it: tools, timers, crashes, take-overs.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rewind_model::{ErrorCode, Limits, Outcome, RunStatus, Seq, Timestamp, ToolFailure};
use rewind_run::{Delivery, Divergence, Effect, Entry, Input, Pending, Phase, Record, Replay, Run, ScriptTurn};

use super::{
    fixtures,
    script::{Program, Script},
};

/// A simulated life ends long before this many steps unless it is stuck.
const STEPS: usize = 5_000;

/// A record, and what the run that wrote it had outstanding right after it.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) record: Record,
    pub(crate) outstanding: BTreeMap<Seq, Pending>,
    pub(crate) pending: Vec<Effect>,
    pub(crate) status: RunStatus,
}

/// A whole life of a run.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) history: Vec<Recorded>,
    /// The journal's messages.
    pub(crate) entries: Vec<Vec<u8>>,
}

impl Life {
    /// The records as a reader of the journal gets them.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.entries
            .iter()
            .flat_map(|bytes| Entry::from_bytes(bytes).expect("what was written can be read").records)
            .collect()
    }

    /// Numbers of records at which a journal message ends.
    pub(crate) fn boundaries(&self) -> BTreeSet<usize> {
        let lengths = self.entries.iter().map(|bytes| Entry::from_bytes(bytes).expect("readable").records.len());
        lengths
            .scan(0, |sum, length| {
                *sum += length;
                Some(*sum)
            })
            .collect()
    }
}

pub(crate) struct Simulation<'p> {
    program: &'p Program,
    limits: Limits,
    chance: Chance,
    clock: Timestamp,
    /// The owner's clock less the world's, in milliseconds.
    skew: i64,
    epoch: u64,
    crashes_left: u32,
    node: Option<Node<'p>>,
    life: Life,
    mail: Vec<Message>,
    timers: Vec<(Seq, Timestamp)>,
    /// Calls that some attempt of has reached its tool.
    reached: BTreeSet<Seq>,
}

/// The owner of the run. A crash loses it.
struct Node<'p> {
    run: Run,
    /// Absent while the run waits outside of memory.
    script: Option<Script<'p>>,
    unwritten: Vec<Recorded>,
    effects: Vec<Effect>,
}

/// On its way to the node.
#[derive(Debug, Clone)]
enum Message {
    Answer { seq: Seq, attempt: u32, outcome: Outcome },
    Interrupted { seq: Seq, attempt: u32, sent: bool },
    Due { seq: Seq },
    Changed { seq: Seq, attempt: u32 },
    Decide { seq: Seq, approved: bool },
    Cancel,
    Idle,
}

impl<'p> Simulation<'p> {
    pub(crate) fn new(program: &'p Program, limits: Limits, seed: u64) -> Self {
        Self::resume(program, limits, seed, &[fixtures::created()])
    }

    /// A world in which nobody owns the run that these records made, and nothing is on its way.
    pub(crate) fn resume(program: &'p Program, limits: Limits, seed: u64, records: &[Record]) -> Self {
        let mut run = Run::new(fixtures::run_id(), limits);
        let history: Vec<Recorded> = records.iter().map(|record| fold(&mut run, record.clone()).0).collect();
        let entries = vec![Entry::new(records.to_vec()).to_bytes().expect("writable")];
        Self {
            program,
            limits,
            chance: Chance(seed),
            clock: run.last_at().plus(Duration::from_millis(1)),
            skew: 0,
            epoch: run.owner().map_or(0, |owner| owner.epoch),
            crashes_left: 3,
            node: None,
            life: Life { history, entries },
            mail: Vec::new(),
            timers: Vec::new(),
            reached: BTreeSet::new(),
        }
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
        // An answer may still come, to the next owner: a late one, then. Timers are durable.
        let mut mail = std::mem::take(&mut self.mail);
        mail.retain(|_| self.chance.one_in(2));
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
        let started_at = node.run.started_at().expect("it was adopted just now");
        // What the take-over itself ends is news to the script.
        let mut records = self.life.records();
        records.extend(node.unwritten.iter().map(|recorded| recorded.record.clone()));
        let (script, beyond) = replay(self.program, started_at, &records).expect("the script is deterministic");
        node.script = Some(script);
        node.take_turn(self.now(), beyond);
        self.node = Some(node);
        self.append();
    }

    /// A node that has read the journal.
    fn reader(&self) -> Node<'p> {
        let run = fixtures::folded(self.limits, &self.life.records());
        Node { run, script: None, unwritten: Vec::new(), effects: Vec::new() }
    }

    fn replay(&self, started_at: Timestamp) -> (Script<'p>, ScriptTurn) {
        replay(self.program, started_at, &self.life.records()).expect("the script is deterministic")
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
        if self.mail.is_empty() {
            let next = self.timers.iter().map(|(_, at)| *at).min();
            let next = next.expect("invariant 6: a run that waits has something that wakes it");
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
        if self.chance.one_in(150) {
            self.mail.push(Message::Cancel);
        }
    }

    /// The node's loop: decide, fold, append what was decided, perform the effects on the ack.
    fn handle(&mut self, batch: Vec<Message>) {
        let now = self.now();
        let Some(mut node) = self.node.take() else { return };
        if node.script.is_none() {
            let started_at = node.run.started_at().expect("it ran before");
            let (script, beyond) = self.replay(started_at);
            assert!(beyond.calls.is_empty() && beyond.logs.is_empty() && beyond.end.is_none());
            node.script = Some(script);
        }
        let mut turn = ScriptTurn::default();
        for message in batch {
            let deliveries = node.receive(now, &message);
            node.resolve(&deliveries, &mut turn);
        }
        if node.unwritten.iter().any(|recorded| Delivery::of(&recorded.record).is_some()) {
            node.take_turn(now, turn);
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
            self.perform(effects);
            return;
        }
        if self.crashes_left > 0 && self.chance.one_in(30) {
            return self.crash();
        }
        let entry = Entry::new(unwritten.iter().map(|recorded| recorded.record.clone()).collect());
        let bytes = entry.to_bytes().expect("writable");
        assert_eq!(Entry::from_bytes(&bytes).expect("what was written can be read"), entry);
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
                Effect::Arm { seq, at } => self.timers.push((seq, at)),
                Effect::Abandon { seq, .. } => self.timers.retain(|(timer, _)| *timer != seq),
            }
        }
    }

    /// A tool gets the call. Answers to several attempts differ, so that taking the wrong one shows.
    fn send(&mut self, seq: Seq, attempt: u32) {
        let once =
            self.node.as_ref().and_then(|node| node.run.outstanding().get(&seq)?.call.terms().at_most_once.into());
        assert!(once != Some(true) || !self.reached.contains(&seq), "invariant 3: call {seq} is sent once");
        let approved = self.node.as_ref().and_then(|node| Some(node.run.outstanding().get(&seq)?.approved));
        if approved == Some(false) && self.chance.one_in(8) {
            self.mail.push(Message::Changed { seq, attempt });
            return;
        }
        if self.chance.one_in(5) {
            let sent = self.chance.one_in(2);
            self.mail.push(Message::Interrupted { seq, attempt, sent });
            // The tool may have done its work all the same, and say so later.
            if !sent || self.chance.one_in(2) {
                if sent {
                    self.reached.insert(seq);
                }
                return;
            }
        }
        self.reached.insert(seq);
        let outcome = if self.chance.one_in(6) {
            Outcome::Err(ToolFailure::new(ErrorCode::ToolFailed, format!("refused as {attempt}")))
        } else {
            Outcome::Ok(fixtures::inline(&format!("[{seq},{attempt},{}]", self.chance.below(1_000))))
        };
        self.mail.push(Message::Answer { seq, attempt, outcome: outcome.clone() });
        if self.chance.one_in(6) {
            self.mail.push(Message::Answer { seq, attempt, outcome });
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
        assert!(node.run.decide(now, Input::Script(turn)).is_empty());
        assert!(node.unwritten.is_empty() && node.effects.is_empty(), "an answer after the end changes nothing");
    }
}

impl Node<'_> {
    /// Decides and folds; gives what the script has to be told.
    fn decide(&mut self, now: Timestamp, input: Input<'_>) -> Vec<Delivery> {
        let records = self.run.decide(now, input);
        let deliveries = records.iter().filter_map(Delivery::of).collect();
        for record in records {
            let (recorded, effects) = fold(&mut self.run, record);
            self.unwritten.push(recorded);
            self.effects.extend(effects);
        }
        deliveries
    }

    fn receive(&mut self, now: Timestamp, message: &Message) -> Vec<Delivery> {
        let policy = fixtures::policy();
        let input = match message {
            Message::Answer { seq, attempt, outcome } => {
                Input::Answer { seq: *seq, attempt: *attempt, outcome: outcome.clone() }
            }
            Message::Interrupted { seq, attempt, sent } => {
                let failure = fixtures::failure();
                Input::Interrupted { seq: *seq, attempt: *attempt, failure, sent: *sent, policy: &policy }
            }
            Message::Changed { seq, attempt } => {
                Input::Changed { seq: *seq, attempt: *attempt, detail: "it is gone".into() }
            }
            Message::Decide { seq, approved } => {
                Input::Decide { seq: *seq, verdict: fixtures::verdict("d", *approved) }
            }
            Message::Cancel => Input::Cancel,
            Message::Due { seq } => {
                let deliveries = self.decide(now, Input::Due { seq: *seq });
                self.effects.extend(self.run.due(now, *seq));
                return deliveries;
            }
            Message::Idle => Input::Idle,
        };
        self.decide(now, input)
    }

    fn resolve(&mut self, deliveries: &[Delivery], turn: &mut ScriptTurn) {
        let Some(script) = &mut self.script else { return };
        for delivery in deliveries {
            let more = script.deliver(delivery);
            turn.calls.extend(more.calls);
            turn.logs.extend(more.logs);
            turn.end = turn.end.take().or(more.end);
        }
    }

    /// Records a turn, and those that refused calls bring about at once.
    fn take_turn(&mut self, now: Timestamp, mut turn: ScriptTurn) {
        loop {
            let refused = self.decide(now, Input::Script(turn));
            if refused.is_empty() {
                return;
            }
            turn = ScriptTurn::default();
            self.resolve(&refused, &mut turn);
        }
    }
}

fn fold(run: &mut Run, record: Record) -> (Recorded, Vec<Effect>) {
    let before = run.pending();
    let effects = run.fold(&record).expect("what was decided is legal");
    if let Record::Ended { .. } = record {
        let abandoned: Vec<Seq> = effects
            .iter()
            .map(|effect| match effect {
                Effect::Abandon { seq, .. } => *seq,
                Effect::Dispatch { .. } | Effect::Arm { .. } => panic!("an end sends nothing: {effect:?}"),
            })
            .collect();
        assert_eq!(abandoned, before.iter().map(seq_of).collect::<Vec<_>>(), "invariant 6: an ended run holds nothing");
    }
    if let Record::Waiting { .. } = record {
        let parked = run.outstanding().values().any(|pending| matches!(pending.phase, Phase::Parked { .. }));
        assert!(!before.is_empty() || parked, "invariant 6: every waiting run has a wake source");
    }
    let recorded =
        Recorded { record, outstanding: run.outstanding().clone(), pending: run.pending(), status: run.status() };
    (recorded, effects)
}

fn seq_of(effect: &Effect) -> Seq {
    match effect {
        Effect::Dispatch { seq, .. } | Effect::Arm { seq, .. } | Effect::Abandon { seq, .. } => *seq,
    }
}

/// Runs the script from its start on the recorded results: the script as it stands at the end of
/// `records`, and what it did beyond them.
pub(crate) fn replay<'p>(
    program: &'p Program,
    started_at: Timestamp,
    records: &[Record],
) -> Result<(Script<'p>, ScriptTurn), Divergence> {
    let mut replay = Replay::default();
    let (mut script, turn) = Script::load(program, started_at);
    replay.turn(turn)?;
    for record in records {
        replay.record(record)?;
        if let Some(delivery) = Delivery::of(record) {
            replay.turn(script.deliver(&delivery))?;
        }
    }
    Ok((script, replay.finish()?))
}

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
