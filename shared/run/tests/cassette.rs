//! A run on what another one got: it touches nothing, and gets the same.

mod support;

use proptest::prelude::*;
use rewind_model::{ErrorCode, Json, Limits, Outcome, Payload, RunId, Timestamp, ToolFailure, ToolsetId};
use rewind_run::{
    Call, Cassette, CassetteError, Clock, Delivered, Effect, History, Input, Made, NewCall, Origin, PastCall,
    PastOutcome, Record, Run, Spec, Taken, Terms,
};
use support::{
    fixtures::{self, adopted, at, inline, json, named, new_call, script, sleep, step},
    life::deliveries,
    node::started_at,
    oracle,
    past::{history_of, made, on_cassette, origin},
    script::programs,
    simulation::Simulation,
};

fn cassette_of(history: History) -> Cassette {
    let clock = Clock { seed: fixtures::run_id(), started: at(0) };
    Cassette::new(fixtures::run_id(), ToolsetId::of_bytes(b"a toolset"), clock, json("{\"n\":1}"), history)
        .expect("payloads are inline")
}

/// What of a history a cassette is about: not how calls would be sent.
fn essence(mut history: History) -> History {
    for past in history.calls.values_mut() {
        match &mut past.made {
            Made::Call(Call::Tool { terms, origin, .. }) => (*terms, *origin) = (Terms::default(), None),
            Made::Call(Call::Sleep { origin, .. }) => *origin = None,
            Made::Refused { .. } => {}
        }
    }
    history
}

fn read(text: &str) -> Result<Cassette, serde_json::Error> {
    serde_json::from_str(text)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_history_is_the_same_after_it_was_written_and_read(program in programs(), seed in any::<u64>()) {
        let life = Simulation::new(&program, Limits::DEFAULT, seed).run_to_end();
        for records in [&life.records()[..], &life.records()[..life.records().len() / 2 + 1]] {
            let history = history_of(records);
            let bytes = history.to_bytes().expect("writable");
            prop_assert_eq!(History::from_bytes(&bytes).expect("readable"), history.clone());
            let cassette = cassette_of(history.clone());
            let text = serde_json::to_string(&cassette).expect("writable");
            let again = read(&text).expect("readable");
            prop_assert_eq!(&again, &cassette);
            prop_assert_eq!(again.history().expect("well-formed"), essence(history));
        }
    }

    #[test]
    fn a_run_on_a_cassette_gets_what_its_source_got_and_touches_nothing(
        program in programs(),
        seed in any::<u64>(),
        in_flight in 1..=4usize,
    ) {
        let limits = Limits { calls_in_flight: in_flight, ..Limits::DEFAULT };
        let source = Simulation::new(&program, limits, seed).without_cancels().run_to_end();
        let records = source.records();
        let text = serde_json::to_string(&cassette_of(history_of(&records))).expect("writable");
        let history = read(&text).expect("readable").history().expect("well-formed");
        let life = on_cassette(&program, limits, seed, started_at(&records), &history).without_cancels().run_to_end();
        let replayed = life.records();
        oracle::check_history(&replayed);
        prop_assert!(life.sent.is_empty() && life.armed.is_empty(), "it touches nothing");
        let sent = |made: &Made| matches!(made, Made::Call(_)) && origin(made).is_none();
        prop_assert!(!made(&replayed).values().any(sent));
        let (got, replayed_got) = (deliveries(&records), deliveries(&replayed));
        prop_assert_eq!(replayed_got.get(..got.len()), Some(&got[..]));
        prop_assert!(replayed_got[got.len()..].iter().all(nobody_knows), "{:?}", replayed_got);
        prop_assert_eq!(oracle::calls(&replayed), oracle::calls(&records));
        let end = |records: &[Record]| match records.last() {
            Some(Record::Ended { end, .. }) => end.clone(),
            other => panic!("{other:?}"),
        };
        prop_assert_eq!(end(&replayed), end(&records));
    }
}

/// Of what must not be made twice and was with its tool to the end.
fn nobody_knows((.., value): &(u32, Timestamp, Delivered)) -> bool {
    matches!(value, Delivered::Failure(failure) if failure.code == ErrorCode::OutcomeUnknown)
}

