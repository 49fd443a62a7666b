//! Calls that a host worker has taken and will answer later.

#[path = "support/fixtures.rs"]
mod fixtures;

use fixtures::{answer, at, effects, failure, named, once, policy, running, script, step, tool};
use rewind_model::{Limits, Seq};
use rewind_run::{Call, Effect, Input, ParkReason, Phase, Record, Run};

const DEFERRED: Phase = Phase::Deferred { attempt: 1 };

fn host() -> Call {
    named("host.tool_0", "{}")
}

fn deferred(seq: Seq) -> Input<'static> {
    Input::Deferred { seq, attempt: 1 }
}

fn adopt(epoch: u64, lost: bool) -> Input<'static> {
    Input::Adopt { node: fixtures::node(epoch), epoch, lost }
}

fn made(in_flight: usize, calls: Vec<Call>) -> Run {
    let mut run = running(Limits { calls_in_flight: in_flight, ..Limits::DEFAULT });
    step(&mut run, at(2), Input::Script(script(calls), None));
    run
}

#[test]
fn it_gives_its_place_back_and_takes_none_when_it_is_answered() {
    let mut run = made(1, vec![host(), tool("2"), tool("3")]);
    assert_eq!(effects(&mut run, at(3), deferred(1)), [Effect::Dispatch { seq: 2, attempt: 1 }]);
    assert_eq!((run.outstanding()[&1].phase, run.deferred()), (DEFERRED, 1));
    assert!(effects(&mut run, at(4), answer(1, 1, "1")).is_empty(), "the only place is another's");
    assert_eq!(run.outstanding()[&3].phase, Phase::Queued { attempt: 1 });
    assert_eq!(effects(&mut run, at(5), answer(2, 1, "2")), [Effect::Dispatch { seq: 3, attempt: 1 }]);
    assert_eq!(run.deferred(), 0);
}

#[test]
fn it_is_told_once_and_answered_once() {
    let mut run = made(9, vec![host()]);
    assert_eq!(step(&mut run, at(3), deferred(1)), [Record::Deferred { at: at(3), seq: 1, attempt: 1 }]);
    assert!(step(&mut run, at(4), deferred(1)).is_empty(), "told twice");
    assert!(matches!(step(&mut run, at(99), answer(1, 1, "7"))[..], [Record::Completed { attempt: 1, .. }]));
    assert!(step(&mut run, at(99), answer(1, 1, "8")).is_empty(), "invariant 2");
    assert!(step(&mut run, at(99), deferred(1)).is_empty(), "late");
}

/// A redelivery that the run has not heard of has a number of its own; there is no number 0.
#[test]
fn whatever_attempt_its_worker_counts_is_one() {
    for (given, recorded) in [(0, 1), (7, 7)] {
        let mut run = made(9, vec![host()]);
        let told = Input::Deferred { seq: 1, attempt: given };
        assert_eq!(step(&mut run, at(3), told), [Record::Deferred { at: at(3), seq: 1, attempt: recorded }]);
    }
}

#[test]
fn it_is_not_sent_again_by_the_next_owner() {
    for (call, lost) in [(host(), false), (host(), true), (once("host"), false), (once("host"), true)] {
        let mut run = made(9, vec![call]);
        step(&mut run, at(3), deferred(1));
        assert!(run.pending().is_empty());
        let records = step(&mut run, at(4), adopt(2, lost));
        assert!(matches!(records[..], [Record::Adopted { .. }]), "invariant 3: {records:?}");
        assert!(run.pending().is_empty());
        assert_eq!(run.outstanding()[&1].phase, DEFERRED);
        assert_eq!(step(&mut run, at(5), answer(1, 1, "1")).len(), 1);
    }
}

/// The word of it may be later than the take-over.
#[test]
fn what_an_owner_before_had_queued_may_be_deferred() {
    let mut run = made(1, vec![once("host"), tool("2")]);
    step(&mut run, at(3), adopt(2, false));
    assert_eq!(run.outstanding()[&1].phase, Phase::Elsewhere { attempt: 1 });
    assert_eq!(effects(&mut run, at(4), deferred(1)), [Effect::Dispatch { seq: 2, attempt: 1 }]);
    assert_eq!(run.outstanding()[&1].phase, DEFERRED);
}

/// Invariant 8: no time runs meanwhile.
#[test]
fn nothing_interrupts_it() {
    let mut run = made(9, vec![host()]);
    step(&mut run, at(3), deferred(1));
    let policy = policy();
    for sent in [true, false] {
        let late = Input::Interrupted { seq: 1, attempt: 1, failure: failure(), sent, policy: &policy };
        assert!(step(&mut run, at(100_000), late).is_empty());
    }
    let park = Input::Park { seq: 1, attempt: 1, reason: ParkReason::Credentials, detail: String::new() };
    assert!(step(&mut run, at(100_000), park).is_empty());
    assert!(step(&mut run, at(100_000), Input::Due { seq: 1 }).is_empty());
    assert_eq!(run.due(at(100_000), 1), None);
    assert_eq!(run.outstanding()[&1].failures, 0);
}

#[test]
fn only_a_host_worker_defers_and_only_what_it_has() {
    let calls = vec![tool("{}"), named("workflows.refund", "{}"), fixtures::sleep(100), host(), host()];
    let mut run = made(3, calls);
    for (seq, why) in [(1, "a server's"), (2, "a workflow's"), (3, "a sleep"), (5, "queued"), (6, "no call")] {
        assert!(step(&mut run, at(3), deferred(seq)).is_empty(), "{why}");
    }
    assert_eq!(step(&mut run, at(3), deferred(4)).len(), 1);
}

#[test]
fn a_run_that_only_waits_for_it_leaves_memory_and_its_end_tells_the_worker() {
    let mut run = made(9, vec![host()]);
    step(&mut run, at(3), deferred(1));
    assert_eq!(step(&mut run, at(4), Input::Idle), [Record::Waiting { at: at(4) }]);
    let call = run.outstanding()[&1].call.clone();
    assert_eq!(effects(&mut run, at(5), Input::Cancel), [Effect::Abandon { seq: 1, call }], "invariant 9");
}
