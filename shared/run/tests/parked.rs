//! Calls that wait for somebody's decision, and for how long.

#[path = "support/fixtures.rs"]
mod fixtures;

use fixtures::{PARK_MS, answer, at, effects, failure, folded, named, policy, running, script, sleep, step, tool};
use rewind_model::{ErrorCode, Limits, RunStatus, Seq, Timestamp};
use rewind_run::{Effect, End, Input, ParkReason, Phase, Record, Run};

fn decide(seq: Seq, decision: &str, approved: bool) -> Input<'static> {
    Input::Decide { seq, verdict: fixtures::verdict(decision, approved) }
}

fn park(seq: Seq, attempt: u32, reason: ParkReason) -> Input<'static> {
    Input::Park { seq, attempt, reason, detail: "why".into() }
}

/// A run that has called this tool at 2 ms.
fn called(tool: &str) -> Run {
    let mut run = running(Limits::DEFAULT);
    step(&mut run, at(2), Input::Script(script(vec![named(tool, "{}")]), None));
    run
}

fn limit_of(parked_at: i64) -> Timestamp {
    at(parked_at + i64::try_from(PARK_MS).expect("a short time"))
}

#[test]
fn a_parked_call_waits_for_one_decision() {
    let mut run = running(Limits { calls_in_flight: 1, ..Limits::DEFAULT });
    let parked = || fixtures::named("pay.tool_3", "{}");
    step(&mut run, at(2), Input::Script(script(vec![parked(), tool("1"), tool("2"), parked()]), None));
    assert_eq!(run.pending(), [Effect::Dispatch { seq: 2, attempt: 1 }], "a parked call takes no place");
    assert!(step(&mut run, at(3), answer(1, 1, "0")).is_empty());
    assert!(step(&mut run, at(3), decide(2, "a", true)).is_empty(), "it is not parked");
    let approved = Record::Approved { at: at(4), seq: 1, decision: "a".into(), by: Some("ada".into()) };
    assert_eq!(step(&mut run, at(4), decide(1, "a", true)), [approved]);
    assert!(step(&mut run, at(4), decide(1, "b", false)).is_empty(), "the first one has won");
    assert_eq!(run.outstanding()[&1].phase, Phase::Queued { attempt: 1 }, "another one has the only place");
    assert_eq!(step(&mut run, at(5), answer(2, 1, "0")).len(), 1);
    assert_eq!(run.outstanding()[&1].phase, Phase::Sent { attempt: 1 }, "it was made first");
    assert_eq!(run.outstanding()[&3].phase, Phase::Queued { attempt: 1 });
    let rejected = step(&mut run, at(6), decide(4, "c", false));
    assert!(matches!(&rejected[..], [Record::Rejected { failure, .. }] if failure.code == ErrorCode::Rejected));
    assert_eq!(step(&mut run, at(7), Input::Cancel), [Record::Ended { at: at(7), end: End::Cancelled }]);
    assert!(step(&mut run, at(8), Input::Cancel).is_empty());
}

#[test]
fn a_park_limit_is_armed_when_the_call_is_made() {
    let mut run = running(Limits::DEFAULT);
    let made = effects(&mut run, at(2), Input::Script(script(vec![named("pay.tool_4", "{}")]), None));
    assert_eq!(made, [Effect::Arm { seq: 1, at: limit_of(2) }]);
    assert_eq!(run.pending(), made, "a later owner arms it again");
    let reason = ParkReason::Approval;
    assert_eq!(run.outstanding()[&1].phase, Phase::Parked { reason, attempt: 1, until: Some(limit_of(2)) });
    assert!(called("pay.tool_3").pending().is_empty(), "without a limit there is nothing to arm");
    let adopted = effects(&mut run, at(30), Input::Adopt { node: fixtures::node(2), epoch: 2, lost: true });
    assert_eq!(adopted, made, "a take-over does not lengthen it");
}

#[test]
fn a_park_limit_is_armed_when_the_call_is_parked() {
    for reason in [ParkReason::SchemaChanged, ParkReason::Credentials] {
        let mut run = called("pay.tool_1");
        assert_eq!(run.pending(), [Effect::Dispatch { seq: 1, attempt: 1 }]);
        assert_eq!(effects(&mut run, at(50), park(1, 1, reason)), [Effect::Arm { seq: 1, at: limit_of(50) }]);
        let mut run = called("pay.tool_0");
        assert!(effects(&mut run, at(50), park(1, 1, reason)).is_empty(), "without a limit");
        assert!(step(&mut run, at(1_000_000), Input::Due { seq: 1 }).is_empty(), "it is parked for ever");
        assert_eq!(run.due(at(1_000_000), 1), None);
    }
}

