//! Clients of the API, each of which starts the next run when its last one has ended.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rewind_model::RunId;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::stage::Runs;

/// Runs that are kept going until it is stopped.
#[derive(Debug)]
pub(crate) struct Load {
    clients: JoinSet<anyhow::Result<()>>,
    stop: Arc<AtomicBool>,
    ended: Arc<Mutex<Vec<Ended>>>,
}

#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) run: RunId,
    pub(crate) took: Duration,
}

impl Load {
    pub(crate) fn begin(runs: &Runs, clients: usize, script: &'static str, input: &Value) -> Self {
        let (stop, ended) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<Ended>>>::default());
        let clients = (0..clients).map(|_| {
            let (runs, stop, ended, input) = (runs.clone(), stop.clone(), ended.clone(), input.clone());
            async move {
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let run = runs.begin(script, input.clone()).await?;
                    runs.completed(&run).await?;
                    let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
                    ended.push(Ended { run, took: begun.elapsed() });
                }
                Ok(())
            }
        });
        Self { clients: clients.collect(), stop, ended }
    }

    /// The runs that have ended since this was last asked.
    pub(crate) fn ended(&self) -> Vec<Ended> {
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn any_ended(&self) -> bool {
        !self.ended.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Starts no more runs, and waits for those there are.
    ///
    /// # Errors
    /// When a run failed.
    pub(crate) async fn finish(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(client) = self.clients.join_next().await {
            client??;
        }
        Ok(())
    }
}
