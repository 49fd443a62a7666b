//! The shapes of the HTTP API. The CLI and the tests use the same ones as the coordinator.

mod answer;
mod decision;
mod event;
mod journal;
mod registration;
mod run;
mod toolset;

pub use answer::*;
pub use decision::*;
pub use event::*;
pub use journal::*;
pub use registration::*;
pub use run::*;
pub use toolset::*;
