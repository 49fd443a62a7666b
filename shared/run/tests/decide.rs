//! What each input asks for, at the limits and at the wrong time.

#[path = "support/fixtures.rs"]
mod fixtures;

use fixtures::{
    adopted, answer, at, failure, folded, inline, json, new_call, once, policy, running, script, sleep, step, tool,
};
use rewind_model::{ErrorCode, Json, Limits, Outcome, RunError, RunStatus, Seq, Timestamp, ToolFailure};
use rewind_run::{Call, Effect, End, Input, NewCall, Phase, Record, Run, ScriptEnd, ScriptTurn, Terms};

fn interrupt(run: &mut Run, now: Timestamp, attempt: u32) -> Vec<Record> {
    let policy = policy();
    step(run, now, Input::Interrupted { seq: 1, attempt, failure: failure(), sent: true, policy: &policy })
}

fn error_of(records: &[Record]) -> &RunError {
    match records.last() {
        Some(Record::Ended { end: End::Failed { error }, .. }) => error,
        other => panic!("it did not fail: {other:?}"),
    }
}

fn returned(text: &str) -> Option<ScriptEnd> {
    Some(ScriptEnd::Returned(json(text)))
}

#[test]
fn a_call_is_tried_as_often_as_its_policy_says_and_no_more() {
    let mut run = running(Limits::DEFAULT);
    step(&mut run, at(2), Input::Script(script(vec![tool("{}")]), None));
    for (attempt, now, retry) in [(1, 10, 20), (2, 30, 50)] {
        let failed = interrupt(&mut run, at(now), attempt);
        assert!(matches!(failed[..], [Record::AttemptFailed { retry_at, .. }] if retry_at == at(retry)));
        assert_eq!(run.pending(), [Effect::Arm { seq: 1, at: at(retry) }]);
        assert!(interrupt(&mut run, at(now), attempt).is_empty(), "told twice");
        assert!(step(&mut run, at(retry), Input::Due { seq: 1 }).is_empty());
        assert_eq!(run.due(at(retry - 1), 1), Some(Effect::Arm { seq: 1, at: at(retry) }), "invariant 7: never early");
        assert_eq!(run.due(at(retry), 1), Some(Effect::Dispatch { seq: 1, attempt: attempt + 1 }));
    }
    let last = interrupt(&mut run, at(60), 3);
    assert!(
        matches!(&last[..], [Record::Completed { attempt: 3, outcome: Outcome::Err(why), .. }] if *why == failure())
    );
    assert!(run.pending().is_empty());
    assert_eq!(run.due(at(99), 1), None, "its timer may still come");
}

/// A take-over uses up an attempt's number, and none of the attempts that the policy grants.
#[test]
fn a_take_over_sends_again_under_the_next_number() {
    let mut run = running(Limits::DEFAULT);
    step(&mut run, at(2), Input::Script(script(vec![tool("{}"), sleep(500)]), None));
    for epoch in 2..10 {
        let adopt = Input::Adopt { node: fixtures::node(epoch), epoch, lost: false };
        assert_eq!(step(&mut run, at(3), adopt.clone()).len(), 1);
        assert!(step(&mut run, at(3), adopt).is_empty(), "it owns the run already");
        let again = Effect::Dispatch { seq: 1, attempt: epoch as u32 };
        assert_eq!(run.pending(), [again, Effect::Arm { seq: 2, at: at(500) }]);
    }
    assert!(interrupt(&mut run, at(4), 3).is_empty(), "an attempt of an owner before");
    assert!(matches!(interrupt(&mut run, at(4), 9)[..], [Record::AttemptFailed { attempt: 9, .. }]));
    assert_eq!(run.outstanding()[&1].failures, 1);
}

