//! A run as a pure state machine: no IO, no clock, no randomness.
//!
//! [`Run::decide`] turns an [`Input`] into the [`Record`]s that it asks for; [`Run::fold`] applies a
//! record and says which [`Effect`]s it calls for. A live run decides, folds, appends what it decided
//! as one journal [`Entry`], and performs the effects once the append is acknowledged. A replay folds
//! what the journal holds, drops the effects, and asks [`Run::pending`] what is still outstanding.
//! [`Replay`] holds the script, run again from its start, against what the journal says it did.

mod cassette;
mod decide;
mod delivery;
mod entry;
mod finder;
mod history;
mod identity;
mod nearest;
mod record;
mod replay;
mod run;
mod spec;
mod take;
mod tally;

pub use cassette::{Cassette, CassetteError};
pub use decide::{Input, NewCall, ScriptEnd, ScriptTurn, Verdict};
pub use delivery::{Delivered, Delivery};
pub use entry::{Entry, EntryError};
pub use history::{History, HistoryError, Made, Origin, PastCall, PastOutcome, Taken};
pub use record::{Call, End, ParkReason, Record, Terms};
pub use replay::{Divergence, Replay};
pub use run::{Effect, IllegalRecord, Owner, Pending, Phase, Run, Why};
pub use spec::{Clock, Parent, Past, Spec};