#[test]
fn a_call_is_rejected_when_its_park_limit_is_over_and_never_early() {
    let mut run = called("pay.tool_4");
    let early = at(2 + i64::try_from(PARK_MS).expect("a short time") - 1);
    assert!(step(&mut run, early, Input::Due { seq: 1 }).is_empty(), "invariant 7: never early");
    assert_eq!(run.due(early, 1), Some(Effect::Arm { seq: 1, at: limit_of(2) }), "invariant 6: it is armed again");
    // The journal's time may be ahead of this node's clock: it is no reason to reject.
    run.fold(&Record::Logged { at: at(500), level: "log".into(), text: String::new() }).expect("legal");
    assert!(step(&mut run, early, Input::Due { seq: 1 }).is_empty());
    assert_eq!(run.due(limit_of(2), 1), None, "deciding it records the rejection");
    let records = step(&mut run, limit_of(2), Input::Due { seq: 1 });
    let [Record::Rejected { seq: 1, decision, by: None, failure, .. }] = &records[..] else { panic!("{records:?}") };
    assert_eq!((decision.as_str(), failure.code, failure.retryable), ("park_limit", ErrorCode::Rejected, false));
    let limit = limit_of(2);
    let message = format!("pay.tool_4 was not done: nobody had decided about it by {limit}");
    assert_eq!(failure.message, message);
    assert!(step(&mut run, at(600), Input::Due { seq: 1 }).is_empty(), "once");
    assert!(step(&mut run, at(600), decide(1, "late", true)).is_empty());
}

#[test]
fn a_park_limit_is_of_no_account_once_the_call_is_let_go() {
    let mut run = called("pay.tool_4");
    step(&mut run, at(3), decide(1, "a", true));
    assert!(step(&mut run, at(500), Input::Due { seq: 1 }).is_empty(), "its timer still comes");
    assert_eq!(run.due(at(500), 1), None);
    assert_eq!(run.outstanding()[&1].phase, Phase::Sent { attempt: 1 });
    // Parked again, it has all of its time again.
    assert_eq!(
        effects(&mut run, at(500), park(1, 1, ParkReason::Credentials)),
        [Effect::Arm { seq: 1, at: limit_of(500) }]
    );
    assert!(step(&mut run, at(501), Input::Due { seq: 1 }).is_empty());
    assert_eq!(step(&mut run, limit_of(500), Input::Due { seq: 1 }).len(), 1);
}

/// It waits for a place, and not for somebody, from then on.
#[test]
fn a_park_limit_is_of_no_account_while_an_approved_call_waits_for_a_place() {
    let mut run = running(Limits { calls_in_flight: 1, ..Limits::DEFAULT });
    step(&mut run, at(2), Input::Script(script(vec![tool("{}"), named("pay.tool_4", "{}")]), None));
    step(&mut run, at(3), decide(2, "a", true));
    assert_eq!(run.outstanding()[&2].phase, Phase::Queued { attempt: 1 });
    assert!(step(&mut run, at(500), Input::Due { seq: 2 }).is_empty());
    assert_eq!(run.due(at(500), 2), None);
}

/// Somebody who lets a call go though its tool has changed has seen the change; fresh credentials may be no
/// better than the ones before.
#[test]
fn credentials_park_again_after_an_approval_and_a_changed_schema_does_not() {
    let mut run = called("pay.tool_0");
    for decision in ["a", "b"] {
        let parked = step(&mut run, at(3), park(1, 1, ParkReason::Credentials));
        assert!(matches!(&parked[..], [Record::Parked { attempt: 1, reason: ParkReason::Credentials, .. }]));
        let sent = effects(&mut run, at(4), decide(1, decision, true));
        assert_eq!(sent, [Effect::Dispatch { seq: 1, attempt: 1 }], "the same attempt: it was never made");
        assert!(!run.outstanding()[&1].approved);
    }
    assert_eq!(step(&mut run, at(5), park(1, 1, ParkReason::SchemaChanged)).len(), 1);
    step(&mut run, at(6), decide(1, "c", true));
    assert!(run.outstanding()[&1].approved);
    assert!(step(&mut run, at(7), park(1, 1, ParkReason::SchemaChanged)).is_empty(), "somebody let it go as it is");
    assert_eq!(step(&mut run, at(8), park(1, 1, ParkReason::Credentials)).len(), 1);
}

