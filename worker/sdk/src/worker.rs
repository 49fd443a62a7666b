use std::{
    collections::HashSet,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use rewind_bus::{Bus, Url};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Ctx, ToolError, WorkerError, live::LiveCalls, puller, tool::Tool};

const MOST_CONCURRENT: usize = 10_000;
const LONGEST_NAME: usize = 128;
/// For the last acknowledgements, at the end, when NATS may be away.
const LAST_FLUSH: Duration = Duration::from_secs(2);

/// A process that handles host tools' calls. Start with [`Worker::builder`].
#[derive(Debug)]
pub struct Worker;

impl Worker {
    /// `nats_url` is `nats://user:password@host:port`; several, with commas between, for a cluster.
    pub fn builder(nats_url: impl Into<String>) -> WorkerBuilder {
        WorkerBuilder {
            nats_url: nats_url.into(),
            name: "rewind-worker".into(),
            concurrency: 32,
            drain_limit: Duration::from_secs(25),
            tools: Vec::new(),
            on_ready: None,
        }
    }
}

/// What a worker is to be.
pub struct WorkerBuilder {
    nats_url: String,
    name: String,
    concurrency: usize,
    drain_limit: Duration,
    tools: Vec<Tool>,
    on_ready: Option<Box<dyn FnOnce() + Send>>,
}

/// Without the URL, which may hold a password.
impl std::fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, concurrency, tools, .. } = self;
        f.debug_struct("WorkerBuilder")
            .field("name", name)
            .field("concurrency", concurrency)
            .field("tools", tools)
            .finish()
    }
}

/// What a worker did until it was told to stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Calls that were answered, errors included.
    pub answered: u64,
    /// Calls that went back to the queue because the worker had to end.
    pub given_back: u64,
}

impl WorkerBuilder {
    /// What `nats server report connections` shows. Default `rewind-worker`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many calls are handled at a time, of all tools together: 1 to 10000, default 32. No more are
    /// taken from the queue. A tool that waits for its next call holds one of these places.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// How long calls may go on after the stop before they are given back to the queue. Default 25 s:
    /// less than the 30 s that Kubernetes leaves a pod.
    #[must_use]
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.drain_limit = limit;
        self
    }

    /// Handles `host.<name>(…)`. Arguments are anything that deserializes from a JSON object, results
    /// anything that serializes; the handler runs on the Tokio runtime, so blocking work belongs into
    /// `spawn_blocking`.
    #[must_use]
    pub fn tool<A, R, F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        R: Serialize + 'static,
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        self.tools.push(Tool::new(name.into(), handler));
        self
    }

    /// Is called once, when the worker is connected and takes calls.
    #[must_use]
    pub fn on_ready(mut self, ready: impl FnOnce() + Send + 'static) -> Self {
        self.on_ready = Some(Box::new(ready));
        self
    }

    /// Works until SIGTERM or SIGINT, then drains ([`WorkerBuilder::run_until`]).
    ///
    /// # Errors
    /// As [`WorkerBuilder::run_until`].
    pub async fn run(self) -> Result<Stopped, WorkerError> {
        let mut terminate = signal(SignalKind::terminate()).map_err(WorkerError::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(WorkerError::Signals)?;
        let signalled = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        self.run_until(signalled).await
    }

    /// Works until `shutdown` resolves; then takes no more calls, finishes those it has within the drain
    /// limit, and gives the rest back. Waits for NATS as long as it takes, at the start and whenever the
    /// connection is lost.
    ///
    /// # Errors
    /// When the worker is not set up right, or NATS refuses it. What happens to a call is never an error.
    pub async fn run_until(mut self, shutdown: impl Future<Output = ()> + Send) -> Result<Stopped, WorkerError> {
        let url = self.check()?;
        let mut shutdown = pin!(shutdown);
        let bus = tokio::select! {
            bus = Bus::connect_only(&url, &self.name) => bus?,
            () = &mut shutdown => return Ok(Stopped::default()),
        };
        let shared = Arc::new(Shared::new(bus, self.concurrency, self.tools.len()));
        let tools: Vec<_> = self.tools.into_iter().map(Arc::new).collect();
        let opened = async {
            // Before the first call is taken: none is abandoned unheard.
            let watch = shared.live.watch(&shared.bus).await?;
            Ok::<_, WorkerError>((watch, join_all(tools.iter().map(|tool| puller::open(&shared, tool))).await))
        };
        let (_watch, queues) = tokio::select! {
            opened = opened => opened?,
            () = &mut shutdown => return Ok(Stopped::default()),
        };
        let mut pullers = JoinSet::new();
        for (tool, queue) in tools.into_iter().zip(queues) {
            if let Some(queue) = queue {
                pullers.spawn(puller::pull(Arc::clone(&shared), tool, queue));
            }
        }
        if let Some(ready) = self.on_ready.take() {
            ready();
        }
        shutdown.await;
        Ok(shared.drain(pullers, self.drain_limit).await)
    }

    fn check(&self) -> Result<Url, WorkerError> {
        if self.tools.is_empty() {
            return Err(WorkerError::NoTools);
        }
        let mut names = HashSet::new();
        for Tool { name, .. } in &self.tools {
            if name.is_empty() || name.len() > LONGEST_NAME {
                return Err(WorkerError::ToolName(name.chars().take(LONGEST_NAME).collect()));
            }
            if !names.insert(name) {
                return Err(WorkerError::DuplicateTool(name.clone()));
            }
        }
        if !(1..=MOST_CONCURRENT).contains(&self.concurrency) {
            return Err(WorkerError::Concurrency(self.concurrency));
        }
        Ok(self.nats_url.parse()?)
    }
}

