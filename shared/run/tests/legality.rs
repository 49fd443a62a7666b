//! Every record in every state: legal, or why not.

#[path = "support/fixtures.rs"]
mod fixtures;

use fixtures::{adopted, at, created, failure, folded, inline, named, run_id, sleep, tool};
use rewind_model::{Digest, Limits, Outcome, RunError, RunStatus, ToolName};
use rewind_run::{Call, End, Origin, ParkReason, Record, Run, Taken, Why};

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
        Record::Deferred { at: at(9), seq, attempt: 1 },
        taken(seq),
        Record::Diverged { at: at(9), seq, then: None, now: None },
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
    Record::Refused { at: at(9), seq, tool, arguments: Digest::of("{}"), failure: failure(), then: None }
}
fn attempt_failed(seq: u32, attempt: u32) -> Record {
    Record::AttemptFailed { at: at(9), seq, attempt, failure: failure(), retry_at: at(19) }
}
fn completed(seq: u32, attempt: u32) -> Record {
    Record::Completed { at: at(9), seq, attempt, outcome: Outcome::Ok(inline("null")) }
}
fn taken(seq: u32) -> Record {
    Record::Taken { at: at(9), seq, then: at(3), taken: Taken::Slept }
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
    folded(Limits { calls_in_flight: 3, ..Limits::DEFAULT }, records)
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

/// The calls of [`with_calls`].
const DEFERRED: u32 = 1;
const SENT: u32 = 2;
const BACKING_OFF: u32 = 3;
const WITH_WORKER: u32 = 4;
const QUEUED: u32 = 5;
const SLEEPING: u32 = 6;
const REFUSED: u32 = 7;
const PARKED: u32 = 8;
const RECORDED: u32 = 9;
const RECORDED_SLEEP: u32 = 10;
const NEXT: u32 = 11;

/// A call in each phase that one owner can see.
fn with_calls() -> Vec<Record> {
    let made = |seq, call| Record::Called { at: at(2), seq, call };
    let recorded = |mut call: Call| {
        let (Call::Tool { origin, .. } | Call::Sleep { origin, .. }) = &mut call;
        *origin = Some(Origin::Past(1));
        call
    };
    vec![
        created(),
        adopted(1),
        made(DEFERRED, named("host.tool_0", "{}")),
        made(SENT, tool("{}")),
        made(BACKING_OFF, tool("{}")),
        made(WITH_WORKER, named("host.tool_0", "{}")),
        made(QUEUED, tool("{}")),
        made(SLEEPING, sleep(100)),
        refused(REFUSED),
        made(PARKED, named("pay.tool_3", "{}")),
        made(RECORDED, recorded(tool("{}"))),
        made(RECORDED_SLEEP, recorded(sleep(100))),
        Record::Deferred { at: at(9), seq: DEFERRED, attempt: 1 },
        attempt_failed(BACKING_OFF, 1),
    ]
}

/// Running and waiting differ in nothing but who holds the memory.
#[test]
fn records_about_calls_in_each_phase() {
    let mut waiting = with_calls();
    waiting.push(Record::Waiting { at: at(9) });
    for (run, status) in [(run_of(&with_calls()), RunStatus::Running), (run_of(&waiting), RunStatus::Waiting)] {
        assert_eq!(run.status(), status);
        for seq in 1..=NEXT {
            for (name, why) in verdicts(&run, seq) {
                assert_eq!(why, expected(name, seq), "{name} of call {seq} when {status}");
            }
        }
        let gap = Why::WrongSeq { given: NEXT + 1, expected: NEXT };
        assert_eq!(verdict(&run, &called(NEXT + 1)), Some(gap), "a gap");
    }
}

fn expected(record: &str, seq: u32) -> Option<Why> {
    let legal_only = |legal: &[u32], why: Why| (!legal.contains(&seq)).then_some(why);
    match record {
        "created" => Some(Why::CreatedTwice),
        "adopted" | "diverged" | "logged" | "waiting" | "ended" => None,
        "called" | "refused" => legal_only(&[NEXT], Why::WrongSeq { given: seq, expected: NEXT }),
        _ if seq == REFUSED || seq == NEXT => Some(Why::NotOutstanding(seq)),
        // The attempt that failed was number 1; the one that backs off is number 2.
        "attempt_failed" | "parked" => legal_only(&[SENT, WITH_WORKER], Why::NotSent { seq, attempt: 1 }),
        "retried" => legal_only(&[BACKING_OFF], Why::NotSent { seq, attempt: 2 }),
        "approved" | "rejected" => legal_only(&[PARKED], Why::NotParked(seq)),
        "deferred" => legal_only(&[WITH_WORKER], Why::NotSent { seq, attempt: 1 }),
        "taken" => legal_only(&[RECORDED, RECORDED_SLEEP], Why::OtherOrigin(seq)),
        "completed" | "fired" if seq == RECORDED || seq == RECORDED_SLEEP => Some(Why::OtherOrigin(seq)),
        "completed" if seq == QUEUED || seq == PARKED => Some(Why::NotSent { seq, attempt: 1 }),
        "completed" => legal_only(&[DEFERRED, SENT, BACKING_OFF, WITH_WORKER], Why::WrongKind(seq)),
        "fired" => legal_only(&[SLEEPING], Why::WrongKind(seq)),
        other => panic!("the table lacks {other}"),
    }
}

/// What another owner had, and must not be sent twice: a queue has it, or nobody knows.
#[test]
fn records_about_calls_of_an_owner_before() {
    let once = |seq, tool| Record::Called { at: at(2), seq, call: named(tool, "{}") };
    let run = run_of(&[created(), adopted(1), once(1, "host.tool_2"), once(2, "bank.tool_2"), adopted(2)]);
    let not_sent = |seq, attempt| Some(Why::NotSent { seq, attempt });
    for (seq, in_a_queue) in [(1, true), (2, false)] {
        for (name, why) in verdicts(&run, seq) {
            let expected = match name {
                "attempt_failed" | "deferred" if in_a_queue => None,
                "attempt_failed" | "deferred" | "parked" => not_sent(seq, 1),
                "retried" => not_sent(seq, 2),
                "completed" => None,
                "approved" | "rejected" => Some(Why::NotParked(seq)),
                "taken" => Some(Why::OtherOrigin(seq)),
                "fired" => Some(Why::WrongKind(seq)),
                _ => continue,
            };
            assert_eq!(why, expected, "{name} of call {seq}");
        }
    }
}

#[test]
fn an_attempt_fails_once_and_by_its_number() {
    let run = run_of(&with_calls());
    assert_eq!(verdict(&run, &attempt_failed(BACKING_OFF, 2)), None, "the attempt after the back-off");
    for (seq, attempt) in [(SENT, 0), (SENT, 2), (BACKING_OFF, 1), (BACKING_OFF, 3)] {
        assert_eq!(verdict(&run, &attempt_failed(seq, attempt)), Some(Why::NotSent { seq, attempt }));
    }
}

#[test]
fn any_attempt_may_bring_the_answer() {
    let run = run_of(&with_calls());
    for attempt in [1, 2, 7] {
        for seq in [DEFERRED, SENT, BACKING_OFF, WITH_WORKER] {
            assert_eq!(verdict(&run, &completed(seq, attempt)), None);
        }
    }
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
