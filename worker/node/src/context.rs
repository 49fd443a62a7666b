use std::sync::Arc;

use rewind_bus::Bus;
use rewind_dispatch::Dispatcher;
use rewind_model::{Limits, NodeId};
use rewind_sandbox::{Pool, ScriptLimits};
use tokio::sync::Semaphore;

use crate::{library::Library, observer::Observer};

/// What every actor of a node shares. `id` changes when the node has lost its lease: it is then
/// another node as far as every journal is concerned.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) id: NodeId,
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bus: Bus,
    pub(crate) pool: Pool,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) library: Library,
    pub(crate) observer: Observer,
    pub(crate) limits: Limits,
    pub(crate) script_limits: ScriptLimits,
    /// Runs being read and replayed at once: a mass take-over must not fill the memory.
    pub(crate) loading: Semaphore,
}

impl std::ops::Deref for Context {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.shared
    }
}
