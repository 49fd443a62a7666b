//! One actor a run: a message becomes an input of the pure core, the script is told, what both say
//! is appended as one entry, and only then acted on.

mod actor;
mod append;
mod child;
mod effects;
mod live;
mod mail;
mod script;

pub(crate) use actor::{Arguments, Begin, RunActor, RunMessage};
pub(crate) use mail::{Mail, Mailbox};
