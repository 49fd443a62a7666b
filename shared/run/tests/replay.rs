//! Whole lives of runs: what they reach, what lies between two messages of a journal, who goes out next.

mod support;

use std::collections::BTreeMap;

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use rewind_model::{ErrorCode, Limits, Outcome};
use rewind_run::{Effect, End, Input, ParkReason, Record, ScriptTurn};
use support::{fixtures, node::replay, script::programs, simulation::Simulation};

fn limits(calls_in_flight: usize) -> Limits {
    Limits { calls_in_flight, ..Limits::DEFAULT }
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
                Record::Parked { reason: ParkReason::Credentials, .. } => "credentials",
                Record::Parked { reason: ParkReason::SchemaChanged, .. } => "schema changed",
                Record::Rejected { decision, .. } if decision == "park_limit" => "park limit",
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
    assert_eq!(seen.len(), 15 + 10, "{seen:?}");
    assert!(seen.values().all(|count| *count >= 5), "{seen:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Between two messages of the journal there is nothing that a script did and nobody recorded.
    #[test]
    fn at_a_message_boundary_nothing_is_lost(program in programs(), seed in any::<u64>()) {
        let limits = limits(2);
        let life = Simulation::new(&program, limits, seed).run_to_end();
        let records = life.records();
        for cut in life.boundaries() {
            let run = fixtures::folded(limits, &records[..cut]);
            if run.started_at().is_none() || run.status().ended() {
                continue;
            }
            let (_, beyond) = replay(&program, &records[..cut]).expect("no divergence");
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
        let mut records = run.decide(fixtures::at(2), Input::Script(ScriptTurn { calls: made, ..ScriptTurn::default() }, None));
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
