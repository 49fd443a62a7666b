//! What is left of a run that was simulated.

use std::collections::{BTreeMap, BTreeSet};

use rewind_model::{RunStatus, Seq, Timestamp};
use rewind_run::{Delivered, Delivery, Effect, Entry, Pending, Record};

/// A record, and what the run that wrote it had outstanding right after it.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) record: Record,
    pub(crate) outstanding: BTreeMap<Seq, Pending>,
    pub(crate) pending: Vec<Effect>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) status: RunStatus,
}

/// A whole life of a run.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) history: Vec<Recorded>,
    /// The journal's messages.
    pub(crate) entries: Vec<Vec<u8>>,
    pub(crate) sent: Vec<Sent>,
    /// Calls for which a timer was armed, and of the deadline.
    pub(crate) armed: BTreeSet<Seq>,
}

/// An attempt that a node made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) seq: Seq,
    pub(crate) attempt: u32,
    /// By the node's clock.
    pub(crate) at: Timestamp,
    /// Its tool may have got it.
    pub(crate) reached: bool,
    /// Records that the journal held by then.
    pub(crate) records: usize,
}

impl Life {
    /// The records as a reader of the journal gets them.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.entries
            .iter()
            .flat_map(|bytes| Entry::from_bytes(bytes).expect("what was written can be read").records)
            .collect()
    }

    /// Numbers of records at which a journal message ends.
    pub(crate) fn boundaries(&self) -> BTreeSet<usize> {
        let lengths = self.entries.iter().map(|bytes| Entry::from_bytes(bytes).expect("readable").records.len());
        lengths
            .scan(0, |sum, length| {
                *sum += length;
                Some(*sum)
            })
            .collect()
    }

    /// Calls that may have reached their tools by the time the journal held this many records.
    pub(crate) fn reached(&self, records: usize) -> BTreeSet<Seq> {
        self.sent.iter().filter(|sent| sent.reached && sent.records <= records).map(|sent| sent.seq).collect()
    }

    /// Calls of which some attempt was made.
    pub(crate) fn dispatched(&self) -> BTreeSet<Seq> {
        self.sent.iter().map(|sent| sent.seq).collect()
    }
}

/// All that a script gets: which call got what, and the time.
pub(crate) fn deliveries(records: &[Record]) -> Vec<(Seq, Timestamp, Delivered)> {
    records.iter().filter_map(Delivery::of).map(|delivery| (delivery.seq, delivery.at, delivery.value)).collect()
}
