//! The node's side: sandbox processes, and the runs in them.

mod instance;
mod process;
mod spawn;
mod usage;

use std::{
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::{Semaphore, watch};

use crate::{Load, SandboxError, Turn};
pub use instance::Instance;
use process::{Handle, Process};
use spawn::Spawner;

/// Before a process that cannot be started is tried again.
const RESTART_DELAY: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// The binary to execute: as a rule the node's own, `std::env::current_exe()`.
    pub exe: PathBuf,
    /// What tells that binary to call [`crate::sandbox_main`] at once.
    pub args: Vec<OsString>,
    /// Processes that runs share. One a core is enough: a sandbox does nothing but compute.
    pub processes: usize,
    /// Processes at a time for runs that must be alone; a load of one more waits.
    pub isolated_processes: usize,
    /// Resident memory of one process, bytes, over which it is ended.
    pub resident_bytes: u64,
    /// CPU time that a process may use beyond its script's limits before it is ended.
    pub grace: Duration,
}

impl PoolConfig {
    pub fn new(exe: impl Into<PathBuf>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            exe: exe.into(),
            args: args.into_iter().map(Into::into).collect(),
            processes: 2,
            isolated_processes: 4,
            resident_bytes: 2 << 30,
            grace: Duration::from_secs(1),
        }
    }
}

/// Sandbox processes that are replaced when they end. Clones share them; they end when the last clone
/// and the last [`Instance`] are gone.
#[derive(Debug, Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: PoolConfig,
    spawner: Spawner,
    /// One a shared process; empty while it is being replaced.
    slots: watch::Sender<Vec<Option<Handle>>>,
    isolated: Arc<Semaphore>,
}

impl Pool {
    /// Starts the processes and waits until each has confined itself.
    ///
    /// # Errors
    /// When a process cannot be started, or the kernel refuses what it needs to confine itself.
    pub async fn start(config: PoolConfig) -> Result<Self, SandboxError> {
        let spawner = Spawner::start().map_err(SandboxError::Spawn)?;
        let count = config.processes.max(1);
        let (slots, _) = watch::channel(vec![None; count]);
        let isolated = Arc::new(Semaphore::new(config.isolated_processes.max(1)));
        let shared = Arc::new(Shared { config, spawner, slots, isolated });
        for slot in 0..count {
            let process = shared.process().await?;
            tokio::spawn(keep(Arc::downgrade(&shared), slot, process));
        }
        Ok(Self { shared })
    }

    /// Starts a script and follows it to where it can only wait.
    ///
    /// A run has one instance at a time: drop the old one before it is loaded again. `isolated` gives
    /// it a process that no other run shares and that ends with it: for a run that was
    /// [`SandboxError::Blamed`] or [`SandboxError::Crashed`] before.
    ///
    /// # Errors
    /// See [`SandboxError`]. What a script can do wrong is no error but the turn's `end`.
    pub async fn load(&self, load: Load, isolated: bool) -> Result<(Instance, Turn), SandboxError> {
        let handle = if isolated { self.shared.isolated_process().await? } else { self.least_busy().await? };
        Instance::load(handle, load).await
    }

    async fn least_busy(&self) -> Result<Handle, SandboxError> {
        let mut slots = self.shared.slots.subscribe();
        let slots =
            slots.wait_for(|slots| slots.iter().any(Option::is_some)).await.map_err(|_| SandboxError::ShutDown)?;
        slots.iter().flatten().min_by_key(|handle| handle.instances()).cloned().ok_or(SandboxError::ShutDown)
    }
}

impl Shared {
    async fn process(&self) -> Result<Process, SandboxError> {
        Process::start(&self.config, &self.spawner).await
    }

    async fn isolated_process(&self) -> Result<Handle, SandboxError> {
        let permit = Arc::clone(&self.isolated).acquire_owned().await.map_err(|_| SandboxError::ShutDown)?;
        let (handle, running) = self.process().await?.run();
        tokio::spawn(async move {
            running.await;
            drop(permit);
        });
        Ok(handle)
    }
}

/// Runs a slot's processes, one after the other, for as long as the pool lives.
async fn keep(shared: Weak<Shared>, slot: usize, first: Process) {
    let mut process = first;
    loop {
        let (handle, running) = process.run();
        {
            let Some(shared) = shared.upgrade() else { return };
            shared.slots.send_modify(|slots| slots[slot] = Some(handle));
        }
        running.await;
        let Some(next) = replacement(&shared, slot).await else { return };
        process = next;
    }
}

async fn replacement(shared: &Weak<Shared>, slot: usize) -> Option<Process> {
    loop {
        let shared = shared.upgrade()?;
        shared.slots.send_modify(|slots| slots[slot] = None);
        match shared.process().await {
            Ok(process) => return Some(process),
            Err(error) => tracing::error!(slot, %error, "a sandbox process cannot be replaced; trying again"),
        }
        drop(shared);
        tokio::time::sleep(RESTART_DELAY).await;
    }
}
