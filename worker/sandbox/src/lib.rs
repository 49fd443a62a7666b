//! Where scripts run: processes that may compute and nothing else.
//!
//! A node holds a [`Pool`] of child processes, each its own binary re-executed into
//! [`sandbox_main`]. A child confines itself before it sees the first script, then hosts one
//! QuickJS engine a run. It sees no credential and no journal: calls come out of it as [`NewCall`]s,
//! results go in as [`Delivery`]s, and it may die at any time, because its runs replay elsewhere.
//!
//! - `protocol`: what the two sides say to each other.
//! - `process`: the child. `confine` takes its rights away, `engine` runs one script, `prelude.js`
//!   and `web.js` are the script's world, `budget` and `heap` bound it.
//! - `pool`: the node's side, with the watchdog that ends a child which overruns.

mod error;
mod frame;
mod pool;
mod process;
mod protocol;

pub use error::SandboxError;
pub use pool::{Instance, Pool, PoolConfig};
pub use process::sandbox_main;
pub use protocol::*;
