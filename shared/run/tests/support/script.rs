//! A deterministic script: what it does depends on nothing but its program and on what it was
//! given, in the order in which it was given.

use std::{
    collections::{BTreeSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use proptest::prelude::*;
use rewind_model::{ErrorCode, Json, RunError, Seq, Timestamp, ToolFailure};
use rewind_run::{Call, Delivered, Delivery, NewCall, ScriptEnd, ScriptTurn};

use super::fixtures;

#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) stages: Vec<Stage>,
    pub(crate) ending: Ending,
    /// Arguments do not depend on results.
    pub(crate) blind: bool,
    /// This call has other arguments than it would have.
    pub(crate) changed: Option<Seq>,
}

impl Program {
    /// As the calls are numbered when all of them are made: but for those at the end.
    pub(crate) fn calls(&self) -> Seq {
        self.stages.iter().map(|stage| stage.calls.len() as Seq).sum()
    }

    /// With other arguments of one call.
    pub(crate) fn changed_at(&self, seq: Seq) -> Self {
        Self { changed: Some(seq), ..self.clone() }
    }

    /// Without one call, and so with other numbers behind it.
    pub(crate) fn without(&self, seq: Seq) -> Self {
        let mut program = self.clone();
        let mut left = seq as usize - 1;
        for stage in &mut program.stages {
            if left < stage.calls.len() {
                stage.calls.remove(left);
                break;
            }
            left -= stage.calls.len();
        }
        program
    }

    /// Ends after this many stages.
    pub(crate) fn cut(&self, stages: usize) -> Self {
        let mut program = self.clone();
        program.stages.truncate(stages);
        program
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) calls: Vec<Planned>,
    pub(crate) awaits: Awaits,
    pub(crate) log_lines: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Awaits {
    /// `Promise.all`
    All,
    /// `Promise.race`: the others are left behind, and their results come whenever they come.
    First,
    /// `await` after `await`
    InTurn,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Planned {
    /// By its place in [`TOOLS`].
    Tool {
        tool: usize,
        raw: bool,
    },
    /// Arguments that the pinned schema refuses.
    Refused,
    Sleep {
        ms: u16,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    /// After making this many calls that it does not wait for.
    Return {
        unawaited: usize,
    },
    Throw,
    /// Awaits a promise that nothing resolves.
    Stall,
}

/// Their last digits are their terms: see `fixtures::named`.
const TOOLS: [&str; 9] = [
    "server.tool_0",
    "server.tool_1",
    "server.tool_2",
    "server.tool_3",
    "server.tool_4",
    "host.tool_0",
    "host.tool_2",
    "host.tool_4",
    "workflows.child_0",
];

pub(crate) fn programs() -> impl Strategy<Value = Program> {
    let planned = prop_oneof![
        6 => (0..TOOLS.len(), any::<bool>()).prop_map(|(tool, raw)| Planned::Tool { tool, raw }),
        1 => Just(Planned::Refused),
        2 => (0..2_000u16).prop_map(|ms| Planned::Sleep { ms }),
    ];
    let awaits = prop_oneof![Just(Awaits::All), Just(Awaits::First), Just(Awaits::InTurn)];
    let stage = (proptest::collection::vec(planned, 0..=4), awaits, 0..=2usize)
        .prop_map(|(calls, awaits, log_lines)| Stage { calls, awaits, log_lines });
    let ending = prop_oneof![
        4 => (0..=2usize).prop_map(|unawaited| Ending::Return { unawaited }),
        1 => Just(Ending::Throw),
        1 => Just(Ending::Stall),
    ];
    (proptest::collection::vec(stage, 0..=5), ending, any::<bool>()).prop_map(|(stages, ending, blind)| Program {
        stages,
        ending,
        blind,
        changed: None,
    })
}

/// A program in execution.
#[derive(Debug)]
pub(crate) struct Script<'p> {
    program: &'p Program,
    next_stage: usize,
    awaits: Awaits,
    /// Calls of the current stage that are still to be made.
    unmade: VecDeque<Planned>,
    /// Calls of the current stage that it waits for.
    awaited: BTreeSet<Seq>,
    unresolved: BTreeSet<Seq>,
    /// Every call made so far: the seq of each is its place here, from 1.
    made: Vec<Call>,
    now: Timestamp,
    /// Each delivery, in order: arguments of later calls and the result depend on all of them.
    received: Vec<(Seq, u64)>,
    ended: bool,
}

impl<'p> Script<'p> {
    /// `main()` until it can only wait.
    pub(crate) fn load(program: &'p Program, started_at: Timestamp) -> (Self, ScriptTurn) {
        let mut script = Self {
            program,
            next_stage: 0,
            awaits: Awaits::All,
            unmade: VecDeque::new(),
            awaited: BTreeSet::new(),
            unresolved: BTreeSet::new(),
            made: Vec::new(),
            now: started_at,
            received: Vec::new(),
            ended: false,
        };
        let mut turn = ScriptTurn::default();
        script.go_on(&mut turn);
        (script, turn)
    }

    /// Resolves one promise and runs until the script can only wait.
    pub(crate) fn deliver(&mut self, delivery: &Delivery) -> ScriptTurn {
        let mut turn = ScriptTurn::default();
        if self.ended {
            return turn;
        }
        let seq = delivery.seq;
        assert!(self.unresolved.remove(&seq), "invariant 2: call {seq} is resolved once, after it was made");
        assert!(delivery.at >= self.now, "script time went back: {:?} after {:?}", delivery.at, self.now);
        self.now = delivery.at;
        self.received.push((seq, digest_of(&delivery.value)));
        if self.awaited.remove(&seq) {
            if matches!(self.awaits, Awaits::First) {
                self.awaited.clear();
            }
            if self.awaited.is_empty() {
                self.go_on(&mut turn);
            }
        }
        turn
    }

    /// What it got, in order.
    pub(crate) fn received(&self) -> impl Iterator<Item = Seq> + '_ {
        self.received.iter().map(|(seq, _)| *seq)
    }

    pub(crate) fn made(&self) -> &[Call] {
        &self.made
    }

    fn go_on(&mut self, turn: &mut ScriptTurn) {
        while self.awaited.is_empty() {
            if let Some(planned) = self.unmade.pop_front() {
                let seq = self.make(planned, turn);
                self.awaited.insert(seq);
                continue;
            }
            let Some(stage) = self.program.stages.get(self.next_stage) else {
                return self.finish(turn);
            };
            self.next_stage += 1;
            for line in 0..stage.log_lines {
                let text = format!("stage {} line {line} at {}", self.next_stage, self.now);
                turn.logs.push(("log".into(), text));
            }
            self.awaits = stage.awaits;
            if matches!(stage.awaits, Awaits::InTurn) {
                self.unmade = stage.calls.iter().copied().collect();
            } else {
                for planned in &stage.calls {
                    let seq = self.make(*planned, turn);
                    self.awaited.insert(seq);
                }
            }
        }
    }

    fn make(&mut self, planned: Planned, turn: &mut ScriptTurn) -> Seq {
        let seq = self.made.len() as Seq + 1;
        let seen = if self.program.blind { 0 } else { digest(&self.received) };
        let changed = if self.program.changed == Some(seq) { ",\"changed\":true" } else { "" };
        let arguments = format!("{{\"call\":{seq},\"seen\":{seen}{changed}}}");
        let (call, refused) = match planned {
            Planned::Tool { tool, raw } => {
                let call = fixtures::named(TOOLS[tool], &arguments);
                (if raw { with_raw(call) } else { call }, None)
            }
            Planned::Refused => {
                let failure = ToolFailure::new(ErrorCode::InvalidArguments, "`n` is no number");
                (fixtures::named("server.strict", &arguments), Some(failure))
            }
            Planned::Sleep { ms } => {
                let until = self.now.plus(Duration::from_millis(ms.into()));
                (Call::Sleep { until, origin: None }, None)
            }
        };
        self.made.push(call.clone());
        self.unresolved.insert(seq);
        turn.calls.push(NewCall { seq, call, refused });
        seq
    }

    fn finish(&mut self, turn: &mut ScriptTurn) {
        if self.ended {
            return;
        }
        self.ended = true;
        let seen = digest(&self.received);
        match self.program.ending {
            Ending::Return { unawaited } => {
                for _ in 0..unawaited {
                    self.make(Planned::Tool { tool: 0, raw: false }, turn);
                }
                let result = Json::of(&(seen, self.now)).expect("numbers are JSON");
                turn.end = Some(ScriptEnd::Returned(result));
            }
            Ending::Throw => {
                let error = RunError {
                    code: "script_error".into(),
                    message: format!("thrown after {seen}"),
                    tool: None,
                    key: None,
                    stack: Some("at main (script.ts:1:1)".into()),
                };
                turn.end = Some(ScriptEnd::Failed(error));
            }
            Ending::Stall => {
                // It still takes results that it does not wait for.
                self.ended = false;
                self.awaited.insert(Seq::MAX);
            }
        }
    }
}

fn with_raw(call: Call) -> Call {
    match call {
        Call::Tool { tool, arguments, terms, origin, .. } => Call::Tool { tool, arguments, raw: true, terms, origin },
        Call::Sleep { .. } => call,
    }
}

fn digest(received: &[(Seq, u64)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    received.hash(&mut hasher);
    hasher.finish()
}

fn digest_of(value: &Delivered) -> u64 {
    let mut hasher = DefaultHasher::new();
    match value {
        Delivered::Value(payload) => payload.digest().hash(&mut hasher),
        Delivered::Failure(failure) => (failure.code, &failure.message).hash(&mut hasher),
        Delivered::Slept => "slept".hash(&mut hasher),
    }
    hasher.finish()
}
