//! Values that stand in for what a coordinator would give.
#![allow(dead_code, reason = "each test binary uses some of them")]

use rewind_model::{
    Digest, ErrorCode, Json, Limits, NodeId, Outcome, Payload, Policy, Retry, RunId, Seq, Timestamp, ToolFailure,
    ToolName, ToolsetId, TraceContext,
};
use rewind_run::{Call, Clock, Effect, Input, NewCall, Past, Record, Run, ScriptTurn, Spec, Terms, Verdict};
use std::{collections::BTreeMap, time::Duration};

pub(crate) fn run_id() -> RunId {
    RunId::of_bytes(b"a run")
}

pub(crate) fn node(number: u64) -> NodeId {
    NodeId::of_bytes(&number.to_le_bytes())
}

pub(crate) fn at(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_800_000_000_000 + ms)
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).expect("a test's JSON is JSON")
}

pub(crate) fn inline(text: &str) -> Payload {
    Payload::Inline(json(text))
}

pub(crate) fn tool(arguments: &str) -> Call {
    named("github.create_issue", arguments)
}

pub(crate) fn named(tool: &str, arguments: &str) -> Call {
    let tool: ToolName = tool.parse().expect("a test's tool name is one");
    let terms = terms(&tool);
    Call::Tool { tool, arguments: inline(arguments), raw: false, terms, origin: None }
}

/// Tools that end with 2 or 4 are called at most once, those with 3 or 4 when somebody has approved; those with
/// 1 or 4 are parked for [`PARK_MS`] at most.
fn terms(tool: &ToolName) -> Terms {
    Terms {
        at_most_once: tool.name.ends_with(['2', '4']),
        approval: tool.name.ends_with(['3', '4']),
        park_ms: tool.name.ends_with(['1', '4']).then_some(PARK_MS),
    }
}

pub(crate) const PARK_MS: u64 = 60;

pub(crate) fn verdict(decision: &str, approved: bool) -> Verdict {
    Verdict { decision: decision.into(), by: Some("ada".into()), approved, message: None }
}

pub(crate) fn sleep(ms: i64) -> Call {
    Call::Sleep { until: at(ms), origin: None }
}

pub(crate) fn new_call(seq: Seq, call: Call) -> NewCall {
    NewCall { seq, call, refused: None }
}

pub(crate) fn failure() -> ToolFailure {
    ToolFailure::new(ErrorCode::Unavailable, "connection reset")
}

/// Three attempts, 10 ms and 20 ms between them.
pub(crate) fn policy() -> Policy {
    let retry = Retry {
        max_attempts: 3,
        initial_interval: Duration::from_millis(10),
        max_interval: Duration::from_secs(1),
        backoff: 2.0,
    };
    Policy { retry, ..Policy::default() }
}

pub(crate) fn spec() -> Spec {
    Spec {
        toolset: ToolsetId::of_bytes(b"a toolset"),
        script: Digest::of("a script"),
        input: inline("{\"n\":1}"),
        namespace: None,
        labels: BTreeMap::new(),
        request: Digest::of("a request"),
        trace: TraceContext::of_run(&run_id()),
        calls_in_flight: 100,
        parent: None,
        deadline: None,
        webhook: None,
        past: None,
        plan: false,
    }
}

pub(crate) fn created() -> Record {
    created_of(spec())
}

pub(crate) fn created_of(spec: Spec) -> Record {
    Record::Created { at: at(0), spec: Box::new(spec) }
}

/// Of a fork or, if it is one of no run, of a run on a cassette or a plan.
pub(crate) fn past(started: Timestamp, forked_from: Option<RunId>) -> Past {
    let clock = Clock { seed: run_id(), started };
    Past { history: Digest::of("a history"), clock, forked_from }
}

pub(crate) fn adopted(epoch: u64) -> Record {
    Record::Adopted { at: at(1), node: node(epoch), epoch }
}

/// The run that these records make.
pub(crate) fn folded(limits: Limits, records: &[Record]) -> Run {
    let mut run = Run::new(run_id(), limits);
    for record in records {
        run.fold(record).expect("a test's records are legal");
    }
    run
}

/// A run that a node owns, and that has made no call.
pub(crate) fn running(limits: Limits) -> Run {
    folded(limits, &[created(), adopted(1)])
}

/// The first calls of a script.
pub(crate) fn script(calls: Vec<Call>) -> ScriptTurn {
    let calls = (1..).zip(calls).map(|(seq, call)| new_call(seq, call)).collect();
    ScriptTurn { calls, ..ScriptTurn::default() }
}

/// Decides and folds, as a node does; gives what was recorded.
pub(crate) fn step(run: &mut Run, now: Timestamp, input: Input<'_>) -> Vec<Record> {
    let records = run.decide(now, input);
    for record in &records {
        run.fold(record).expect("what was decided is legal");
    }
    records
}

/// As [`step`]; gives what that calls for.
pub(crate) fn effects(run: &mut Run, now: Timestamp, input: Input<'_>) -> Vec<Effect> {
    let records = run.decide(now, input);
    records.iter().flat_map(|record| run.fold(record).expect("what was decided is legal")).collect()
}

pub(crate) fn answer(seq: Seq, attempt: u32, text: &str) -> Input<'static> {
    Input::Answer { seq, attempt, outcome: Outcome::Ok(inline(text)) }
}

/// A call that must not be made twice.
pub(crate) fn once(export: &str) -> Call {
    let terms = Terms { at_most_once: true, ..Terms::default() };
    Call::Tool { tool: ToolName::new(export, "pay"), arguments: inline("null"), raw: false, terms, origin: None }
}
