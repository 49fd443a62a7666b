use rewind_model::{Outcome, Payload, Seq, Timestamp, ToolFailure};

use crate::Record;

/// What a record brings the script: the end of one of its calls.
///
/// Scripts get deliveries in journal order, live and on replay alike: that order decides the order
/// of everything that the script does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub seq: Seq,
    /// Script time from here on.
    pub at: Timestamp,
    pub value: Delivered,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivered {
    Value(Payload),
    Failure(ToolFailure),
    Slept,
}

impl Delivery {
    /// `None` for a record that the script does not see.
    pub fn of(record: &Record) -> Option<Self> {
        let (seq, at, value) = match record {
            Record::Completed { seq, at, outcome: Outcome::Ok(payload), .. } => {
                (seq, at, Delivered::Value(payload.clone()))
            }
            Record::Taken { seq, then, taken, .. } => (seq, then, taken.clone().into()),
            Record::Refused { seq, at, then, failure, .. } => {
                (seq, then.as_ref().unwrap_or(at), Delivered::Failure(failure.clone()))
            }
            Record::Completed { seq, at, outcome: Outcome::Err(failure), .. }
            | Record::Rejected { seq, at, failure, .. } => (seq, at, Delivered::Failure(failure.clone())),
            Record::Fired { seq, at } => (seq, at, Delivered::Slept),
            Record::Created { .. }
            | Record::Adopted { .. }
            | Record::Called { .. }
            | Record::AttemptFailed { .. }
            | Record::Retried { .. }
            | Record::Parked { .. }
            | Record::Approved { .. }
            | Record::Deferred { .. }
            | Record::Diverged { .. }
            | Record::Logged { .. }
            | Record::Waiting { .. }
            | Record::Ended { .. } => return None,
        };
        Some(Self { seq: *seq, at: *at, value })
    }
}
