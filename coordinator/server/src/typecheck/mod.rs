//! Type-checks scripts before they run: TypeScript's compiler, bounded and cached.

mod compiler;
mod diagnostics;
mod scan;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rewind_bus::catalog::CompiledScript;
use rewind_model::{Diagnostic, Digest, Limits, ProblemCode};
use tokio::sync::{OnceCell, Semaphore};

pub(crate) use compiler::CompilerError;

use crate::{
    cache::Cache,
    refusal::Refusal,
    registry::{Learned, Pinned},
    store::Store,
};
use compiler::{Compiler, Ended};

/// Compilers that run at once: each takes about one core.
const AT_ONCE: usize = 2;
/// Checks that may wait for one of them.
const QUEUE: usize = 64;
/// Diagnostics of verdicts that are remembered, in bytes, of each of the cache's two generations.
const REMEMBERED: usize = 8 << 20;
/// Changes when this module would judge the same script differently.
const VERSION: &str = "1";

/// What was found out about a script. One without diagnostics is in the catalog, under `digest`.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Of the script, all that it was checked against, and the compiler.
    pub(crate) digest: Digest,
    /// Why it may not run; empty when it may.
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) warnings: Vec<Diagnostic>,
    /// From then on it was in the catalog, if it passed.
    at: Instant,
}

impl Verdict {
    fn new(digest: Digest, diagnostics: Vec<Diagnostic>, warnings: Vec<Diagnostic>) -> Self {
        Self { digest, diagnostics, warnings, at: Instant::now() }
    }

    fn weight(verdict: &Arc<Self>) -> usize {
        let of = |found: &Diagnostic| found.message.len() + found.hint.as_ref().map_or(0, String::len) + 128;
        256 + verdict.diagnostics.iter().chain(&verdict.warnings).map(of).sum::<usize>()
    }
}

pub(crate) struct Checker {
    compiler: Compiler,
    /// How long a script is surely in the catalog that was put there.
    kept: Duration,
    verdicts: Mutex<Cache<Digest, Arc<Verdict>>>,
    /// Checks under way: a second request for the same script waits for the first one's verdict.
    under_way: Mutex<HashMap<Digest, Arc<OnceCell<Arc<Verdict>>>>>,
    permits: Semaphore,
    queued: AtomicUsize,
}

impl std::fmt::Debug for Checker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Checker").field(&self.compiler).finish()
    }
}

impl Checker {
    /// # Errors
    /// When `tsc` cannot be run.
    pub(crate) async fn new(tsc: PathBuf, kept: Duration) -> Result<Self, CompilerError> {
        Ok(Self {
            compiler: Compiler::new(tsc).await?,
            kept,
            verdicts: Mutex::new(Cache::new(REMEMBERED, Verdict::weight)),
            under_way: Mutex::default(),
            permits: Semaphore::new(AT_ONCE),
            queued: AtomicUsize::new(0),
        })
    }

    /// Checks `source` against the declarations of `pinned`. When it passes, it is in the catalog. What is
    /// wrong only by types that were `learned`, or by a member of arguments that the schema lets pass and
    /// does not name, is a warning: an observation is no promise, and an open schema no refusal.
    ///
    /// # Errors
    /// `script-too-large`, `busy`, `store-unavailable`; a script that is wrong is a verdict, no error.
    pub(crate) async fn check(
        &self,
        store: &Store,
        pinned: &Pinned,
        learned: &Learned,
        source: &str,
    ) -> Result<Arc<Verdict>, Refusal> {
        let limit = Limits::DEFAULT.script_bytes;
        if source.len() > limit {
            let detail = format!("the script has {} bytes; the limit is {limit}", source.len());
            return Err(Refusal::new(ProblemCode::ScriptTooLarge, detail));
        }
        let declarations = pinned.strict(learned);
        let digest = self.digest(declarations, source);
        // One that nobody used for long may be about to be removed from the catalog.
        let sure = |verdict: &Arc<Verdict>| !verdict.diagnostics.is_empty() || verdict.at.elapsed() < self.kept;
        if let Some(verdict) = self.remembered(digest).filter(sure) {
            return Ok(verdict);
        }
        let cell = Arc::clone(self.lock_under_way().entry(digest).or_default());
        // When whoever began goes away (its client hung up), the next one who waits begins anew.
        let verdict =
            cell.get_or_try_init(|| self.find_out(store, pinned, declarations, source, digest)).await.cloned();
        let mut under_way = self.lock_under_way();
        if under_way.get(&digest).is_some_and(|current| Arc::ptr_eq(current, &cell)) {
            under_way.remove(&digest);
        }
        verdict
    }