/// What all calls of a worker share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bus: Bus,
    pub(crate) concurrency: usize,
    /// How many tools there are.
    pub(crate) tools: usize,
    /// A permit a call.
    pub(crate) room: Arc<Semaphore>,
    pub(crate) live: Arc<LiveCalls>,
    pub(crate) calls: TaskTracker,
    pub(crate) counts: Counts,
    /// No new calls.
    pub(crate) stop: CancellationToken,
    /// No calls at all: what is not answered goes back.
    pub(crate) abort: CancellationToken,
}

impl Shared {
    fn new(bus: Bus, concurrency: usize, tools: usize) -> Self {
        Self {
            bus,
            concurrency,
            tools,
            room: Arc::new(Semaphore::new(concurrency)),
            live: Arc::default(),
            calls: TaskTracker::new(),
            counts: Counts::default(),
            stop: CancellationToken::new(),
            abort: CancellationToken::new(),
        }
    }

    async fn drain(&self, mut pullers: JoinSet<()>, limit: Duration) -> Stopped {
        tracing::info!(calls = self.calls.len(), "stopping: no more calls are taken");
        self.stop.cancel();
        let finished = async {
            // Requests for calls are read to their end, so that none is lost on the way.
            while pullers.join_next().await.is_some() {}
            self.calls.close();
            self.calls.wait().await;
        };
        let in_time = tokio::time::timeout(limit, finished).await.is_ok();
        if !in_time {
            self.abort.cancel();
            // A take that has not ended by now has nobody to give its calls to.
            pullers.shutdown().await;
            self.calls.close();
            self.calls.wait().await;
        }
        let _ = tokio::time::timeout(LAST_FLUSH, self.bus.flush()).await;
        self.counts.stopped()
    }
}

/// What became of the calls so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    answered: AtomicU64,
    given_back: AtomicU64,
}

impl Counts {
    pub(crate) fn answered(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn given_back(&self) {
        self.given_back.fetch_add(1, Ordering::Relaxed);
    }

    fn stopped(&self) -> Stopped {
        Stopped { answered: self.answered.load(Ordering::Relaxed), given_back: self.given_back.load(Ordering::Relaxed) }
    }
}
