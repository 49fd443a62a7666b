//! The toolsets that are registered, with their declarations, as they are needed.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rewind_model::{ProblemCode, Rendering, Toolset, ToolsetId};

use crate::{cache::Cache, pin::PinnedDocument, refusal::Refusal, search::Search, store::Store};

/// Bytes of documents and declarations that are kept, of each of the cache's two generations.
const REMEMBERED: usize = 64 << 20;

/// A registered toolset. It never changes.
#[derive(Debug)]
pub(crate) struct Pinned {
    pub(crate) toolset: Toolset,
    /// What its id is the digest of.
    pub(crate) canonical: Vec<u8>,
    full: String,
    compact: OnceLock<String>,
    search: OnceLock<Search>,
}

impl Pinned {
    /// One that is not registered, or not yet.
    ///
    /// # Errors
    /// `invalid-toolset` when it has no canonical form.
    pub(crate) fn of(toolset: Toolset) -> Result<Self, Refusal> {
        let canonical = toolset.canonical();
        let canonical = canonical.map_err(|error| Refusal::new(ProblemCode::InvalidToolset, error.to_string()))?;
        Ok(Self::new(toolset, canonical))
    }

    fn new(toolset: Toolset, canonical: Vec<u8>) -> Self {
        let full = rewind_schema::render(&toolset, Rendering::Full);
        Self { toolset, canonical, full, compact: OnceLock::new(), search: OnceLock::new() }
    }

    /// The full rendering: what scripts are checked against.
    pub(crate) fn declarations(&self) -> &str {
        &self.full
    }

    pub(crate) fn rendering(&self, rendering: Rendering) -> &str {
        match rendering {
            Rendering::Full => &self.full,
            Rendering::Compact => self.compact.get_or_init(|| rewind_schema::render(&self.toolset, rendering)),
        }
    }

    pub(crate) fn search(&self) -> &Search {
        self.search.get_or_init(|| Search::new(&self.toolset))
    }

    fn weight(pinned: &Arc<Self>) -> usize {
        // The parsed document and the compact rendering are about as large as the bytes.
        3 * pinned.canonical.len() + pinned.full.len()
    }
}

#[derive(Debug)]
pub(crate) struct Registry(Mutex<Cache<ToolsetId, Arc<Pinned>>>);

impl Registry {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Cache::new(REMEMBERED, Pinned::weight)))
    }

    /// # Errors
    /// `unknown-toolset`, `store-unavailable`.
    pub(crate) async fn get(&self, store: &Store, id: &ToolsetId) -> Result<Arc<Pinned>, Refusal> {
        if let Some(pinned) = self.lock().get(id) {
            return Ok(pinned);
        }
        let unknown = || Refusal::new(ProblemCode::UnknownToolset, format!("there is no toolset {id}"));
        let canonical = store.ask(|bus| bus.toolset_bytes(id)).await?.ok_or_else(unknown)?;
        let unreadable = |error: &dyn std::fmt::Display| Refusal::internal("read the toolset", error);
        // Rendering thousands of tools is work for more than a moment.
        let rendered = tokio::task::spawn_blocking(move || {
            Toolset::from_bytes(&canonical).map(|toolset| Arc::new(Pinned::new(toolset, canonical)))
        });
        let pinned = rendered.await.map_err(|error| unreadable(&error))?.map_err(|error| unreadable(&error))?;
        self.lock().put(id.clone(), Arc::clone(&pinned));
        Ok(pinned)
    }

    /// Stores a toolset; `true` when it was not there before.
    ///
    /// # Errors
    /// `store-unavailable`.
    pub(crate) async fn put(&self, store: &Store, document: &PinnedDocument) -> Result<(ToolsetId, bool), Refusal> {
        store.ask(|bus| bus.put_toolset(&document.toolset, &document.registration)).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Cache<ToolsetId, Arc<Pinned>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
