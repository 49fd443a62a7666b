//! What is outstanding after some records, computed the slow and obvious way: the state machine
//! is held against it, so it shares nothing with it but the records.

use std::collections::{BTreeMap, BTreeSet};

use rewind_model::Seq;
use rewind_run::{Call, Effect, ParkReason, Phase, Record};

/// The phase of each call without an outcome.
pub(crate) fn outstanding(records: &[Record], in_flight: usize) -> BTreeMap<Seq, Phase> {
    let mut phases = BTreeMap::new();
    let mut once = BTreeSet::new();
    for record in records {
        match record {
            Record::Called { seq, call: Call::Tool { terms, .. }, .. } => {
                let parked = Phase::Parked { reason: ParkReason::Approval, attempt: 1 };
                phases.insert(*seq, if terms.approval { parked } else { Phase::Queued { attempt: 1 } });
                if terms.at_most_once {
                    once.insert(*seq);
                }
            }
            Record::Called { seq, call: Call::Sleep { .. }, .. } => {
                phases.insert(*seq, Phase::Sleeping);
            }
            Record::Parked { seq, attempt, reason, .. } => {
                let parked = Phase::Parked { reason: *reason, attempt: *attempt };
                phases.insert(*seq, parked).expect("an outstanding call");
            }
            Record::Approved { seq, .. } => match phases.get_mut(seq) {
                Some(phase @ Phase::Parked { .. }) => {
                    let Phase::Parked { attempt, .. } = *phase else { unreachable!() };
                    *phase = Phase::Queued { attempt };
                }
                other => panic!("a decision about {other:?}"),
            },
            Record::Retried { seq, attempt, .. } => {
                phases.insert(*seq, Phase::Sent { attempt: *attempt }).expect("an outstanding call");
            }
            Record::Completed { seq, .. } | Record::Rejected { seq, .. } | Record::Fired { seq, .. } => {
                phases.remove(seq).expect("invariant 2: an outcome ends a call that has none");
            }
            Record::AttemptFailed { seq, attempt, retry_at, .. } => {
                let phase = Phase::BackingOff { attempt: attempt + 1, until: *retry_at };
                phases.insert(*seq, phase).expect("an attempt of an outstanding call");
            }
            Record::Adopted { .. } => {
                for (seq, phase) in &mut phases {
                    if let Phase::Sent { attempt } = *phase {
                        let again = Phase::Sent { attempt: attempt + 1 };
                        *phase = if once.contains(seq) { Phase::Unknown { attempt } } else { again };
                    }
                }
            }
            Record::Ended { .. } => phases.clear(),
            Record::Created { .. } | Record::Refused { .. } | Record::Logged { .. } | Record::Waiting { .. } => {}
        }
        send_what_fits(&mut phases, in_flight);
    }
    phases
}

fn send_what_fits(phases: &mut BTreeMap<Seq, Phase>, in_flight: usize) {
    let sent = |phase: &Phase| matches!(phase, Phase::Sent { .. } | Phase::BackingOff { .. } | Phase::Unknown { .. });
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
            Record::Called { seq, call: Call::Sleep { until }, .. } => Some((*seq, *until)),
            _ => None,
        })
        .collect();
    outstanding(records, in_flight)
        .into_iter()
        .filter_map(|(seq, phase)| match phase {
            Phase::Queued { .. } | Phase::Parked { .. } | Phase::Elsewhere { .. } | Phase::Unknown { .. } => None,
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
        Call::Sleep { until } => format!("sleep until {until}"),
    }
}

/// Checks what holds for the records of any run, ended or not.
pub(crate) fn check_history(records: &[Record]) {
    let mut ended = BTreeSet::new();
    let mut waits_until = BTreeMap::new();
    for (n, record) in records.iter().enumerate() {
        match record {
            Record::Called { seq, call: Call::Sleep { until }, .. } => {
                waits_until.insert(*seq, *until);
            }
            Record::Completed { seq, .. } | Record::Refused { seq, .. } | Record::Rejected { seq, .. } => {
                assert!(ended.insert(*seq), "invariant 2: call {seq} ends once");
            }
            Record::Fired { at, seq } => {
                assert!(ended.insert(*seq), "invariant 7: timer {seq} fires once");
                assert!(*at >= waits_until[seq], "invariant 7: timer {seq} never fires early");
            }
            Record::Ended { .. } => assert_eq!(n + 1, records.len(), "nothing follows the end"),
            _ => {}
        }
    }
    let seqs: Vec<Seq> = calls(records).into_iter().map(|(seq, _)| seq).collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len() as Seq), "calls are numbered in the order made: {seqs:?}");
    assert!(records.is_sorted_by_key(Record::at), "journal time never goes back");
}
