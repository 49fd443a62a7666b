//! A run that sends nothing, and ends with the calls that it would have made.

mod support;

use proptest::prelude::*;
use rewind_model::{ErrorCode, Limits, Outcome, Payload};
use rewind_run::{
    Delivery, End, History, Input, Made, PastCall, PastOutcome, Record, Run, ScriptEnd, ScriptTurn, Spec, Taken,
};
use serde_json::{Value, json};
use support::{
    fixtures::{self, adopted, at, inline, named, script, sleep, step},
    node::started_at,
    oracle,
    script::programs,
    simulation::Simulation,
};

fn spec() -> Spec {
    Spec { past: Some(fixtures::past(at(0), None)), plan: true, ..fixtures::spec() }
}

fn plan() -> Run {
    fixtures::folded(Limits::DEFAULT, &[fixtures::created_of(spec()), adopted(1)])
}

fn planned(records: &[Record]) -> Value {
    match records.last() {
        Some(Record::Ended { end: End::Completed { result: Payload::Inline(result) }, .. }) => {
            result.to().expect("JSON")
        }
        other => panic!("it did not end with a plan: {other:?}"),
    }
}

fn returned(text: &str) -> Option<ScriptEnd> {
    Some(ScriptEnd::Returned(fixtures::json(text)))
}

#[test]
fn it_ends_with_the_calls_that_the_script_waits_for() {
    let (mut run, history) = (plan(), History::new());
    let calls = vec![named("a.x", "{\"n\":1}"), sleep(60_000), named("pay.tool_3", "[2]")];
    let records = step(&mut run, at(2), Input::Script(script(calls), Some(&history)));
    assert_eq!(records.len(), 3);
    assert!(run.pending().is_empty(), "nothing is sent, armed or parked");
    // A plan does not wait for its sleeps.
    let slept = step(&mut run, at(2), Input::Take(&history));
    assert_eq!(slept.iter().filter_map(Delivery::of).map(|d| (d.seq, d.at)).collect::<Vec<_>>(), [(2, at(60_000))]);
    assert_eq!(run.script_time(), at(60_000));
    let records = step(&mut run, at(2), Input::Take(&history));
    assert_eq!(
        planned(&records),
        json!({"calls": [
            {"seq": 1, "tool": "a.x", "arguments": {"n": 1}, "approval": false},
            {"seq": 3, "tool": "pay.tool_3", "arguments": [2], "approval": true},
        ]})
    );
    assert_eq!(records[0].at(), at(2), "the run's own time");
}

#[test]
fn a_script_that_needs_no_result_returns() {
    let (mut run, history) = (plan(), History::new());
    step(&mut run, at(2), Input::Script(script(vec![named("a.x", "1"), sleep(5)]), Some(&history)));
    step(&mut run, at(2), Input::Take(&history));
    let turn = ScriptTurn { end: returned("{\"ok\":true}"), ..ScriptTurn::default() };
    let records = step(&mut run, at(3), Input::Script(turn, Some(&history)));
    let call = json!({"seq": 1, "tool": "a.x", "arguments": 1, "approval": false});
    assert_eq!(planned(&records), json!({"calls": [call], "returned": {"ok": true}}));
    let turn = ScriptTurn { end: returned("null"), ..ScriptTurn::default() };
    let records = step(&mut plan(), at(3), Input::Script(turn, Some(&history)));
    assert_eq!(planned(&records), json!({"calls": [], "returned": null}), "`null` is a value");
}

#[test]
fn a_script_that_throws_has_failed() {
    let error = rewind_model::RunError {
        code: "script_error".into(),
        message: "no".into(),
        tool: None,
        key: None,
        stack: None,
    };
    let turn = ScriptTurn { end: Some(ScriptEnd::Failed(error)), ..ScriptTurn::default() };
    let records = step(&mut plan(), at(3), Input::Script(turn, Some(&History::new())));
    assert!(matches!(&records[..], [Record::Ended { end: End::Failed { .. }, .. }]));
}