    /// Why `source` would not pass against the declarations of `pinned`; empty if it would. Nothing of it is kept.
    ///
    /// # Errors
    /// `busy`; the compiler's own failure.
    pub(crate) async fn faults(&self, pinned: &Pinned, source: &str) -> Result<Vec<Diagnostic>, Refusal> {
        let _permit = self.permit().await?;
        let ended = self.compiler.compile(source, pinned.declarations()).await;
        refused(ended.map_err(|error| Refusal::internal("type-check the script", &error))?, pinned)
    }

    /// The warnings of a script that passed.
    ///
    /// # Errors
    /// `store-unavailable`.
    pub(crate) async fn warnings(&self, store: &Store, script: Digest) -> Result<Vec<Diagnostic>, Refusal> {
        if let Some(verdict) = self.remembered(script) {
            return Ok(verdict.warnings.clone());
        }
        let Some(compiled) = store.ask(|bus| bus.script(script)).await? else { return Ok(Vec::new()) };
        Ok(compiled.warnings)
    }

    fn digest(&self, declarations: &str, source: &str) -> Digest {
        let parts = [VERSION, self.compiler.version(), rewind_schema::ENVIRONMENT, declarations, source];
        Digest::of_parts(parts.map(str::as_bytes))
    }

    async fn find_out(
        &self,
        store: &Store,
        pinned: &Pinned,
        declarations: &str,
        source: &str,
        digest: Digest,
    ) -> Result<Arc<Verdict>, Refusal> {
        // Another coordinator, or this one before its restart, may have let it pass.
        if let Some(compiled) = store.ask(|bus| bus.script(digest)).await? {
            // Again, so that it stays.
            store.ask(|bus| bus.put_script(digest, &compiled)).await?;
            return Ok(self.remember(Verdict::new(digest, Vec::new(), compiled.warnings)));
        }
        let findings = scan::scan(source);
        if !findings.errors.is_empty() {
            return Ok(self.remember(Verdict::new(digest, findings.errors, findings.warnings)));
        }
        let _permit = self.permit().await?;
        let compile = async |declarations: &str| {
            let ended = self.compiler.compile(source, declarations).await;
            ended.map_err(|error| Refusal::internal("type-check the script", &error))
        };
        let mut warnings = findings.warnings;
        let mut ended = compile(declarations).await?;
        if let Ended::Refused { output } = &ended {
            let strict = diagnostics::parse(output, &pinned.toolset);
            ended = compile(pinned.declarations()).await?;
            let held_to = match &ended {
                Ended::Refused { output } => diagnostics::parse(output, &pinned.toolset),
                Ended::Passed { .. } | Ended::OverLimit(_) => Vec::new(),
            };
            warnings.extend(diagnostics::only_strictly(strict, &held_to));
        }
        let verdict = match ended {
            Ended::Passed { javascript, source_map } => {
                let compiled =
                    CompiledScript { javascript, source_map, source: source.to_owned(), warnings: warnings.clone() };
                store.ask(|bus| bus.put_script(digest, &compiled)).await?;
                Verdict::new(digest, Vec::new(), warnings)
            }
            ended => Verdict::new(digest, refused(ended, pinned)?, warnings),
        };
        Ok(self.remember(verdict))
    }

    async fn permit(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Refusal> {
        struct Place<'a>(&'a AtomicUsize);
        impl Drop for Place<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let before = self.queued.fetch_add(1, Ordering::Relaxed);
        let _place = Place(&self.queued);
        if before >= QUEUE {
            return Err(Refusal::new(ProblemCode::Busy, format!("{QUEUE} scripts wait to be type-checked")));
        }
        self.permits.acquire().await.map_err(|closed| Refusal::internal("queue the check", &closed))
    }

    fn remembered(&self, digest: Digest) -> Option<Arc<Verdict>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).get(&digest)
    }

    fn remember(&self, verdict: Verdict) -> Arc<Verdict> {
        let verdict = Arc::new(verdict);
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).put(verdict.digest, Arc::clone(&verdict));
        verdict
    }

    fn lock_under_way(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Arc<OnceCell<Arc<Verdict>>>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the compiler had against a script that it did not pass.
fn refused(ended: Ended, pinned: &Pinned) -> Result<Vec<Diagnostic>, Refusal> {
    match ended {
        Ended::Passed { .. } => Ok(Vec::new()),
        Ended::OverLimit(why) => Ok(vec![diagnostics::own("RW1004", 1, 1, why)]),
        Ended::Refused { output } => {
            let diagnostics = diagnostics::parse(&output, &pinned.toolset);
            if diagnostics.is_empty() {
                return Err(Refusal::internal("type-check the script", &format!("tsc said {output:?}")));
            }
            Ok(diagnostics)
        }
    }
}
