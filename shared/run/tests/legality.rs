//! Every record in every state: legal, or why not.

#[path = "support/fixtures.rs"]
mod fixtures;

use fixtures::{adopted, at, created, failure, folded, inline, run_id, sleep, tool};
use rewind_model::{Digest, Limits, Outcome, RunError, RunStatus, ToolName};
use rewind_run::{End, ParkReason, Record, Run, Why};

/// One of each variant; those about a call are about number `seq`.
fn one_of_each(seq: u32) -> Vec<Record> {
    vec![
        created(),
        Record::Adopted { at: at(9), node: fixtures::node(9), epoch: 9 },
        called(seq),
        refused(seq),
        attempt_failed(seq, 1),
        Record::Retried { at: at(9), seq, attempt: 2 },
        Record::Parked { at: at(9), seq, attempt: 1, reason: ParkReason::SchemaChanged, detail: "x".into() },
        Record::Approved { at: at(9), seq, decision: "d".into(), by: None },
        Record::Rejected { at: at(9), seq, decision: "d".into(), by: None, failure: failure() },
        completed(seq, 1),
        fired(seq),
        Record::Logged { at: at(9), level: "log".into(), text: "hello".into() },
        Record::Waiting { at: at(9) },
        Record::Ended { at: at(9), end: End::Cancelled },
    ]
}

fn called(seq: u32) -> Record {
    Record::Called { at: at(9), seq, call: tool("{}") }
}
fn refused(seq: u32) -> Record {
    let tool = ToolName::new("github", "create_issue");
    Record::Refused { at: at(9), seq, tool, arguments: Digest::of("{}"), failure: failure() }
}
fn attempt_failed(seq: u32, attempt: u32) -> Record {
    Record::AttemptFailed { at: at(9), seq, attempt, failure: failure(), retry_at: at(19) }
}
fn completed(seq: u32, attempt: u32) -> Record {
    Record::Completed { at: at(9), seq, attempt, outcome: Outcome::Ok(inline("null")) }
}
fn fired(seq: u32) -> Record {
    Record::Fired { at: at(9), seq }
}
fn ended(end: End) -> Record {
    Record::Ended { at: at(8), end }
}

/// What folding it says, once; and that a refusal changes nothing.
fn verdict(run: &Run, record: &Record) -> Option<Why> {
    let mut after = run.clone();
    match after.fold(record) {
        Ok(_) => None,
        Err(illegal) => {
            assert_eq!((&illegal.run, illegal.record), (&run_id(), record.name()));
            assert_eq!(format!("{after:?}"), format!("{run:?}"), "a refused record leaves no trace");
            Some(illegal.why)
        }
    }
}

fn verdicts(run: &Run, seq: u32) -> Vec<(&'static str, Option<Why>)> {
    one_of_each(seq).iter().map(|record| (record.name(), verdict(run, record))).collect()
}

fn run_of(records: &[Record]) -> Run {
    folded(Limits { calls_in_flight: 2, ..Limits::DEFAULT }, records)
}

#[test]
fn before_created_only_created_is_legal() {
    for (name, why) in verdicts(&Run::new(run_id(), Limits::DEFAULT), 1) {
        let expected = (name != "created").then_some(Why::NotCreated);
        assert_eq!(why, expected, "{name}");
    }
}

#[test]
fn a_queued_run_can_only_be_adopted() {
    let queued = run_of(&[created()]);
    assert_eq!(queued.status(), RunStatus::Queued);
    for (name, why) in verdicts(&queued, 1) {
        let expected = match name {
            "created" => Some(Why::CreatedTwice),
            "adopted" => None,
            _ => Some(Why::NotAdopted),
        };
        assert_eq!(why, expected, "{name}");
    }
}

#[test]
fn nothing_follows_the_end() {
    let error = RunError { code: "stalled".into(), message: "it stalled".into(), tool: None, key: None, stack: None };
    for (end, status) in [
        (End::Completed { result: inline("1") }, RunStatus::Completed),
        (End::Failed { error }, RunStatus::Failed),
        (End::Cancelled, RunStatus::Cancelled),
    ] {
        let run = run_of(&[created(), adopted(1), called(1), ended(end)]);
        assert_eq!(run.status(), status);
        for (name, why) in verdicts(&run, 1) {
            assert_eq!(why, Some(Why::Ended(status)), "{name}");
        }
    }
}

