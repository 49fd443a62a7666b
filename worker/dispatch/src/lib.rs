//! Sends one call: to an MCP server, or into the queue of a host tool.
//!
//! [`Tools`] is a toolset made ready for calls: it holds arguments and results against the pinned
//! schemas. [`Dispatcher::send`] makes one attempt; whether there is another one is for the run's
//! core to decide (`rewind-run`).

mod attempt;
mod current;
mod dispatcher;
mod failure;
mod tools;
mod trace;
mod validators;

pub use attempt::{Attempt, Sent};
pub use dispatcher::Dispatcher;
pub use tools::Tools;
pub use validators::Validators;
