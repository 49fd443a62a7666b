//! What is outstanding after some records, computed the slow and obvious way: the state machine
//! is held against it, so it shares nothing with it but the records.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rewind_model::{Seq, Timestamp};
use rewind_run::{Call, Effect, ParkReason, Phase, Record, Terms};

/// The phase of each call without an outcome.
pub(crate) fn outstanding(records: &[Record], in_flight: usize) -> BTreeMap<Seq, Phase> {
    let mut phases = BTreeMap::new();
    let mut tools: BTreeMap<Seq, (bool, Terms)> = BTreeMap::new();
    let parked = |seq, at: Timestamp, reason, attempt, tools: &BTreeMap<Seq, (bool, Terms)>| {
        let limit = tools.get(&seq).and_then(|(_, terms)| terms.park_ms);
        Phase::Parked { reason, attempt, until: limit.map(|ms| at.plus(Duration::from_millis(ms))) }
    };
    for record in records {
        match record {
            Record::Called { seq, call, .. } if call.origin().is_some() => {
                phases.insert(*seq, Phase::Recorded);
            }
            Record::Called { at, seq, call: Call::Tool { tool, terms, .. } } => {
                tools.insert(*seq, (["host", "workflows"].contains(&tool.export.as_str()), *terms));
                let phase = match terms.approval {
                    true => parked(*seq, *at, ParkReason::Approval, 1, &tools),
                    false => Phase::Queued { attempt: 1 },
                };
                phases.insert(*seq, phase);
            }
            Record::Called { seq, call: Call::Sleep { .. }, .. } => {
                phases.insert(*seq, Phase::Sleeping);
            }
            Record::Parked { at, seq, attempt, reason, .. } => {
                let parked = parked(*seq, *at, *reason, *attempt, &tools);
                phases.insert(*seq, parked).expect("an outstanding call");
            }
            Record::Approved { seq, .. } => match phases.get_mut(seq) {
                Some(phase @ Phase::Parked { .. }) => {
                    let Phase::Parked { attempt, .. } = *phase else { unreachable!() };
                    *phase = Phase::Queued { attempt };
                }
                other => panic!("a decision about {other:?}"),
            },
            Record::Deferred { seq, attempt, .. } => {
                phases.insert(*seq, Phase::Deferred { attempt: *attempt }).expect("an outstanding call");
            }
            Record::Retried { seq, attempt, .. } => {
                phases.insert(*seq, Phase::Sent { attempt: *attempt }).expect("an outstanding call");
            }
            Record::Completed { seq, .. }
            | Record::Rejected { seq, .. }
            | Record::Fired { seq, .. }
            | Record::Taken { seq, .. } => {
                phases.remove(seq).expect("invariant 2: an outcome ends a call that has none");
            }
            Record::AttemptFailed { seq, attempt, retry_at, .. } => {
                let phase = Phase::BackingOff { attempt: attempt + 1, until: *retry_at };
                phases.insert(*seq, phase).expect("an attempt of an outstanding call");
            }
            Record::Adopted { .. } => {
                for (seq, phase) in &mut phases {
                    let Phase::Sent { attempt } = *phase else { continue };
                    let (queued, Terms { at_most_once, .. }) = tools[seq];
                    *phase = match (queued, at_most_once) {
                        (true, true) => Phase::Elsewhere { attempt },
                        (true, false) => Phase::Sent { attempt },
                        (false, true) => Phase::Unknown { attempt },
                        (false, false) => Phase::Sent { attempt: attempt + 1 },
                    };
                }
            }
            Record::Ended { .. } => phases.clear(),
            Record::Created { .. }
            | Record::Refused { .. }
            | Record::Diverged { .. }
            | Record::Logged { .. }
            | Record::Waiting { .. } => {}
        }
        send_what_fits(&mut phases, in_flight);
    }
    phases
}

fn send_what_fits(phases: &mut BTreeMap<Seq, Phase>, in_flight: usize) {
    let sent = |phase: &Phase| {
        let with_others = matches!(phase, Phase::Sent { .. } | Phase::Elsewhere { .. } | Phase::Unknown { .. });
        with_others || matches!(phase, Phase::BackingOff { .. })
    };
    while phases.values().filter(|phase| sent(phase)).count() < in_flight {
        let queued = |phase: &&mut Phase| matches!(phase, Phase::Queued { .. });
        let Some(first) = phases.values_mut().find(queued) else { return };
        let Phase::Queued { attempt } = *first else { return };
        *first = Phase::Sent { attempt };
    }
}

