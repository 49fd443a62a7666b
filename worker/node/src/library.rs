//! Toolsets and scripts by digest, kept while runs use them and a while longer.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use rewind_bus::{Bus, BusError, catalog::CompiledScript};
use rewind_dispatch::{Tools, Validators};
use rewind_model::{Digest, Limits, ToolsetId};
use rewind_run::History;

/// Entries of each kind. What is still in use outlives its place here.
const KEPT: usize = 256;

#[derive(Debug)]
pub(crate) struct Library {
    bus: Bus,
    validators: Arc<Validators>,
    tools: Mutex<HashMap<ToolsetId, Arc<Tools>>>,
    scripts: Mutex<HashMap<Digest, Arc<CompiledScript>>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LibraryError {
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("{0} is not in the catalog")]
    Missing(String),
}

impl Library {
    pub(crate) fn new(bus: Bus, limits: Limits) -> Self {
        Self { bus, validators: Arc::new(Validators::new(limits)), tools: Mutex::default(), scripts: Mutex::default() }
    }

    pub(crate) async fn tools(&self, id: &ToolsetId) -> Result<Arc<Tools>, LibraryError> {
        if let Some(tools) = get(&self.tools, id) {
            return Ok(tools);
        }
        let toolset = self.bus.retry("read a toolset", || self.bus.toolset(id)).await?;
        let toolset = toolset.ok_or_else(|| LibraryError::Missing(format!("the toolset {id}")))?;
        Ok(keep(&self.tools, id.clone(), Tools::new(toolset, Arc::clone(&self.validators))))
    }

    /// The past of one run; not kept, since no other one has it.
    pub(crate) async fn history(&self, digest: Digest) -> Result<History, LibraryError> {
        let missing = |why: String| LibraryError::Missing(format!("the history {digest} ({why})"));
        match self.bus.retry("read a history", || self.bus.get_blob(digest)).await {
            Ok(bytes) => History::from_bytes(&bytes).map_err(|error| missing(error.to_string())),
            Err(error @ BusError::BlobMissing(_)) => Err(missing(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn script(&self, digest: Digest) -> Result<Arc<CompiledScript>, LibraryError> {
        if let Some(script) = get(&self.scripts, &digest) {
            return Ok(script);
        }
        let script = self.bus.retry("read a script", || self.bus.script(digest)).await?;
        let script = script.ok_or_else(|| LibraryError::Missing(format!("the script {digest}")))?;
        Ok(keep(&self.scripts, digest, script))
    }
}

fn get<K: Hash + Eq, V>(map: &Mutex<HashMap<K, Arc<V>>>, key: &K) -> Option<Arc<V>> {
    map.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
}

fn keep<K: Hash + Eq + Clone, V>(map: &Mutex<HashMap<K, Arc<V>>>, key: K, value: V) -> Arc<V> {
    let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
    if map.len() >= KEPT {
        map.retain(|_, value| Arc::strong_count(value) > 1);
        // All are in use: let any one go; its users keep it alive.
        if map.len() >= KEPT
            && let Some(any) = map.keys().next().cloned()
        {
            map.remove(&any);
        }
    }
    map.entry(key).or_insert_with(|| Arc::new(value)).clone()
}
