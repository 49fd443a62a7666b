//! A script that asks for something else than the journal holds is told so, by both names.

#[path = "support/fixtures.rs"]
mod fixtures;

use fixtures::{at, named, new_call, sleep};
use rewind_model::{Digest, ErrorCode, Json, Payload, ToolFailure};
use rewind_run::{Call, Delivery, Divergence, NewCall, Record, Replay, ScriptEnd, ScriptTurn};

fn turn(calls: Vec<Call>) -> ScriptTurn {
    let calls = (1..).zip(calls).map(|(seq, call)| new_call(seq, call)).collect();
    ScriptTurn { calls, ..ScriptTurn::default() }
}

fn returned(calls: Vec<Call>) -> ScriptTurn {
    ScriptTurn { end: Some(ScriptEnd::Returned(Json::null())), ..turn(calls) }
}

fn recorded(calls: &[Call]) -> Vec<Record> {
    let called = |(seq, call): (u32, &Call)| Record::Called { at: at(1), seq, call: call.clone() };
    (1..).zip(calls).map(called).collect()
}

/// Feeds both in each interleaving that can happen (all of the one, all of the other, in turns):
/// the verdict is the same.
fn verdict(records: &[Record], script: &ScriptTurn) -> Result<ScriptTurn, Divergence> {
    let records_first = || {
        let mut replay = Replay::default();
        records.iter().try_for_each(|record| replay.record(record))?;
        replay.turn(script.clone())?;
        replay.finish()
    };
    let script_first = || {
        let mut replay = Replay::default();
        replay.turn(script.clone())?;
        records.iter().try_for_each(|record| replay.record(record))?;
        replay.finish()
    };
    let verdicts: [Result<ScriptTurn, Divergence>; 2] = [records_first(), script_first()];
    assert_eq!(format!("{:?}", verdicts[0]), format!("{:?}", verdicts[1]));
    let [verdict, _] = verdicts;
    verdict
}

fn divergence(then: &[Call], script: ScriptTurn) -> Divergence {
    verdict(&recorded(then), &script).expect_err("it diverges")
}

fn sha(arguments: &str) -> String {
    format!("sha256:{}", &Digest::of(arguments).to_string()[..12])
}

fn other(seq: u32, then: String, now: String) -> Divergence {
    Divergence::OtherCall { seq, then, now }
}

#[test]
fn another_tool() {
    let found = divergence(&[named("a.x", "1")], turn(vec![named("a.y", "1")]));
    let with = |tool: &str| format!("{tool} with arguments {}", sha("1"));
    assert_eq!(found, other(1, with("a.x"), with("a.y")));
    assert_eq!(
        found.to_string(),
        format!("on replay, call 1 of the script is {}; the journal holds {}", with("a.y"), with("a.x"))
    );
}

#[test]
fn other_arguments_are_named_by_digest_only() {
    let found = divergence(&[named("a.x", "\"secret 1\"")], turn(vec![named("a.x", "\"secret 2\"")]));
    let with = |arguments: &str| format!("a.x with arguments {}", sha(arguments));
    assert_eq!(found, other(1, with("\"secret 1\""), with("\"secret 2\"")));
    assert!(!found.to_string().contains("secret"));
}

#[test]
fn another_order() {
    let (one, two) = (named("a.x", "1"), named("a.y", "2"));
    let found = divergence(&[one.clone(), two.clone()], turn(vec![two, one]));
    let now = format!("a.y with arguments {}", sha("2"));
    assert_eq!(found, other(1, format!("a.x with arguments {}", sha("1")), now));
}

#[test]
fn the_first_difference_is_named() {
    let same = named("a.x", "1");
    let found = divergence(
        &[same.clone(), named("a.x", "2"), named("a.x", "3")],
        turn(vec![same, named("a.x", "4"), named("a.x", "5")]),
    );
    assert!(matches!(found, Divergence::OtherCall { seq: 2, .. }), "{found}");
}

#[test]
fn raw_is_part_of_a_call() {
    let Call::Tool { tool, arguments, terms, .. } = named("a.x", "1") else { panic!("a tool") };
    let raw = Call::Tool { tool, arguments, raw: true, terms, origin: None };
    let found = divergence(&[named("a.x", "1")], turn(vec![raw]));
    let with = |tool: &str| format!("{tool} with arguments {}", sha("1"));
    assert_eq!(found, other(1, with("a.x"), with("a.x.raw")), "both names differ, as the calls do");
}

#[test]
fn another_sleep_and_another_kind() {
    let found = divergence(&[sleep(1)], turn(vec![sleep(2)]));
    assert_eq!(found, other(1, format!("sleep until {}", at(1)), format!("sleep until {}", at(2))));
    let found = divergence(&[sleep(1)], turn(vec![named("a.x", "1")]));
    assert_eq!(found, other(1, format!("sleep until {}", at(1)), format!("a.x with arguments {}", sha("1"))));
    let found = divergence(&[named("a.x", "1")], turn(vec![sleep(1)]));
    assert!(matches!(found, Divergence::OtherCall { seq: 1, .. }));
}

