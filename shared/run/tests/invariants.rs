//! The project's invariants, each as far as a run by itself can break it, held against whole lives: answers,
//! decisions, deferrals, timers, cancels and crashes in any order.
//!
//! | number | of | checked |
//! |---|---|---|
//! | 1 | starts survive crashes; one key, one run | the first half here; keys are the coordinator's |
//! | 2 | one outcome a call, one key and one set of arguments | here |
//! | 3 | an unknown outcome never executes again | here; of forks in `fork.rs` |
//! | 4 | every crash point replays to the same calls | here; of forks in `fork.rs` |
//! | 5 | a stale owner is refused | here, as far as epochs go; appends are the bus's |
//! | 6 | what waits can be woken, what ended holds nothing | here |
//! | 7 | timers fire once and never early | here; lateness is the node's |
//! | 8 | parked time consumes no timeout | here |
//! | 9 | a cancel ends a run from every state | here; that of children is the node's |
//! | 10 | a fork re-executes nothing | `fork.rs`, `invariant_10_…` |
//! | 11 | an over-size payload fails one call | here |
//! | 13 | everything makes progress | here |

mod support;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rewind_model::{ErrorCode, Limits, Outcome, RunStatus, Seq, Timestamp};
use rewind_run::{Call, Effect, End, Input, Phase, Record, Run, Why};
use support::{
    crash::check_cut,
    fixtures,
    life::{Life, Recorded},
    oracle,
    script::{Program, programs},
    simulation::Simulation,
};

fn limits(calls_in_flight: usize) -> Limits {
    Limits { calls_in_flight, ..Limits::DEFAULT }
}

/// A program, what its run may have at once, and how its life goes.
fn lives() -> impl Strategy<Value = (Program, Limits, u64)> {
    (programs(), 1..=4usize, any::<u64>()).prop_map(|(program, in_flight, seed)| (program, limits(in_flight), seed))
}

fn lived((program, limits, seed): &(Program, Limits, u64)) -> Life {
    Simulation::new(program, *limits, *seed).run_to_end()
}

/// Each record with what was outstanding before it.
fn with_before(life: &Life) -> impl Iterator<Item = (&Recorded, &Recorded)> {
    life.history.iter().zip(life.history.iter().skip(1))
}

/// Another node, or this one after a crash, goes on from a journal that ends here.
fn check_continuation(program: &Program, limits: Limits, records: &[Record], cut: usize, seed: u64) {
    let prefix = &records[..cut];
    let life = Simulation::resume(program, limits, seed, prefix).run_to_end();
    let continued = life.records();
    oracle::check_history(&continued);
    assert_eq!(&continued[..cut], prefix, "replay never writes over what it read");
    check_cut(program, limits, &life, &continued, continued.len());
}

fn with_somebody(phase: Phase) -> bool {
    match phase {
        Phase::Sent { .. } | Phase::BackingOff { .. } | Phase::Elsewhere { .. } | Phase::Deferred { .. } => true,
        Phase::Queued { .. } | Phase::Parked { .. } | Phase::Unknown { .. } | Phase::Sleeping | Phase::Recorded => {
            false
        }
    }
}

