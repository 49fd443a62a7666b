//! Whole lives of runs, cut at every record. Numbers of invariants are those of the project's list:
//! 2 one outcome a call, 4 every crash point replays to the same calls, 6 what waits can be woken and
//! what ended holds nothing, 7 timers fire once and never early, 13 everything makes progress.

mod support;

use std::collections::BTreeMap;

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use rewind_model::{ErrorCode, Limits, Outcome, Seq};
use rewind_run::{Delivery, Effect, End, Input, Record, ScriptTurn};
use support::{
    fixtures, oracle,
    script::{Program, programs},
    simulation::{Life, Simulation, replay},
};

fn limits(calls_in_flight: usize) -> Limits {
    Limits { calls_in_flight, ..Limits::DEFAULT }
}

/// Invariant 4, at one crash point: the journal holds the first `cut` records.
fn check_cut(program: &Program, limits: Limits, life: &Life, records: &[Record], cut: usize) {
    let prefix = &records[..cut];
    let run = fixtures::folded(limits, prefix);
    assert_eq!(run.pending(), oracle::pending(prefix, limits.calls_in_flight), "after {cut} records");
    let phases: Vec<_> = run.outstanding().iter().map(|(seq, pending)| (*seq, pending.phase)).collect();
    assert!(phases.into_iter().eq(oracle::outstanding(prefix, limits.calls_in_flight)));
    if let Some(last) = cut.checked_sub(1).map(|last| &life.history[last]) {
        assert_eq!(run.outstanding(), &last.outstanding, "after {cut} records");
        assert_eq!(run.pending(), last.pending);
        assert_eq!(run.status(), last.status);
    }
    let Some(started_at) = run.started_at() else { return };
    let (script, beyond) = replay(program, started_at, prefix).expect("no divergence");
    let delivered = prefix.iter().filter_map(Delivery::of).map(|delivery| delivery.seq);
    let received: Vec<Seq> = script.received().collect();
    assert!(delivered.take(received.len()).eq(received), "deliveries come in journal order");
    // One result that was recorded before the cut leads to the same calls, those that the journal
    // holds behind the cut included.
    for ((seq, then), now) in oracle::calls(records).iter().zip(script.made()) {
        assert_eq!(*then, oracle::name(now), "invariant 4: call {seq}, cut after {cut} records");
    }
    let made = oracle::calls(prefix).len();
    assert!(script.made().len() >= made, "invariant 4: every recorded call is made again");
    if !run.status().ended() {
        assert_eq!(beyond.calls.len(), script.made().len() - made, "what is beyond the journal is new");
    }
}

fn check_continuation(program: &Program, limits: Limits, records: &[Record], cut: usize, seed: u64) {
    let prefix = &records[..cut];
    let life = Simulation::resume(program, limits, seed, prefix).run_to_end();
    let continued = life.records();
    oracle::check_history(&continued);
    assert_eq!(&continued[..cut], prefix, "replay never writes over what it read");
    assert!(matches!(continued.last(), Some(Record::Ended { .. })), "invariant 13");
    check_cut(program, limits, &life, &continued, continued.len());
}

/// The properties below would hold of lives in which nothing happens.
#[test]
fn the_simulation_reaches_every_kind_of_record() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeMap::new();
    for seed in 0..200 {
        let program = programs().new_tree(&mut runner).expect("a program").current();
        for record in Simulation::new(&program, limits(2), seed).run_to_end().records() {
            *seen.entry(record.name()).or_insert(0) += 1;
            let special = match &record {
                Record::AttemptFailed { attempt: 2.., .. } => "attempt_failed again",
                Record::Adopted { epoch: 2.., .. } => "adopted again",
                Record::Ended { end: End::Completed { .. }, .. } => "returned",
                Record::Ended { end: End::Failed { error }, .. } if error.code == "stalled" => "stalled",
                Record::Ended { end: End::Failed { .. }, .. } => "threw",
                Record::Ended { end: End::Cancelled, .. } => "cancelled",
                Record::Completed { outcome: Outcome::Err(why), .. } if why.code == ErrorCode::OutcomeUnknown => {
                    "unknown"
                }
                _ => continue,
            };
            *seen.entry(special).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.len(), 14 + 7, "{seen:?}");
    assert!(seen.values().all(|count| *count >= 5), "{seen:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_crash_point_replays_to_the_same_calls(
        program in programs(),
        seed in any::<u64>(),
        in_flight in 1..=4usize,
    ) {
        let limits = limits(in_flight);
        let life = Simulation::new(&program, limits, seed).run_to_end();
        let records = life.records();
        prop_assert!(life.history.iter().map(|recorded| &recorded.record).eq(&records));
        oracle::check_history(&records);
        check_cut(&program, limits, &life, &records, 0);
        for cut in 1..=records.len() {
            check_cut(&program, limits, &life, &records, cut);
            check_continuation(&program, limits, &records, cut, seed ^ cut as u64);
        }
    }

    /// Between two messages of the journal there is nothing that a script did and nobody recorded.
    #[test]
    fn at_a_message_boundary_nothing_is_lost(program in programs(), seed in any::<u64>()) {
        let limits = limits(2);
        let life = Simulation::new(&program, limits, seed).run_to_end();
        let records = life.records();
        for cut in life.boundaries() {
            let run = fixtures::folded(limits, &records[..cut]);
            let (Some(started_at), false) = (run.started_at(), run.status().ended()) else { continue };
            let (_, beyond) = replay(&program, started_at, &records[..cut]).expect("no divergence");
            prop_assert!(beyond.calls.is_empty() && beyond.logs.is_empty() && beyond.end.is_none(), "{beyond:?}");
        }
    }

    #[test]
    fn queued_calls_go_out_in_order_within_the_limit(
        calls in 1..40u32,
        in_flight in 1..=8usize,
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 40),
    ) {
        let mut run = fixtures::folded(limits(in_flight), &[fixtures::created(), fixtures::adopted(1)]);
        let made = (1..=calls).map(|seq| fixtures::new_call(seq, fixtures::tool("{}"))).collect();
        let mut records = run.decide(fixtures::at(2), Input::Script(ScriptTurn { calls: made, ..ScriptTurn::default() }));
        let (mut sent, mut in_the_air) = (Vec::new(), Vec::new());
        for pick in picks {
            for record in records.drain(..) {
                for effect in run.fold(&record).expect("legal") {
                    let Effect::Dispatch { seq, attempt: 1 } = effect else { panic!("{effect:?}") };
                    sent.push(seq);
                    in_the_air.push(seq);
                }
            }
            prop_assert!(in_the_air.len() <= in_flight);
            prop_assert_eq!(in_the_air.len(), in_flight.min(run.outstanding().len()), "no slot stays empty");
            if in_the_air.is_empty() {
                break;
            }
            let seq = in_the_air.swap_remove(pick.index(in_the_air.len()));
            let outcome = Outcome::Ok(fixtures::inline("null"));
            records = run.decide(fixtures::at(3), Input::Answer { seq, attempt: 1, outcome });
        }
        prop_assert!(sent.iter().copied().eq(1..=calls), "{:?}", sent);
    }
}