#[test]
fn fewer_calls() {
    let calls = [named("a.x", "1"), named("a.y", "2")];
    let found = divergence(&calls, turn(calls[..1].to_vec()));
    assert_eq!(found, Divergence::Missing { seq: 2, then: format!("a.y with arguments {}", sha("2")) });
    assert!(found.to_string().contains("did not make call 2"), "{found}");
}

#[test]
fn ended_early() {
    let calls = [named("a.x", "1"), named("a.y", "2")];
    let found = divergence(&calls, returned(calls[..1].to_vec()));
    assert_eq!(found, Divergence::EndedEarly { seq: 2, then: format!("a.y with arguments {}", sha("2")) });
    assert!(found.to_string().contains("ended without call 2"), "{found}");
}

#[test]
fn more_calls_and_a_later_end_are_what_is_new() {
    let calls = vec![named("a.x", "1"), sleep(5), named("a.y", "2")];
    let beyond = verdict(&recorded(&calls[..1]), &returned(calls)).expect("no divergence");
    assert_eq!(beyond.calls.iter().map(|call| call.seq).collect::<Vec<_>>(), [2, 3]);
    assert!(beyond.end.is_some());
}

#[test]
fn a_refused_call_is_told_by_tool_and_digest() {
    let failure = ToolFailure::new(ErrorCode::InvalidArguments, "no");
    let record = |arguments: &str| {
        let Call::Tool { tool, arguments, .. } = named("a.x", arguments) else { panic!("a tool") };
        Record::Refused { at: at(1), seq: 1, tool, arguments: arguments.digest(), failure: failure.clone(), then: None }
    };
    let refused = |arguments: &str| ScriptTurn {
        calls: vec![NewCall { refused: Some(failure.clone()), ..new_call(1, named("a.x", arguments)) }],
        ..ScriptTurn::default()
    };
    assert!(verdict(&[record("1")], &refused("1")).expect("the same").calls.is_empty());
    // The verdict of the day is the journal's, not today's validator's.
    assert!(verdict(&[record("1")], &turn(vec![named("a.x", "1")])).is_ok());
    assert!(verdict(&recorded(&[named("a.x", "1")]), &refused("1")).is_ok());
    let found = verdict(&[record("1")], &refused("2")).expect_err("other arguments");
    let with = |arguments: &str| format!("a.x with arguments {}", sha(arguments));
    assert_eq!(found, other(1, with("1"), with("2")));
    let found = verdict(&[record("1")], &turn(vec![sleep(1)])).expect_err("another kind");
    assert!(matches!(found, Divergence::OtherCall { seq: 1, .. }));
}

/// Arguments over the inline size are kept as a blob: the same text is the same call.
#[test]
fn a_blob_is_the_text_that_it_holds() {
    let Call::Tool { tool, arguments, raw, terms, origin } = named("a.x", "[1,2,3]") else { panic!("a tool") };
    let blob = Payload::Blob { digest: arguments.digest(), size: arguments.size() };
    let kept = [Call::Tool { tool: tool.clone(), arguments: blob, raw, terms, origin }];
    assert!(verdict(&recorded(&kept), &turn(vec![named("a.x", "[1,2,3]")])).is_ok());
    assert!(verdict(&recorded(&kept), &turn(vec![named("a.x", "[1,2,4]")])).is_err());
    let longer = Payload::Blob { digest: arguments.digest(), size: arguments.size() + 1 };
    let lying = [Call::Tool { tool, arguments: longer, raw, terms, origin }];
    assert!(verdict(&recorded(&lying), &turn(vec![named("a.x", "[1,2,3]")])).is_err());
}

#[test]
fn console_lines_beyond_the_recorded_ones_are_new() {
    let line = |text: &str| ("log".to_string(), text.to_string());
    let script = ScriptTurn { logs: vec![line("a"), line("b"), line("c")], ..ScriptTurn::default() };
    let logged = |text: &str| Record::Logged { at: at(1), level: "log".into(), text: text.into() };
    let beyond = verdict(&[logged("a"), logged("b")], &script).expect("no divergence");
    assert_eq!(beyond.logs, [line("c")]);
}

/// Only what ends a call is delivered; order and time are the journal's.
#[test]
fn deliveries_are_the_ends_of_calls() {
    let failure = fixtures::failure();
    let records = [
        fixtures::created(),
        fixtures::adopted(1),
        Record::Fired { at: at(5), seq: 2 },
        Record::AttemptFailed { at: at(6), seq: 1, attempt: 1, failure, retry_at: at(7) },
        Record::Waiting { at: at(8) },
    ];
    let delivered: Vec<_> = records.iter().filter_map(Delivery::of).map(|d| (d.seq, d.at)).collect();
    assert_eq!(delivered, [(2, at(5))]);
}