/// On a cassette that holds these calls, and with what each got.
fn run() -> Run {
    let spec = Spec { past: Some(fixtures::past(at(-500), None)), ..fixtures::spec() };
    fixtures::folded(Limits::DEFAULT, &[fixtures::created_of(spec), adopted(1)])
}

fn recorded(calls: &[(Call, Option<(u32, &str)>)]) -> History {
    let mut history = History::new();
    for (seq, (call, outcome)) in (1..).zip(calls) {
        let outcome = outcome.map(|(order, text)| {
            let taken = match call {
                Call::Tool { .. } => Taken::Outcome(Outcome::Ok(inline(text))),
                Call::Sleep { .. } => Taken::Slept,
            };
            PastOutcome { order, made: None, at: at(-400 + i64::from(order)), taken }
        });
        history.calls.insert(seq, PastCall { made: Made::Call(call.clone()), outcome });
    }
    history
}

/// All that a script which makes these calls gets.
fn gets(run: &mut Run, history: &History, calls: Vec<Call>) -> Vec<(u32, Timestamp, Delivered)> {
    let mut records = step(run, at(2), Input::Script(script(calls), Some(history)));
    loop {
        let more = step(run, at(2), Input::Take(history));
        if more.is_empty() {
            return deliveries(&records);
        }
        records.extend(more);
    }
}

fn message(delivered: &Delivered) -> &str {
    match delivered {
        Delivered::Failure(failure) if failure.code == ErrorCode::NotRecorded && !failure.retryable => &failure.message,
        other => panic!("it is recorded: {other:?}"),
    }
}

#[test]
fn recorded_calls_come_in_their_order_and_at_their_times() {
    let calls = [named("a.x", "1"), sleep(100), named("a.x", "2")];
    let places = [Some((2, "10")), Some((0, "")), Some((1, "20"))];
    let history = recorded(&calls.clone().into_iter().zip(places).collect::<Vec<_>>());
    let mut run = run();
    assert_eq!(run.script_time(), at(-500), "the script's clock is the cassette's");
    let got = gets(&mut run, &history, calls.to_vec());
    let value = |text| Delivered::Value(inline(text));
    let expected = [(2, at(-400), Delivered::Slept), (3, at(-399), value("20")), (1, at(-398), value("10"))];
    assert_eq!(got, expected);
    assert_eq!(run.script_time(), at(-398));
}