/// What an end calls for: that the timers are let go of, and which calls nobody waits for any more.
fn let_go(effects: &[Effect]) -> (bool, BTreeSet<Seq>) {
    let seq = |effect: &Effect| match effect {
        Effect::Abandon { seq, .. } => Some(*seq),
        Effect::Disarm => None,
        Effect::Dispatch { .. } | Effect::Arm { .. } => panic!("an end sends nothing: {effect:?}"),
    };
    (effects.contains(&Effect::Disarm), effects.iter().filter_map(seq).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariant_1_a_start_that_was_recorded_survives_any_crash(life in lives()) {
        let (program, limits, seed) = &life;
        let first = lived(&life).records()[0].clone();
        for seed in [*seed, !seed] {
            let records = Simulation::resume(program, *limits, seed, std::slice::from_ref(&first)).run_to_end().records();
            prop_assert_eq!(&records[0], &first);
            let ended = matches!(records.last(), Some(Record::Ended { .. }));
            prop_assert!(ended, "{:?}", records.last());
        }
    }

    #[test]
    fn invariant_2_a_call_has_one_outcome_and_every_attempt_is_the_same_call(life in lives()) {
        let life = lived(&life);
        let records = life.records();
        oracle::check_outcomes(&records);
        let mut calls: BTreeMap<Seq, Call> = BTreeMap::new();
        for Recorded { record, outstanding, .. } in &life.history {
            if let Record::Called { seq, call, .. } = record {
                calls.insert(*seq, call.clone());
            }
            for (seq, pending) in outstanding {
                prop_assert_eq!(&pending.call, &calls[seq]);
            }
        }
    }

    #[test]
    fn invariant_3_an_unknown_outcome_never_executes_again(life in lives()) {
        let life = lived(&life);
        let (mut once, mut unknown) = (BTreeSet::new(), BTreeMap::new());
        for (n, record) in life.records().into_iter().enumerate() {
            match record {
                Record::Called { seq, call, .. } if call.terms().at_most_once => {
                    once.insert(seq);
                }
                Record::Completed { seq, outcome: Outcome::Err(why), .. } if why.code == ErrorCode::OutcomeUnknown => {
                    unknown.insert(seq, n);
                    prop_assert!(once.contains(&seq) && !why.retryable, "{:?}", why);
                }
                _ => {}
            }
        }
        for seq in once {
            let reached = life.sent.iter().filter(|sent| sent.seq == seq && sent.reached).count();
            prop_assert!(reached <= 1, "call {} is done {} times", seq, reached);
            let after = |sent: &&support::life::Sent| unknown.get(&seq).is_some_and(|n| sent.records > *n);
            prop_assert!(!life.sent.iter().filter(|sent| sent.seq == seq).any(|sent| after(&sent)));
        }
    }

    #[test]
    fn invariant_4_every_crash_point_replays_to_the_same_calls(life in lives()) {
        let (program, limits, seed) = &life;
        let life = lived(&life);
        let records = life.records();
        prop_assert!(life.history.iter().map(|recorded| &recorded.record).eq(&records));
        check_cut(program, *limits, &life, &records, 0);
        for cut in 1..=records.len() {
            check_cut(program, *limits, &life, &records, cut);
            check_continuation(program, *limits, &records, cut, seed ^ cut as u64);
        }
    }

    #[test]
    fn invariant_5_a_stale_owner_is_refused(life in lives()) {
        let records = lived(&life).records();
        let mut run = Run::new(fixtures::run_id(), life.1);
        let mut last = 0;
        for record in &records {
            if let Record::Adopted { epoch, .. } = record {
                last = *epoch;
            }
            run.fold(record).expect("legal");
            if run.status().ended() || run.owner().is_none() {
                continue;
            }
            for given in [0, last.saturating_sub(1), last] {
                let refused = run.clone().fold(&fixtures::adopted(given)).expect_err("it was adopted since");
                prop_assert_eq!(refused.why, Why::StaleEpoch { given, current: last });
            }
            for given in [last + 1, u64::MAX] {
                prop_assert!(run.clone().fold(&fixtures::adopted(given)).is_ok());
            }
        }
    }

    #[test]
    fn invariant_6_what_waits_can_be_woken_and_what_ended_holds_nothing(life in lives()) {
        let life = lived(&life);
        let mut last_timer = Timestamp::default();
        let mut child = false;
        for (before, now) in with_before(&life) {
            for effect in &now.effects {
                if let Effect::Arm { at, .. } = effect {
                    last_timer = last_timer.max(*at);
                }
            }
            match &now.record {
                Record::Called { call, .. } => child |= call.is_workflow(),
                Record::Waiting { .. } => {
                    let waits = |phase: Phase| {
                        let decided = matches!(phase, Phase::Parked { .. });
                        decided || matches!(phase, Phase::Deferred { .. } | Phase::Elsewhere { .. })
                    };
                    let others = now.outstanding.values().any(|pending| waits(pending.phase));
                    prop_assert!(!now.pending.is_empty() || others, "a wake source: {:?}", now.outstanding);
                }
                Record::Ended { at, .. } => {
                    prop_assert!(now.outstanding.is_empty() && now.pending.is_empty());
                    let (timers, calls) = let_go(&now.effects);
                    prop_assert_eq!(timers, child || last_timer > *at, "a timer that is to come is let go of");
                    let held = before.outstanding.iter().filter(|(_, pending)| with_somebody(pending.phase));
                    prop_assert_eq!(calls, held.map(|(seq, _)| *seq).collect());
                }
                _ => {}
            }
        }
    }

    #[test]
    fn invariant_7_timers_fire_once_and_never_early(life in lives()) {
        let life = lived(&life);
        let records = life.records();
        oracle::check_timers(&records);
        for record in &records {
            let Record::AttemptFailed { seq, attempt, retry_at, .. } = record else { continue };
            let again = life.sent.iter().filter(|sent| (sent.seq, sent.attempt) == (*seq, attempt + 1));
            for sent in again {
                prop_assert!(sent.at >= *retry_at, "call {} backs off until {} and goes out at {}", seq, retry_at, sent.at);
            }
        }
    }

    #[test]
    fn invariant_8_time_that_is_waited_for_others_consumes_nothing(life in lives()) {
        let life = lived(&life);
        for (before, now) in with_before(&life) {
            let (seq, held) = match &now.record {
                Record::Parked { seq, .. } | Record::Deferred { seq, .. } => (seq, false),
                Record::Approved { seq, .. } => (seq, true),
                _ => continue,
            };
            let (before, after) = (&before.outstanding[seq], &now.outstanding[seq]);
            prop_assert_eq!(before.failures, after.failures);
            // A worker may tell of an attempt before.
            let deferred = matches!(after.phase, Phase::Deferred { .. });
            prop_assert!(deferred || attempt(before.phase) == attempt(after.phase), "no attempt is used up");
            let own: Vec<&Effect> = now.effects.iter().filter(|effect| of_call(effect, *seq)).collect();
            match after.phase {
                Phase::Parked { until: Some(until), .. } => {
                    prop_assert_eq!(own, [&Effect::Arm { seq: *seq, at: until }], "only a limit of its own");
                }
                Phase::Sent { attempt } if held => prop_assert_eq!(own, [&Effect::Dispatch { seq: *seq, attempt }]),
                _ => prop_assert!(own.is_empty(), "no timer runs: {:?}", own),
            }
        }
    }

    #[test]
    fn invariant_9_a_cancel_ends_a_run_from_every_state(life in lives()) {
        let records = lived(&life).records();
        let mut run = Run::new(fixtures::run_id(), life.1);
        for record in &records {
            run.fold(record).expect("legal");
            if run.status().ended() || run.owner().is_none() {
                continue;
            }
            let mut cancelled = run.clone();
            let effects = fixtures::effects(&mut cancelled, run.last_at(), Input::Cancel);
            prop_assert_eq!(cancelled.status(), RunStatus::Cancelled);
            prop_assert!(cancelled.outstanding().is_empty() && cancelled.pending().is_empty());
            let held = run.outstanding().iter().filter(|(_, pending)| with_somebody(pending.phase));
            prop_assert_eq!(let_go(&effects).1, held.map(|(seq, _)| *seq).collect(), "children are told, too");
            prop_assert!(cancelled.decide(run.last_at(), Input::Cancel).is_empty(), "once");
        }
    }

    /// The arguments of these programs are about as long as the limit is: some are over it.
    #[test]
    fn invariant_11_an_over_size_payload_fails_one_call((program, limits, seed) in lives()) {
        let limits = Limits { argument_bytes: 37, result_bytes: 60, log_line_bytes: 100, ..limits };
        let records = Simulation::new(&program, limits, seed).run_to_end().records();
        for record in &records[1..] {
            match record {
                Record::Called { call: Call::Tool { arguments, .. }, .. } => {
                    prop_assert!(arguments.size() <= limits.argument_bytes as u64);
                }
                Record::Refused { failure, .. } => {
                    prop_assert!([ErrorCode::TooLarge, ErrorCode::InvalidArguments].contains(&failure.code));
                }
                Record::Ended { end: End::Failed { error }, .. } => {
                    prop_assert!(["stalled", "script_error"].contains(&error.code.as_str()), "{:?}", error);
                }
                _ => {}
            }
            prop_assert!(record.size() < 400, "every record is small: {:?}", record);
        }
    }

    #[test]
    fn invariant_13_a_run_ends_whatever_happens_to_it(life in lives()) {
        let records = lived(&life).records();
        oracle::check_history(&records);
        let ended = matches!(records.last(), Some(Record::Ended { .. }));
            prop_assert!(ended, "{:?}", records.last());
    }
}

/// 0: it has none.
fn attempt(phase: Phase) -> u32 {
    match phase {
        Phase::Queued { attempt }
        | Phase::Sent { attempt }
        | Phase::BackingOff { attempt, .. }
        | Phase::Parked { attempt, .. }
        | Phase::Deferred { attempt }
        | Phase::Elsewhere { attempt }
        | Phase::Unknown { attempt } => attempt,
        Phase::Recorded | Phase::Sleeping => 0,
    }
}

fn of_call(effect: &Effect, call: Seq) -> bool {
    match effect {
        Effect::Dispatch { seq, .. } | Effect::Arm { seq, .. } | Effect::Abandon { seq, .. } => *seq == call,
        Effect::Disarm => false,
    }
}