#[test]
fn a_late_or_repeated_answer_changes_nothing() {
    let mut run = running(Limits { calls_in_flight: 1, ..Limits::DEFAULT });
    step(&mut run, at(2), Input::Script(script(vec![tool("1"), tool("2"), sleep(9)]), None));
    assert!(step(&mut run, at(3), answer(2, 1, "0")).is_empty(), "it was not sent yet");
    assert!(step(&mut run, at(3), answer(3, 1, "null")).is_empty(), "a sleep has no answer");
    assert!(step(&mut run, at(3), answer(4, 1, "null")).is_empty(), "there is no such call");
    assert_eq!(step(&mut run, at(3), answer(1, 0, "null")).len(), 1);
    assert!(step(&mut run, at(4), answer(1, 1, "1")).is_empty(), "invariant 2");
    assert!(interrupt(&mut run, at(4), 1).is_empty());
    assert_eq!(run.outstanding()[&2].phase, Phase::Sent { attempt: 1 });
}

#[test]
fn an_answer_ends_a_back_off() {
    let mut run = running(Limits::DEFAULT);
    step(&mut run, at(2), Input::Script(script(vec![tool("{}")]), None));
    interrupt(&mut run, at(3), 1);
    assert!(matches!(step(&mut run, at(4), answer(1, 1, "7"))[..], [Record::Completed { attempt: 1, .. }]));
}

#[test]
fn a_timer_fires_once_and_never_early() {
    let mut run = running(Limits::DEFAULT);
    step(&mut run, at(2), Input::Script(script(vec![sleep(100)]), None));
    assert!(step(&mut run, at(99), Input::Due { seq: 1 }).is_empty(), "invariant 7: never early");
    assert_eq!(run.due(at(99), 1), Some(Effect::Arm { seq: 1, at: at(100) }), "invariant 6: it is armed again");
    // The journal's time may be ahead of this node's clock: it is no reason to fire.
    run.fold(&Record::Logged { at: at(500), level: "log".into(), text: String::new() }).expect("legal");
    assert!(step(&mut run, at(99), Input::Due { seq: 1 }).is_empty());
    assert_eq!(run.due(at(100), 1), None, "deciding it records that it fired");
    assert_eq!(step(&mut run, at(100), Input::Due { seq: 1 }), [Record::Fired { at: at(500), seq: 1 }]);
    assert!(step(&mut run, at(101), Input::Due { seq: 1 }).is_empty(), "invariant 7: once");
}

#[test]
fn recorded_time_never_goes_back() {
    let mut run = running(Limits::DEFAULT);
    step(&mut run, at(50), Input::Script(script(vec![tool("{}")]), None));
    let records = step(&mut run, at(7), answer(1, 1, "null"));
    assert_eq!(records[0].at(), at(50));
    run.fold(&Record::Logged { at: at(1), level: "log".into(), text: String::new() }).expect("legal");
    assert_eq!(run.last_at(), at(50), "whatever another clock wrote");
}

#[test]
fn only_what_can_be_woken_waits() {
    let mut run = running(Limits::DEFAULT);
    assert!(step(&mut run, at(2), Input::Idle).is_empty(), "invariant 6: nothing would wake it");
    step(&mut run, at(2), Input::Script(script(vec![sleep(100)]), None));
    assert_eq!(step(&mut run, at(3), Input::Idle), [Record::Waiting { at: at(3) }]);
    assert_eq!(run.status(), RunStatus::Waiting);
    assert!(step(&mut run, at(3), Input::Idle).is_empty(), "it waits already");
    step(&mut run, at(100), Input::Due { seq: 1 });
    assert_eq!(run.status(), RunStatus::Running);
}

#[test]
fn a_script_that_nothing_can_wake_has_stalled() {
    let mut run = running(Limits::DEFAULT);
    step(&mut run, at(2), Input::Script(script(vec![sleep(100)]), None));
    assert!(step(&mut run, at(3), Input::Script(script(vec![]), None)).is_empty(), "the timer wakes it");
    step(&mut run, at(100), Input::Due { seq: 1 });
    let records = step(&mut run, at(100), Input::Script(script(vec![]), None));
    assert_eq!(error_of(&records).code, "stalled");
}