#[test]
fn a_changed_argument_is_told_with_the_nearest_call() {
    let history = recorded(&[
        (named("a.x", r#"{"id":7,"to":{"name":"ada"},"list":[1,2]}"#), Some((0, "1"))),
        (named("a.x", r#"{"id":8,"to":{"name":"bob"},"list":[1,2]}"#), Some((1, "2"))),
        (named("a.y", "{}"), Some((2, "3"))),
    ]);
    for (arguments, differences) in [
        (r#"{"id":8,"to":{"name":"eve"},"list":[1,2]}"#, r#"2, where arguments.to.name is "bob" and not "eve""#),
        (r#"{"id":7,"to":{"name":"ada"},"list":[1,3]}"#, "1, where arguments.list[1] is 2 and not 3"),
        (r#"{"id":7,"to":{"name":"ada"},"list":[1]}"#, "1, where arguments.list is [1,2] and not [1]"),
        (r#"{"id":7,"to":{"name":"ada"}}"#, "1, where arguments.list is [1,2] and not null"),
        (r#"{"id":7,"to":{"name":"ada"},"list":[1,2],"z":1}"#, "1, where arguments.z is null and not 1"),
        ("3", r#"1, where arguments is {"id":7,"list":[1,2],"to":{"name":"ada"}} and not 3"#),
    ] {
        let got = gets(&mut run(), &history, vec![named("a.x", arguments)]);
        let told = format!("a.x was called, and that call is not recorded; the nearest one is call {differences}");
        assert_eq!(message(&got[0].2), told);
        assert_eq!(got[0].1, at(-500), "it takes no time");
    }
    let got = gets(&mut run(), &history, vec![named("b.x", "{}")]);
    assert_eq!(message(&got[0].2), "b.x was called, and no call of b.x is recorded");
}

/// Three differences are named, each in an excerpt: a message is for people.
#[test]
fn a_call_that_is_nothing_like_a_recorded_one_is_told_in_few_words() {
    let long = format!(r#"{{"a":"{}","b":1,"c":1,"d":1,"e":1}}"#, "é".repeat(100));
    let history = recorded(&[(named("a.x", &long), Some((0, "1")))]);
    let got = gets(&mut run(), &history, vec![named("a.x", r#"{"a":2,"b":2,"c":2,"d":2,"e":2}"#)]);
    let excerpt = format!("\"{}…", "é".repeat(59));
    let differences =
        format!("arguments.a is {excerpt} and not 2; arguments.b is 1 and not 2; arguments.c is 1 and not 2");
    let message = message(&got[0].2);
    assert!(message.ends_with(&format!("call 1, where {differences}; and 2 more")), "{message}");
}

#[test]
fn a_call_more_than_were_recorded_is_told_so() {
    let history = recorded(&[(named("a.x", "1"), Some((0, "10")))]);
    let got = gets(&mut run(), &history, vec![named("a.x", "1"), named("a.x", "1")]);
    assert_eq!(got[0].2, Delivered::Value(inline("10")));
    assert!(message(&got[1].2).contains("recorded once less: call 1 is the same"), "{got:?}");
}

/// A call that was moved is found; one in its own place is preferred.
#[test]
fn a_call_is_found_by_its_number_and_else_by_what_it_is() {
    let history = recorded(&[
        (named("a.x", "1"), Some((0, "10"))),
        (named("a.x", "1"), Some((1, "20"))),
        (named("a.x", "1"), None),
        (named("a.y", "1"), Some((2, "30"))),
    ]);
    let origins = |calls: Vec<Call>| {
        let records = run().decide(at(2), Input::Script(script(calls), Some(&history)));
        made(&records).values().map(|made| origin(made).expect("each has one")).collect::<Vec<_>>()
    };
    let (x, y) = (named("a.x", "1"), named("a.y", "1"));
    assert_eq!(origins(vec![y.clone(), x.clone(), x.clone()]), [Origin::Past(4), Origin::Past(2), Origin::Past(1)]);
    assert_eq!(
        origins(vec![x.clone(), x.clone(), x, y]),
        [Origin::Past(1), Origin::Past(2), Origin::Nothing, Origin::Past(4)]
    );
    let Call::Tool { tool, arguments, terms, .. } = named("a.y", "1") else { panic!("a tool") };
    let raw = Call::Tool { tool, arguments, raw: true, terms, origin: None };
    assert_eq!(origins(vec![raw]), [Origin::Nothing], "it was not asked for its whole result");
}

/// A cassette is kept by people and their tools, which put members in an order of their own.
#[test]
fn the_order_of_members_is_of_no_account_on_a_cassette() {
    let history = recorded(&[(named("a.x", r#"{"b":[1,2],"a":12}"#), Some((0, "10")))]);
    let origin_of = |call: Call| {
        let records = run().decide(at(2), Input::Script(script(vec![call]), Some(&history)));
        origin(&made(&records)[&1])
    };
    assert_eq!(origin_of(named("a.x", r#"{"a":12,"b":[1,2]}"#)), Some(Origin::Past(1)));
    for (tool, arguments) in [
        ("a.x", r#"{"a":12,"b":[2,1]}"#),
        ("a.x", r#"{"a":21,"b":[1,2]}"#),
        ("a.x", r#"{"b":12,"a":[1,2]}"#),
        ("a.y", r#"{"a":12,"b":[1,2]}"#),
    ] {
        assert_eq!(origin_of(named(tool, arguments)), Some(Origin::Nothing), "{tool} {arguments}");
    }
    let Call::Tool { tool, arguments, terms, .. } = named("a.x", r#"{"a":12,"b":[1,2]}"#) else { panic!("a tool") };
    assert_eq!(origin_of(Call::Tool { tool, arguments, raw: true, terms, origin: None }), Some(Origin::Nothing));
    // A number that no double holds is another one than its neighbour.
    let history = recorded(&[(named("a.x", "[12345678901234567890123,1]"), Some((0, "10")))]);
    let call = named("a.x", "[12345678901234567890124,1]");
    let records = run().decide(at(2), Input::Script(script(vec![call]), Some(&history)));
    assert_eq!(origin(&made(&records)[&1]), Some(Origin::Nothing));
}

/// What a call of an earlier turn has taken stays taken, also after the journal was read again.
#[test]
fn an_outcome_is_taken_once() {
    let history = recorded(&[(named("a.x", "1"), Some((0, "10")))]);
    let mut run = run();
    gets(&mut run, &history, vec![named("a.x", "1")]);
    let turn = rewind_run::ScriptTurn { calls: vec![new_call(2, named("a.x", "1"))], ..Default::default() };
    let records = step(&mut run, at(3), Input::Script(turn, Some(&history)));
    assert_eq!(origin(&made(&records)[&2]), Some(Origin::Nothing));
}

/// One that people wrote may say that an outcome came before the one ahead of it.
#[test]
fn script_time_never_goes_back_on_a_cassette() {
    let calls = [named("a.x", "1"), named("a.x", "2"), named("a.x", "3")];
    let mut history = recorded(&calls.clone().map(|call| (call, Some((0, "10")))));
    for ((order, ms), past) in (0..).zip([-100, -300, -50]).zip(history.calls.values_mut()) {
        let outcome = past.outcome.as_mut().expect("each has one");
        (outcome.order, outcome.at) = (order, at(ms));
    }
    let got = gets(&mut run(), &history, calls.to_vec());
    let times: Vec<Timestamp> = got.into_iter().map(|(_, time, _)| time).collect();
    assert_eq!(times, [at(-100), at(-100), at(-50)]);
}

/// People format their files.
#[test]
fn arguments_on_a_cassette_may_be_spread_over_lines() {
    let history = recorded(&[(named("a.x", r#"{"n":[1,2]}"#), Some((0, "10")))]);
    let mut cassette = cassette_of(history);
    cassette.calls[0].arguments = Some(json("{\n  \"n\": [ 1, 2 ]\n}"));
    let history = cassette.history().expect("well-formed");
    let got = gets(&mut run(), &history, vec![named("a.x", r#"{"n":[1,2]}"#)]);
    assert_eq!(got[0].2, Delivered::Value(inline("10")));
}

/// A race that a call without an outcome had lost, it loses again.
#[test]
fn what_was_left_behind_does_not_overtake_what_was_recorded() {
    let history = recorded(&[(named("a.slow", "1"), None), (named("a.fast", "1"), Some((0, "10"))), (sleep(9), None)]);
    let calls = vec![named("a.slow", "1"), named("a.fast", "1"), sleep(9), sleep(8), named("a.new", "1")];
    let order: Vec<u32> = gets(&mut run(), &history, calls).into_iter().map(|(seq, ..)| seq).collect();
    assert_eq!(order, [2, 1, 5, 4, 3], "then what is not recorded, then the sleeps as they end");
}

/// The script is another one maybe; there is nothing that it would part from.
#[test]
fn a_script_that_leaves_recorded_calls_out_just_ends() {
    let history = recorded(&[(named("a.x", "1"), Some((0, "10")))]);
    let end = Some(rewind_run::ScriptEnd::Returned(Json::null()));
    let turn = rewind_run::ScriptTurn { end, ..Default::default() };
    let records = step(&mut run(), at(2), Input::Script(turn, Some(&history)));
    assert!(matches!(records[..], [Record::Ended { .. }]), "{records:?}");
}

#[test]
fn a_refused_call_is_refused_again_and_takes_no_time_and_no_outcome() {
    let history = recorded(&[(named("a.x", "1"), Some((0, "10")))]);
    let mut run = run();
    let failure = ToolFailure::new(ErrorCode::InvalidArguments, "no");
    let refused = NewCall { refused: Some(failure.clone()), ..new_call(1, named("a.x", "1")) };
    let calls = vec![refused, new_call(2, named("a.x", "1"))];
    let turn = rewind_run::ScriptTurn { calls, ..Default::default() };
    let records = step(&mut run, at(2), Input::Script(turn, Some(&history)));
    assert_eq!(deliveries(&records), [(1, at(-500), Delivered::Failure(failure))]);
    assert_eq!(origin(&made(&records)[&2]), Some(Origin::Past(1)));
}

#[test]
fn a_run_on_a_cassette_ends_with_no_timer_and_no_call() {
    let history = recorded(&[(named("workflows.refund", "1"), Some((0, "10"))), (sleep(99_000), None)]);
    let mut run = run();
    step(&mut run, at(2), Input::Script(script(vec![named("workflows.refund", "1"), sleep(99_000)]), Some(&history)));
    assert!(run.pending().is_empty());
    let adopt = Input::Adopt { node: fixtures::node(2), epoch: 2, lost: true };
    let records = step(&mut run, at(3), adopt);
    assert_eq!(records.len(), 1, "nothing was sent whose outcome is unknown");
    assert_eq!(fixtures::effects(&mut run, at(4), Input::Cancel), Vec::<Effect>::new());
}

#[test]
fn a_cassette_that_is_not_well_formed_is_refused_by_call() {
    let cassette = |calls: &str| {
        let mut cassette = cassette_of(History::new());
        cassette.calls = serde_json::from_str(calls).expect("calls");
        cassette
    };
    let refused = |calls: &str| cassette(calls).history().expect_err("it is refused").to_string();
    let either = "calls: call 1: it is a `tool` with `arguments`, a `tool` with `refused`, or a `sleep_until`";
    let together = "calls: call 1: `order`, `at` and a `result` or an `error` go together";
    let when = "\"2026-11-30T12:34:56.789Z\"";
    let failure = r#"{"code":"tool_failed","message":"no","retryable":false}"#;
    for (members, why) in [
        (String::new(), either),
        (r#","tool":"a.x""#.into(), either),
        (r#","arguments":1"#.into(), either),
        (format!(r#","tool":"a.x","arguments":1,"sleep_until":{when}"#), either),
        (r#","tool":"a.x","arguments":1,"result":1"#.into(), together),
        (r#","tool":"a.x","arguments":1,"order":1,"result":1"#.into(), together),
        (format!(r#","tool":"a.x","arguments":1,"at":{when},"result":1"#), together),
        (format!(r#","tool":"a.x","arguments":1,"order":1,"at":{when}"#), together),
        (format!(r#","sleep_until":{when},"order":1"#), together),
        (
            format!(r#","sleep_until":{when},"order":1,"at":{when},"result":null"#),
            "calls: call 1: a sleep has no `result` and no `error`",
        ),
        (
            format!(r#","tool":"a.x","arguments":1,"order":1,"at":{when},"result":1,"error":{failure}"#),
            "calls: call 1: it has a `result` and an `error`",
        ),
    ] {
        assert_eq!(refused(&format!(r#"[{{"seq":1{members}}}]"#)), why, "{members}");
    }
    let twice = r#"[{"seq":3,"tool":"a.x","arguments":1},{"seq":3,"tool":"a.y","arguments":1}]"#;
    assert_eq!(refused(twice), "calls: call 3 is there twice");
    let later = Cassette { rewind_cassette: 2, ..cassette("[]") };
    assert_eq!(later.history(), Err(CassetteError::Version(2)));
    // `null` is what a call may get, and be given.
    let text = format!(r#"[{{"seq":1,"tool":"a.x","arguments":null,"order":0,"at":{when},"result":null}}]"#);
    let history = cassette(&text).history().expect("well-formed");
    let taken = &history.calls[&1].outcome.as_ref().expect("an outcome").taken;
    assert_eq!(*taken, Taken::Outcome(Outcome::Ok(Payload::Inline(Json::null()))));
    let unknown = serde_json::to_string(&cassette("[]")).expect("writable").replacen('{', "{\"later\":1,", 1);
    assert!(read(&unknown).is_err(), "a misspelt member is told");
}

#[test]
fn a_payload_that_is_not_at_hand_is_named() {
    let blob = Payload::Blob { digest: rewind_model::Digest::of("b"), size: 300_000 };
    let mut history = recorded(&[(named("a.x", "1"), Some((0, "1"))), (named("a.x", "1"), Some((1, "1")))]);
    assert_eq!(history.payloads_mut().count(), 4);
    history.calls.get_mut(&2).expect("call 2").outcome =
        Some(PastOutcome { order: 1, made: None, at: at(0), taken: Taken::Outcome(Outcome::Ok(blob)) });
    let clock = Clock { seed: RunId::of_bytes(b"run"), started: at(0) };
    let refused = Cassette::new(RunId::of_bytes(b"run"), ToolsetId::of_bytes(b"t"), clock, Json::null(), history);
    assert_eq!(refused, Err(CassetteError::NotInline(2)));
}

/// Of two equal calls the script waited for the one that got something.
#[test]
fn a_call_that_got_nothing_does_not_get_what_a_later_one_got() {
    let history = recorded(&[(named("a.x", "1"), None), (named("a.x", "1"), Some((0, "10")))]);
    let got = gets(&mut run(), &history, vec![named("a.x", "1"), named("a.x", "1")]);
    assert_eq!((got[0].0, &got[0].2), (2, &Delivered::Value(inline("10"))));
    assert!(message(&got[1].2).contains("recorded once less"), "{got:?}");
}

/// A person may have written any number, and any failure.
#[test]
fn the_largest_order_and_the_longest_failure_are_taken() {
    let call = |seq: u32, order: u32| {
        serde_json::json!({"seq": seq, "tool": "a.x", "arguments": seq, "order": order, "at": "2026-01-01T00:00:00Z",
            "error": {"code": "timeout", "message": "x".repeat(5_000_000), "retryable": false, "details": "y".repeat(5_000_000)}})
    };
    let cassette = serde_json::json!({
        "rewind_cassette": 1, "run": fixtures::run_id(), "toolset": fixtures::spec().toolset,
        "clock": {"seed": fixtures::run_id(), "started": "2026-01-01T00:00:00Z"}, "input": null,
        "calls": [call(1, u32::MAX), call(2, u32::MAX), call(3, 7)],
    });
    let cassette: Cassette = serde_json::from_value(cassette).expect("a cassette");
    let history = cassette.history().expect("well-formed");
    let mut run = run();
    let got = gets(&mut run, &history, vec![named("a.x", "1"), named("a.x", "2"), named("a.x", "3")]);
    assert_eq!(got.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(), [3, 1, 2]);
    for (_, _, delivered) in got {
        let Delivered::Failure(failure) = delivered else { panic!("a failure") };
        assert!(failure.message.len() < 100_000 && failure.details.is_none(), "{} bytes", failure.message.len());
    }
}

/// Deeper than a script can make it, and than a stack is.
#[test]
fn what_is_nested_without_end_is_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for member in ["arguments", "result"] {
        let other = if member == "arguments" { r#""result": 1"# } else { r#""arguments": 1"# };
        let text = format!(
            r#"{{"rewind_cassette": 1, "run": "{}", "toolset": "{}", "clock": {{"seed": "{}", "started": "2026-01-01T00:00:00Z"}},
              "calls": [{{"seq": 1, "tool": "a.x", "order": 0, "at": "2026-01-01T00:00:00Z", {other}, "{member}": {deep}}}]}}"#,
            fixtures::run_id(),
            fixtures::spec().toolset,
            fixtures::run_id(),
        );
        let refused = serde_json::from_str::<Cassette>(&text).map(Cassette::history);
        let refused = refused.map_or_else(|error| error.to_string(), |read| read.expect_err("refused").to_string());
        assert!(refused.contains("nested") || refused.contains("recursion"), "{refused}");
    }
    // As a document of an older build may have it.
    let history = recorded(&[(named("a.x", &deep), Some((0, "1")))]);
    let got = gets(&mut run(), &history, vec![named("a.x", "2")]);
    assert!(message(&got[0].2).contains("not recorded"), "{got:?}");
}