#[test]
fn only_an_attempt_that_was_to_be_made_is_parked() {
    let mut run = called("pay.tool_0");
    assert!(step(&mut run, at(3), park(1, 2, ParkReason::Credentials)).is_empty(), "another attempt");
    assert!(step(&mut run, at(3), park(2, 1, ParkReason::Credentials)).is_empty(), "another call");
    let policy = policy();
    let interrupted = Input::Interrupted { seq: 1, attempt: 1, failure: failure(), sent: false, policy: &policy };
    step(&mut run, at(3), interrupted);
    assert!(step(&mut run, at(13), park(1, 1, ParkReason::Credentials)).is_empty(), "that one is over");
    // The attempt after a back-off goes out without a record of its own.
    assert_eq!(step(&mut run, at(13), park(1, 2, ParkReason::Credentials)).len(), 1);
    assert!(step(&mut run, at(13), park(1, 2, ParkReason::Credentials)).is_empty(), "told twice");
    assert_eq!(run.due(at(13), 1), None, "the back-off is over, too");
    assert_eq!(effects(&mut run, at(14), decide(1, "a", true)), [Effect::Dispatch { seq: 1, attempt: 2 }]);
}

#[test]
fn a_call_that_is_parked_gives_its_place_back() {
    let mut run = running(Limits { calls_in_flight: 1, ..Limits::DEFAULT });
    step(&mut run, at(2), Input::Script(script(vec![tool("1"), tool("2")]), None));
    let next = effects(&mut run, at(3), park(1, 1, ParkReason::Credentials));
    assert_eq!(next, [Effect::Dispatch { seq: 2, attempt: 1 }]);
    assert!(effects(&mut run, at(4), decide(1, "a", true)).is_empty(), "it waits for a place");
    assert_eq!(effects(&mut run, at(5), answer(2, 1, "0")), [Effect::Dispatch { seq: 1, attempt: 1 }]);
    assert_eq!(run.parked(), 0);
}

/// Invariant 8.
#[test]
fn an_ended_park_leaves_attempts_and_failures_as_they_were() {
    let mut run = called("pay.tool_0");
    step(&mut run, at(3), park(1, 1, ParkReason::Credentials));
    assert_eq!((run.parked(), run.status()), (1, RunStatus::Running));
    step(&mut run, at(1_000_000), decide(1, "a", true));
    let pending = &run.outstanding()[&1];
    assert_eq!((pending.failures, pending.phase), (0, Phase::Sent { attempt: 1 }));
}

/// Invariant 6: a timer that lies in the future is let go of; one that has come needs nobody to do that.
#[test]
fn an_end_lets_go_of_timers_only_if_one_is_to_come() {
    let end = |mut run: Run, ms| {
        let effects = effects(&mut run, at(ms), Input::Cancel);
        effects.iter().filter(|effect| **effect == Effect::Disarm).count()
    };
    assert_eq!(end(running(Limits::DEFAULT), 9), 0, "none was armed");
    assert_eq!(end(called("pay.tool_0"), 9), 0);
    assert_eq!(end(called("pay.tool_3"), 9), 0);
    let slept = || {
        let mut run = running(Limits::DEFAULT);
        step(&mut run, at(2), Input::Script(script(vec![sleep(100)]), None));
        run
    };
    assert_eq!((end(slept(), 99), end(slept(), 100)), (1, 0));
    assert_eq!((end(called("pay.tool_4"), 61), end(called("pay.tool_4"), 62)), (1, 0));
    // The timer of what is over by now comes all the same.
    let mut decided = called("pay.tool_4");
    step(&mut decided, at(3), decide(1, "a", false));
    assert_eq!((end(decided.clone(), 61), end(decided, 62)), (1, 0));
    let spec = rewind_run::Spec { deadline: Some(at(100)), ..fixtures::spec() };
    let with_deadline = || folded(Limits::DEFAULT, &[fixtures::created_of(spec.clone()), fixtures::adopted(1)]);
    assert_eq!((end(with_deadline(), 99), end(with_deadline(), 100)), (1, 0));
    // A node looks after a workflow's run by timers that no record tells of.
    assert_eq!(end(called("workflows.refund"), 1_000_000), 1);
}