/// Invariant 11: what is too large fails one call, never the run or the journal.
#[test]
fn arguments_over_the_limit_are_refused_and_kept_as_a_digest() {
    let mut run = running(Limits { argument_bytes: 5, ..Limits::DEFAULT });
    let records = step(&mut run, at(2), Input::Script(script(vec![tool("\"abc\""), tool("\"abcd\"")]), None));
    let [Record::Called { seq: 1, .. }, Record::Refused { seq: 2, failure, arguments, .. }] = &records[..] else {
        panic!("{records:?}")
    };
    assert_eq!((failure.code, *arguments), (ErrorCode::TooLarge, inline("\"abcd\"").digest()));
    assert_eq!(failure.message, "the arguments of github.create_issue are 6 bytes; the limit is 5");
    assert_eq!(run.outstanding().keys().copied().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_verdict_on_arguments_is_recorded_in_place_of_the_call() {
    let mut run = running(Limits::DEFAULT);
    let why = ToolFailure::new(ErrorCode::InvalidArguments, "`n` is missing");
    let refused = NewCall { refused: Some(why.clone()), ..new_call(1, tool("{}")) };
    let turn = ScriptTurn { calls: vec![refused], ..ScriptTurn::default() };
    let records = step(&mut run, at(2), Input::Script(turn, None));
    assert!(matches!(&records[..], [Record::Refused { failure, .. }] if *failure == why));
    assert_eq!(run.status(), RunStatus::Running, "the script is yet to see it");
    assert_eq!(run.made(), 1);
}

#[test]
fn the_limit_of_calls_ends_the_run_by_name() {
    let mut run = running(Limits { calls: 2, ..Limits::DEFAULT });
    let calls = |from: Seq, to| ScriptTurn {
        calls: (from..=to).map(|seq| new_call(seq, tool("{}"))).collect(),
        ..ScriptTurn::default()
    };
    assert_eq!(step(&mut run, at(2), Input::Script(calls(1, 2), None)).len(), 2);
    let records = step(&mut run, at(3), Input::Script(calls(3, 3), None));
    assert_eq!(error_of(&records).code, "limit_calls");
    assert!(error_of(&records).message.contains("more than 2 calls"));
}

#[test]
fn a_result_over_the_limit_ends_the_run_by_name() {
    let limits = Limits { result_bytes: 3, ..Limits::DEFAULT };
    let end = |text: &str| {
        let turn = ScriptTurn { end: returned(text), ..ScriptTurn::default() };
        step(&mut running(limits), at(2), Input::Script(turn, None))
    };
    assert!(matches!(&end("123")[..], [Record::Ended { end: End::Completed { .. }, .. }]));
    let records = end("1234");
    assert_eq!(error_of(&records).code, "limit_result");
    assert_eq!(error_of(&records).message, "the script's result is 4 bytes; the limit is 3");
}

#[test]
fn an_error_of_any_size_fits_a_message() {
    let limits = Limits { log_line_bytes: 10, ..Limits::DEFAULT };
    let long = "é".repeat(100);
    let error =
        RunError { code: "script_error".into(), message: long.clone(), tool: None, key: None, stack: Some(long) };
    let turn = ScriptTurn { end: Some(ScriptEnd::Failed(error.clone())), ..ScriptTurn::default() };
    for input in [Input::Script(turn, None), Input::Broken(error)] {
        let records = step(&mut running(limits), at(2), input);
        assert_eq!(error_of(&records).message, "ééééé…");
        assert_eq!(error_of(&records).stack.as_deref(), Some("ééééé…"));
    }
}

#[test]
fn the_console_is_bounded_in_lines_and_bytes() {
    let mut run = running(Limits { log_lines: 3, log_line_bytes: 4, ..Limits::DEFAULT });
    let lines = |texts: &[&str]| ScriptTurn {
        logs: texts.iter().map(|text| ("log".to_string(), text.to_string())).collect(),
        ..script(vec![])
    };
    run.fold(&Record::Called { at: at(2), seq: 1, call: sleep(9) }).expect("legal");
    let mut texts = Vec::new();
    for turn in [lines(&["abcd", "aéé"]), lines(&["c", "d"]), lines(&["e"])] {
        for record in step(&mut run, at(3), Input::Script(turn, None)) {
            let Record::Logged { text, .. } = record else { panic!("{record:?}") };
            texts.push(text);
        }
    }
    let last = "3 lines are the limit of a run's console; later ones are dropped";
    assert_eq!(texts, ["abcd", "aé…", last]);
}

#[test]
fn calls_of_the_last_turn_are_not_sent_and_said_so_within_the_limit() {
    let limits = Limits { log_lines: 5, calls: 10, ..Limits::DEFAULT };
    let mut run = running(limits);
    let turn = ScriptTurn { end: returned("1"), ..script(vec![tool("{}"), sleep(5), tool("{}")]) };
    let records = step(&mut run, at(2), Input::Script(turn, None));
    let [Record::Logged { text, .. }, Record::Logged { .. }, Record::Ended { .. }] = &records[..] else {
        panic!("{records:?}")
    };
    assert!(text.contains("github.create_issue was called but not awaited"), "{text}");
    let turn = ScriptTurn { end: returned("1"), ..script(vec![tool("{}"); 1_000]) };
    let records = step(&mut running(limits), at(2), Input::Script(turn, None));
    assert_eq!(records.len(), 5 + 1, "a loop can make any number of calls");
}

/// Invariant 6: an ended run holds no timer and no call; nothing changes it any more.
#[test]
fn an_end_abandons_what_is_outstanding() {
    let mut run = running(Limits { calls_in_flight: 1, ..Limits::DEFAULT });
    step(&mut run, at(2), Input::Script(script(vec![tool("1"), tool("2"), sleep(9)]), None));
    let call = run.outstanding()[&1].call.clone();
    let effects = run.fold(&Record::Ended { at: at(3), end: End::Cancelled }).expect("legal");
    assert_eq!(effects, [Effect::Disarm, Effect::Abandon { seq: 1, call }], "a queued call was never sent");
    let policy = policy();
    for input in [
        Input::Adopt { node: fixtures::node(2), epoch: 2, lost: false },
        Input::Script(ScriptTurn { end: Some(ScriptEnd::Returned(Json::null())), ..ScriptTurn::default() }, None),
        answer(1, 1, "null"),
        Input::Interrupted { seq: 1, attempt: 1, failure: failure(), sent: true, policy: &policy },
        Input::Due { seq: 3 },
        Input::Idle,
        Input::Broken(RunError { code: "x".into(), message: "y".into(), tool: None, key: None, stack: None }),
    ] {
        assert!(run.decide(at(99), input.clone()).is_empty(), "{input:?}");
    }
    assert_eq!(run.due(at(99), 3), None);
}

#[test]
fn a_call_in_a_queue_is_the_same_attempt_for_the_next_owner() {
    let tool = |export: &str| Call::Tool {
        tool: rewind_model::ToolName::new(export, "refund"),
        arguments: inline("null"),
        raw: false,
        terms: Terms::default(),
        origin: None,
    };
    let mut run = running(Limits::DEFAULT);
    for (seq, export) in [(1, "host"), (2, "bank")] {
        run.fold(&Record::Called { at: run.last_at(), seq, call: tool(export) }).expect("legal");
    }
    let epoch = run.owner().expect("owned").epoch + 1;
    let taken_over = Record::Adopted { at: run.last_at(), node: rewind_model::NodeId::random(), epoch };
    let effects = run.fold(&taken_over).expect("legal");
    assert_eq!(effects, [Effect::Dispatch { seq: 1, attempt: 1 }, Effect::Dispatch { seq: 2, attempt: 2 }]);
}

/// What a worker or a server says of its failure is theirs; a record must fit a journal message.
#[test]
fn no_failure_is_too_large_for_the_journal() {
    let limits = Limits { log_line_bytes: 100, inline_bytes: 1_000, result_depth: 10, ..Limits::DEFAULT };
    let failing = |details: &str| ToolFailure {
        details: Some(json(details)),
        ..ToolFailure::new(ErrorCode::ToolFailed, "é".repeat(10_000))
    };
    let long = format!("\"{}\"", "x".repeat(2_000));
    let deep = format!("{}{}", "[".repeat(20), "]".repeat(20));
    for (details, kept) in [(long.as_str(), false), (&deep, false), ("{\"code\":\"c\"}", true)] {
        let mut run = running(limits);
        let refused = NewCall { refused: Some(failing(details)), ..new_call(1, tool("{}")) };
        let turn = ScriptTurn { calls: vec![refused, new_call(2, tool("{}"))], ..ScriptTurn::default() };
        let mut records = step(&mut run, at(2), Input::Script(turn, None));
        let policy = policy();
        let failure = failing(details);
        records.extend(step(
            &mut run,
            at(3),
            Input::Interrupted { seq: 2, attempt: 1, failure, sent: true, policy: &policy },
        ));
        let outcome = Outcome::Err(failing(details));
        records.extend(step(&mut run, at(4), Input::Answer { seq: 2, attempt: 1, outcome }));
        let failures: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                Record::Refused { failure, .. }
                | Record::AttemptFailed { failure, .. }
                | Record::Completed { outcome: Outcome::Err(failure), .. } => Some(failure),
                _ => None,
            })
            .collect();
        assert_eq!(failures.len(), 3, "{records:?}");
        for failure in failures {
            assert_eq!(failure.details.is_some(), kept, "{failure:?}");
            assert_eq!(failure.message.contains("details are left out"), !kept, "{failure:?}");
            assert!(failure.message.len() < 400, "{}", failure.message.len());
        }
    }
    let thrown = RunError {
        code: "c".repeat(10_000),
        message: "m".repeat(10_000),
        tool: None,
        key: None,
        stack: Some("s".repeat(10_000)),
    };
    let turn = ScriptTurn { end: Some(ScriptEnd::Failed(thrown)), ..ScriptTurn::default() };
    let records = step(&mut running(limits), at(2), Input::Script(turn, None));
    let error = error_of(&records);
    assert!(error.code.len() + error.message.len() + error.stack.as_ref().map_or(0, String::len) < 400);
}

