//! The owner of a run: what it does with what comes to it.

use rewind_model::{Outcome, Seq, Timestamp};
use rewind_run::{Call, Delivery, Divergence, Effect, History, Input, ParkReason, Record, Replay, Run, ScriptTurn};

use super::{
    fixtures,
    life::Recorded,
    script::{Program, Script},
};

/// A crash loses it.
pub(crate) struct Node<'p> {
    pub(crate) run: Run,
    /// What the run takes outcomes over from.
    pub(crate) past: Option<&'p History>,
    /// Absent while the run waits outside of memory.
    pub(crate) script: Option<Script<'p>>,
    pub(crate) unwritten: Vec<Recorded>,
    pub(crate) effects: Vec<Effect>,
}

/// On its way to the node.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    Answer { seq: Seq, attempt: u32, outcome: Outcome },
    Interrupted { seq: Seq, attempt: u32, sent: bool },
    Due { seq: Seq },
    NotSent { seq: Seq, attempt: u32, reason: ParkReason },
    Deferred { seq: Seq, attempt: u32 },
    Decide { seq: Seq, approved: bool },
    Cancel,
    Idle,
}

impl Message {
    /// The call that a tool, or what is between it and the node, tells of.
    pub(crate) fn of_call(&self) -> Option<Seq> {
        match self {
            Message::Answer { seq, .. }
            | Message::Interrupted { seq, .. }
            | Message::NotSent { seq, .. }
            | Message::Deferred { seq, .. } => Some(*seq),
            Message::Due { .. } | Message::Decide { .. } | Message::Cancel | Message::Idle => None,
        }
    }
}

impl Node<'_> {
    /// Decides and folds; gives what the script has to be told.
    pub(crate) fn decide(&mut self, now: Timestamp, input: Input<'_>) -> Vec<Delivery> {
        let records = self.run.decide(now, input);
        let deliveries = records.iter().filter_map(Delivery::of).collect();
        for record in records {
            let recorded = fold(&mut self.run, record);
            self.effects.extend(recorded.effects.iter().cloned());
            self.unwritten.push(recorded);
        }
        deliveries
    }

    pub(crate) fn receive(&mut self, now: Timestamp, message: &Message) -> Vec<Delivery> {
        let policy = fixtures::policy();
        let input = match message {
            Message::Answer { seq, attempt, outcome } => {
                Input::Answer { seq: *seq, attempt: *attempt, outcome: outcome.clone() }
            }
            Message::Interrupted { seq, attempt, sent } => {
                let failure = fixtures::failure();
                Input::Interrupted { seq: *seq, attempt: *attempt, failure, sent: *sent, policy: &policy }
            }
            Message::NotSent { seq, attempt, reason } => {
                let detail = format!("not sent for {}", reason.as_str());
                Input::Park { seq: *seq, attempt: *attempt, reason: *reason, detail }
            }
            Message::Deferred { seq, attempt } => Input::Deferred { seq: *seq, attempt: *attempt },
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

    pub(crate) fn resolve(&mut self, deliveries: &[Delivery], turn: &mut ScriptTurn) {
        let Some(script) = &mut self.script else { return };
        for delivery in deliveries {
            let more = script.deliver(delivery);
            turn.calls.extend(more.calls);
            turn.logs.extend(more.logs);
            turn.end = turn.end.take().or(more.end);
        }
    }

    /// Records a turn, and those that refused calls and outcomes of the past bring about at once.
    pub(crate) fn settle(&mut self, now: Timestamp, mut turn: ScriptTurn) {
        loop {
            let mut news = self.decide(now, Input::Script(turn, self.past));
            if let (true, Some(past)) = (news.is_empty(), self.past) {
                news = self.decide(now, Input::Take(past));
            }
            if news.is_empty() {
                return;
            }
            turn = ScriptTurn::default();
            self.resolve(&news, &mut turn);
        }
    }
}

pub(crate) fn fold(run: &mut Run, record: Record) -> Recorded {
    let effects = run.fold(&record).expect("what was decided is legal");
    let (outstanding, pending, status) = (run.outstanding().clone(), run.pending(), run.status());
    Recorded { record, outstanding, pending, effects, status }
}

/// What the script's clock shows at its beginning.
pub(crate) fn started_at(records: &[Record]) -> Timestamp {
    let Some(Record::Created { at, spec }) = records.first() else { panic!("a run that was not created") };
    spec.past.as_ref().map_or(*at, |past| past.clock.started)
}

/// Runs the script from its start on the recorded results: the script as it stands at the end of
/// `records`, and what it did beyond them.
pub(crate) fn replay<'p>(program: &'p Program, records: &[Record]) -> Result<(Script<'p>, ScriptTurn), Divergence> {
    let mut replay = Replay::default();
    let (mut script, turn) = Script::load(program, started_at(records));
    replay.turn(turn)?;
    for record in records {
        replay.record(record)?;
        if let Some(delivery) = Delivery::of(record) {
            replay.turn(script.deliver(&delivery))?;
        }
    }
    Ok((script, replay.finish()?))
}

/// Of a call that is to be sent.
pub(crate) fn is_once(call: &Call) -> bool {
    call.terms().at_most_once
}
