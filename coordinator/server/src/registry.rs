//! The toolsets that are registered, with their declarations, as they are needed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use rewind_bus::cluster::Revised;
use rewind_model::{ProblemCode, Rendering, Toolset, ToolsetId};
use rewind_schema::Observations;

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
    /// As of the revision that was looked at last.
    learned: Mutex<Option<Arc<Learned>>>,
}

/// A toolset's declarations with what has been observed of results.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// Of the observations; 0 while there are none.
    revision: u64,
    observations: Observations,
    full: OnceLock<String>,
    compact: OnceLock<String>,
    strict: OnceLock<String>,
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
        Self { toolset, canonical, full, compact: OnceLock::new(), search: OnceLock::new(), learned: Mutex::default() }
    }

    /// The full rendering, without what has been observed: what a script is held to at last.
    pub(crate) fn declarations(&self) -> &str {
        &self.full
    }

    /// What has been observed of the results of this toolset's tools, by now.
    ///
    /// # Errors
    /// `store-unavailable`.
    pub(crate) async fn learned(&self, store: &Store, id: &ToolsetId) -> Result<Arc<Learned>, Refusal> {
        if self.toolset.tools().all(|(_, tool)| tool.output_schema.is_some()) {
            return Ok(self.learned_at(0, Observations::default()));
        }
        let Revised { value, revision } = store.ask(|bus| bus.observed::<Observations>(id)).await?;
        Ok(self.learned_at(revision, value))
    }

    /// Rendered once a revision.
    fn learned_at(&self, revision: u64, observations: Observations) -> Arc<Learned> {
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        match &*learned {
            Some(known) if known.revision == revision => Arc::clone(known),
            _ => Arc::clone(learned.insert(Arc::new(Learned::of(revision, observations)))),
        }
    }

    /// What a script is measured by first: with what has been observed, and without members of arguments
    /// that no schema names. What is wrong by it alone is a warning.
    pub(crate) fn strict<'p>(&self, learned: &'p Learned) -> &'p str {
        learned.strict.get_or_init(|| rewind_schema::render_strict(&self.toolset, &learned.observations))
    }

    /// A rendering with what has been observed.
    pub(crate) fn rendering<'p>(&'p self, learned: &'p Learned, rendering: Rendering) -> &'p str {
        let render = || rewind_schema::render_with(&self.toolset, &learned.observations, rendering);
        match (rendering, learned.observations.tools.is_empty()) {
            (Rendering::Full, true) => &self.full,
            (Rendering::Full, false) => learned.full.get_or_init(render),
            (Rendering::Compact, true) => self.compact.get_or_init(render),
            (Rendering::Compact, false) => learned.compact.get_or_init(render),
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

impl Learned {
    fn of(revision: u64, observations: Observations) -> Self {
        Self { revision, observations, ..Self::default() }
    }

    pub(crate) fn observations(&self) -> &Observations {
        &self.observations
    }

    /// Results that were looked at, by tool.
    pub(crate) fn results(&self) -> BTreeMap<String, u64> {
        self.observations.tools.iter().map(|(tool, observed)| (tool.clone(), observed.results)).collect()
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