fn unknown(records: &[Record]) -> Vec<Seq> {
    let of = |record: &Record| match record {
        Record::Completed { seq, outcome: Outcome::Err(why), .. } if why.code == ErrorCode::OutcomeUnknown => {
            Some(*seq)
        }
        _ => None,
    };
    records.iter().filter_map(of).collect()
}

/// The run that a workflow's call is outlives everybody; what became of it can always be asked.
#[test]
fn a_workflow_s_call_is_asked_about_again_and_never_counted_twice() {
    let mut run = running(Limits::DEFAULT);
    step(&mut run, at(2), Input::Script(script(vec![fixtures::named("workflows.refund", "{}")]), None));
    let again = Effect::Dispatch { seq: 1, attempt: 1 };
    assert_eq!(run.due(at(9), 1), Some(again.clone()));
    step(&mut run, at(9), Input::Adopt { node: fixtures::node(2), epoch: 2, lost: true });
    assert_eq!(run.pending(), [again], "the same attempt");
    assert_eq!(step(&mut run, at(10), answer(1, 1, "1")).len(), 1);
    assert!(step(&mut run, at(11), answer(1, 1, "2")).is_empty(), "told twice");
    assert_eq!(run.due(at(12), 1), None);
}

/// Invariant 3.
#[test]
fn what_must_not_be_sent_twice_is_not_sent_again_once_it_may_have_been_sent() {
    let mut run = running(Limits::DEFAULT);
    step(&mut run, at(2), Input::Script(script(vec![once("bank"), once("bank"), once("host")]), None));
    let policy = policy();
    let interrupted =
        |seq, attempt, sent| Input::Interrupted { seq, attempt, failure: failure(), sent, policy: &policy };
    // The connection was refused: nothing was sent.
    assert!(matches!(step(&mut run, at(3), interrupted(1, 1, false))[..], [Record::AttemptFailed { .. }]));
    assert_eq!(run.due(at(13), 1), None, "it does not go out unrecorded");
    assert_eq!(step(&mut run, at(13), Input::Due { seq: 1 }), [Record::Retried { at: at(13), seq: 1, attempt: 2 }]);
    assert_eq!(run.outstanding()[&1].phase, Phase::Sent { attempt: 2 });
    // The answer was lost.
    assert_eq!(unknown(&step(&mut run, at(14), interrupted(1, 2, true))), [1]);
    // The node was lost; the queue of the host tool was not.
    let adopt = |epoch, lost| Input::Adopt { node: fixtures::node(epoch), epoch, lost };
    let records = step(&mut run, at(15), adopt(2, false));
    assert_eq!((records.len(), unknown(&records)), (2, vec![2]));
    assert_eq!(run.outstanding()[&3].phase, Phase::Elsewhere { attempt: 1 });
    assert!(run.pending().is_empty(), "nothing is queued a second time");
    let mut answered = run.clone();
    assert_eq!(step(&mut answered, at(16), answer(3, 1, "1")).len(), 1);
    assert_eq!(unknown(&step(&mut run, at(16), adopt(2, true))), [3], "nothing has it any more");
}