/// The effects that somebody has to perform for these calls to go on.
pub(crate) fn pending(records: &[Record], in_flight: usize) -> Vec<Effect> {
    let sleeps: BTreeMap<Seq, _> = records
        .iter()
        .filter_map(|record| match record {
            Record::Called { seq, call: Call::Sleep { until, .. }, .. } => Some((*seq, *until)),
            _ => None,
        })
        .collect();
    outstanding(records, in_flight)
        .into_iter()
        .filter_map(|(seq, phase)| match phase {
            Phase::Queued { .. }
            | Phase::Parked { until: None, .. }
            | Phase::Elsewhere { .. }
            | Phase::Unknown { .. }
            | Phase::Deferred { .. }
            | Phase::Recorded => None,
            Phase::Parked { until: Some(at), .. } => Some(Effect::Arm { seq, at }),
            Phase::Sent { attempt } => Some(Effect::Dispatch { seq, attempt }),
            Phase::BackingOff { until, .. } => Some(Effect::Arm { seq, at: until }),
            Phase::Sleeping => Some(Effect::Arm { seq, at: sleeps[&seq] }),
        })
        .collect()
}

/// Every call that the records hold, sent or refused, as (seq, tool and arguments or sleep).
pub(crate) fn calls(records: &[Record]) -> Vec<(Seq, String)> {
    records
        .iter()
        .filter_map(|record| match record {
            Record::Called { seq, call, .. } => Some((*seq, name(call))),
            Record::Refused { seq, tool, arguments, .. } => Some((*seq, format!("{tool} {arguments}"))),
            _ => None,
        })
        .collect()
}

/// A call as [`calls`] names it. A refused one's `raw` is not recorded.
pub(crate) fn name(call: &Call) -> String {
    match call {
        Call::Tool { tool, arguments, .. } => format!("{tool} {}", arguments.digest()),
        Call::Sleep { until, .. } => format!("sleep until {until}"),
    }
}

/// Checks what holds for the records of any run, ended or not.
pub(crate) fn check_history(records: &[Record]) {
    check_outcomes(records);
    check_timers(records);
    for (n, record) in records.iter().enumerate() {
        let ended = matches!(record, Record::Ended { .. });
        assert!(!ended || n + 1 == records.len(), "nothing follows the end");
    }
    let seqs: Vec<Seq> = calls(records).into_iter().map(|(seq, _)| seq).collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as Seq), "calls are numbered in the order made: {seqs:?}");
    assert!(records.is_sorted_by_key(Record::at), "journal time never goes back");
}

/// Invariant 2.
pub(crate) fn check_outcomes(records: &[Record]) {
    let (mut made, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for record in records {
        match record {
            Record::Called { seq, .. } => assert!(made.insert(*seq), "call {seq} is made once"),
            Record::Refused { seq, .. } => {
                assert!(made.insert(*seq) && ended.insert(*seq), "invariant 2: call {seq} ends once");
            }
            Record::Completed { seq, .. }
            | Record::Rejected { seq, .. }
            | Record::Taken { seq, .. }
            | Record::Fired { seq, .. } => {
                assert!(made.contains(seq), "call {seq} ends after it was made");
                assert!(ended.insert(*seq), "invariant 2: call {seq} ends once");
            }
            Record::AttemptFailed { seq, .. }
            | Record::Retried { seq, .. }
            | Record::Parked { seq, .. }
            | Record::Approved { seq, .. }
            | Record::Deferred { seq, .. } => {
                assert!(made.contains(seq) && !ended.contains(seq), "invariant 2: nothing becomes of an ended call");
            }
            _ => {}
        }
    }
}

/// Invariant 7, of what is recorded: a sleep is over and a park limit is due by the journal's time.
pub(crate) fn check_timers(records: &[Record]) {
    let mut waits_until: BTreeMap<Seq, Timestamp> = BTreeMap::new();
    let mut limits: BTreeMap<Seq, Duration> = BTreeMap::new();
    for record in records {
        match record {
            Record::Called { seq, call: Call::Sleep { until, .. }, .. } => {
                waits_until.insert(*seq, *until);
            }
            Record::Called { at, seq, call: Call::Tool { terms, .. } } => {
                if let Some(limit) = terms.park_ms.map(Duration::from_millis) {
                    limits.insert(*seq, limit);
                    waits_until.insert(*seq, at.plus(limit));
                }
            }
            Record::Parked { at, seq, .. } => {
                if let Some(limit) = limits.get(seq) {
                    waits_until.insert(*seq, at.plus(*limit));
                }
            }
            Record::Rejected { at, seq, decision, .. } if decision == "park_limit" => {
                assert!(*at >= waits_until[seq], "invariant 7: call {seq} is never rejected early");
            }
            Record::Fired { at, seq } => {
                let until = waits_until.remove(seq).expect("invariant 7: a timer fires once");
                assert!(*at >= until, "invariant 7: timer {seq} never fires early");
            }
            _ => {}
        }
    }
}