/// It goes as far as the results at hand let it.
#[test]
fn results_that_are_at_hand_are_used() {
    let call = named("a.x", "1");
    let outcome = PastOutcome { order: 0, made: None, at: at(5), taken: Taken::Outcome(Outcome::Ok(inline("10"))) };
    let mut history = History::new();
    history.calls.insert(7, PastCall { made: Made::Call(call.clone()), outcome: Some(outcome) });
    let mut run = plan();
    step(&mut run, at(2), Input::Script(script(vec![call.clone(), call]), Some(&history)));
    let taken = step(&mut run, at(2), Input::Take(&history));
    assert!(matches!(&taken[..], [Record::Taken { seq: 1, .. }]));
    let records = step(&mut run, at(2), Input::Take(&history));
    assert_eq!(planned(&records)["calls"], json!([{"seq": 2, "tool": "a.x", "arguments": 1, "approval": false}]));
}

#[test]
fn a_blob_s_arguments_are_left_out_and_a_refused_call_is_no_part_of_a_plan() {
    let (mut run, history) = (plan(), History::new());
    let rewind_run::Call::Tool { tool, arguments, raw, terms, origin } = named("a.x", "[1,2,3]") else { panic!() };
    let blob = Payload::Blob { digest: arguments.digest(), size: arguments.size() };
    let refused = rewind_run::NewCall {
        refused: Some(rewind_model::ToolFailure::new(ErrorCode::InvalidArguments, "no")),
        ..fixtures::new_call(2, named("a.y", "1"))
    };
    let kept = rewind_run::Call::Tool { tool, arguments: blob, raw, terms, origin };
    assert!(step(&mut run, at(2), Input::Take(&history)).is_empty(), "a script that is yet to run waits for nothing");
    let turn = ScriptTurn { calls: vec![fixtures::new_call(1, kept), refused], ..ScriptTurn::default() };
    step(&mut run, at(2), Input::Script(turn, Some(&history)));
    let records = step(&mut run, at(2), Input::Take(&history));
    assert_eq!(planned(&records), json!({"calls": [{"seq": 1, "tool": "a.x", "approval": false}]}));
}

#[test]
fn a_plan_is_of_bounded_length() {
    let (mut run, history) = (plan(), History::new());
    let calls = vec![named("a.x", "1"); 1_500];
    step(&mut run, at(2), Input::Script(script(calls), Some(&history)));
    let records = step(&mut run, at(2), Input::Take(&history));
    assert_eq!(planned(&records)["calls"].as_array().map(Vec::len), Some(1_000));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_touches_nothing_and_ends(program in programs(), seed in any::<u64>(), in_flight in 1..=4usize) {
        let limits = Limits { calls_in_flight: in_flight, ..Limits::DEFAULT };
        let history = History::new();
        let simulation = Simulation::of_spec(&program, spec(), at(7), limits, seed).with_past(&history);
        let life = simulation.without_cancels().run_to_end();
        let records = life.records();
        oracle::check_history(&records);
        prop_assert!(life.sent.is_empty() && life.armed.is_empty(), "it touches nothing");
        prop_assert_eq!(started_at(&records), at(0));
        let outcome = |record: &&Record| matches!(record, Record::Completed { .. } | Record::Fired { .. });
        prop_assert!(!records.iter().any(|record| outcome(&record)), "only sleeps and refusals end");
        match records.last() {
            Some(Record::Ended { end: End::Completed { .. }, .. }) => {
                let plan = planned(&records);
                let before = &life.history[life.history.len() - 2].outstanding;
                let calls = before.iter().filter(|(_, pending)| matches!(pending.call, rewind_run::Call::Tool { .. }));
                let calls: Vec<u64> = calls.map(|(seq, _)| u64::from(*seq)).collect();
                let named = plan["calls"].as_array().expect("a list").iter();
                prop_assert!(named.map(|call| call["seq"].as_u64().expect("a number")).eq(calls));
            }
            Some(Record::Ended { end: End::Failed { error }, .. }) => {
                prop_assert!(["stalled", "script_error"].contains(&error.code.as_str()), "{error:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}