#[test]
fn a_back_off_of_what_must_not_be_sent_twice_survives_a_take_over() {
    let mut run = running(Limits::DEFAULT);
    step(&mut run, at(2), Input::Script(script(vec![once("bank")]), None));
    let policy = policy();
    let not_sent = Input::Interrupted { seq: 1, attempt: 1, failure: failure(), sent: false, policy: &policy };
    step(&mut run, at(3), not_sent);
    let records = step(&mut run, at(20), Input::Adopt { node: fixtures::node(2), epoch: 2, lost: true });
    assert_eq!((records.len(), run.pending()), (1, vec![Effect::Arm { seq: 1, at: at(13) }]));
    assert!(matches!(step(&mut run, at(20), Input::Due { seq: 1 })[..], [Record::Retried { attempt: 2, .. }]));
}

#[test]
fn a_deadline_ends_a_run_and_is_armed_as_long_as_it_may() {
    let spec = rewind_run::Spec { deadline: Some(at(100)), ..fixtures::spec() };
    let created = Record::Created { at: at(0), spec: Box::new(spec) };
    let mut run = folded(Limits::DEFAULT, &[created]);
    let armed = Effect::Arm { seq: Run::DEADLINE, at: at(100) };
    let effects = run.fold(&adopted(1)).expect("legal");
    assert_eq!(effects, std::slice::from_ref(&armed));
    step(&mut run, at(2), Input::Script(script(vec![tool("{}"), sleep(500)]), None));
    assert!(run.pending().contains(&armed), "a later owner arms it again");
    assert!(step(&mut run, at(99), Input::Due { seq: Run::DEADLINE }).is_empty());
    assert_eq!(run.due(at(99), Run::DEADLINE), Some(armed), "invariant 7: never early");
    let records = step(&mut run, at(100), Input::Due { seq: Run::DEADLINE });
    assert_eq!(error_of(&records).code, "deadline");
    assert!(run.pending().is_empty() && run.due(at(200), Run::DEADLINE).is_none(), "invariant 6");
}