/// Calls 1 and 2 are sent (2 backs off), 3 is queued, 4 sleeps, 5 was refused, 6 is parked, 7 does not exist yet.
fn with_calls() -> Vec<Record> {
    vec![
        created(),
        adopted(1),
        called(1),
        called(2),
        called(3),
        Record::Called { at: at(2), seq: 4, call: sleep(100) },
        refused(5),
        Record::Called { at: at(2), seq: 6, call: fixtures::named("pay.tool_3", "{}") },
        attempt_failed(2, 1),
    ]
}

/// Running and waiting differ in nothing but who holds the memory.
#[test]
fn records_about_calls_in_each_phase() {
    let mut waiting = with_calls();
    waiting.push(Record::Waiting { at: at(9) });
    for (run, status) in [(run_of(&with_calls()), RunStatus::Running), (run_of(&waiting), RunStatus::Waiting)] {
        assert_eq!(run.status(), status);
        for seq in 1..=7 {
            for (name, why) in verdicts(&run, seq) {
                assert_eq!(why, expected(name, seq), "{name} of call {seq} when {status}");
            }
        }
        assert_eq!(verdict(&run, &called(8)), Some(Why::WrongSeq { given: 8, expected: 7 }), "a gap");
    }
}

fn expected(record: &str, seq: u32) -> Option<Why> {
    let (sent, backing_off, queued, sleeping, refused, parked, next) = (1, 2, 3, 4, 5, 6, 7);
    match record {
        "created" => Some(Why::CreatedTwice),
        "adopted" | "logged" | "waiting" | "ended" => None,
        "called" | "refused" if seq == next => None,
        "called" | "refused" => Some(Why::WrongSeq { given: seq, expected: next }),
        _ if seq == refused || seq == next => Some(Why::NotOutstanding(seq)),
        "attempt_failed" if seq == sent => None,
        // The attempt that failed was number 1; the one that backs off is number 2.
        "attempt_failed" => Some(Why::NotSent { seq, attempt: 1 }),
        "parked" if seq == sent => None,
        "parked" => Some(Why::NotSent { seq, attempt: 1 }),
        "retried" if seq == backing_off => None,
        "retried" => Some(Why::NotSent { seq, attempt: 2 }),
        "approved" | "rejected" => (seq != parked).then_some(Why::NotParked(seq)),
        "completed" if seq == sent || seq == backing_off => None,
        "completed" if seq == queued || seq == parked => Some(Why::NotSent { seq, attempt: 1 }),
        "completed" => Some(Why::WrongKind(seq)),
        "fired" if seq == sleeping => None,
        "fired" => Some(Why::WrongKind(seq)),
        other => panic!("the table lacks {other}"),
    }
}

#[test]
fn an_attempt_fails_once_and_by_its_number() {
    let run = run_of(&with_calls());
    assert_eq!(verdict(&run, &attempt_failed(2, 2)), None, "the attempt after the back-off");
    for (seq, attempt) in [(1, 0), (1, 2), (2, 1), (2, 3)] {
        assert_eq!(verdict(&run, &attempt_failed(seq, attempt)), Some(Why::NotSent { seq, attempt }));
    }
}

#[test]
fn any_attempt_may_bring_the_answer() {
    let run = run_of(&with_calls());
    for attempt in [1, 2, 7] {
        assert_eq!(verdict(&run, &completed(1, attempt)), None);
        assert_eq!(verdict(&run, &completed(2, attempt)), None);
    }
}

/// Invariant 5 as far as records go: an epoch that was adopted is never adopted again.
#[test]
fn epochs_only_grow() {
    let run = run_of(&[created(), adopted(3)]);
    for given in [0, 2, 3] {
        assert_eq!(verdict(&run, &adopted(given)), Some(Why::StaleEpoch { given, current: 3 }));
    }
    assert_eq!(verdict(&run, &adopted(4)), None);
    assert_eq!(verdict(&run, &adopted(u64::MAX)), None);
}

#[test]
fn every_reason_says_what_happened_to_which_run() {
    let mut run = run_of(&[created(), adopted(1)]);
    let illegal = run.fold(&completed(7, 1)).expect_err("there is no call 7");
    assert_eq!(
        illegal.to_string(),
        format!("{}: the record `completed` is illegal here: call 7 is not outstanding", run_id())
    );
}
