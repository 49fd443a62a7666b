//! What has to hold of a journal that ends anywhere.

use rewind_model::{Limits, Seq};
use rewind_run::{Delivery, Record};

use super::{fixtures, life::Life, node::replay, oracle, script::Program};

/// Invariant 4, at one crash point: the journal holds the first `cut` records.
pub(crate) fn check_cut(program: &Program, limits: Limits, life: &Life, records: &[Record], cut: usize) {
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
    if run.started_at().is_none() {
        return;
    }
    let (script, beyond) = replay(program, prefix).expect("no divergence");
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
