//! The process: its listener, its routes, and what runs beside them.

use std::{any::Any, sync::Arc, time::Duration};

use anyhow::Context;
use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    http::{Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use rewind_bus::{
    Bus,
    key::{KeyRecord, Role},
};
use rewind_model::ProblemCode;
use rewind_secrets::{ApiKey, Secret};
use tokio::{net::TcpListener, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument;
use utoipa::OpenApi as _;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{self, Keys},
    body::BODY_LIMIT,
    config::Config,
    decisions, drift, fork, health,
    lead::Cluster,
    listen, openapi, problem_pages,
    projection::Projection,
    refusal::Refusal,
    registry::Registry,
    retention::{self, Retention},
    runs,
    store::Store,
    toolsets,
    typecheck::Checker,
    webhooks::{self, Webhooks},
};

/// Requests that are under way when the process is told to stop have this long.
const GRACE: Duration = Duration::from_secs(10);

const HISTORIES: usize = 2;

/// What every handler works with.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) store: Store,
    pub(crate) keys: Keys,
    pub(crate) registry: Registry,
    pub(crate) checker: Checker,
    pub(crate) projection: Projection,
    pub(crate) cluster: Cluster,
    pub(crate) webhooks: Webhooks,
    /// One for each history or cassette that is in memory: they are of 64 MiB at most, and some times that while
    /// they are read and written.
    pub(crate) histories: Semaphore,
    /// Whether toolsets may name commands as MCP servers.
    pub(crate) allow_stdio: bool,
    /// Work that goes on after the request that began it.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the process is told to stop.
    pub(crate) stopping: CancellationToken,
}

/// Serves the API until the process is told to stop.
///
/// # Errors
/// When the configuration cannot work: a NATS URL that is none or credentials that NATS refuses, an
/// address that cannot be listened on, a compiler that cannot be run.
pub(crate) async fn serve(config: Config) -> anyhow::Result<()> {
    let nats: rewind_bus::Url = config.nats.expose().parse().context("--nats")?;
    let bootstrap_key = config.bootstrap_key.as_ref().map(parse_key).transpose()?;
    let webhooks = config.webhooks.settings()?;
    let stopping = rewind_service::shutdown_signal()?;
    let app = Arc::new(App {
        store: Store::default(),
        keys: Keys::default(),
        registry: Registry::new(),
        checker: Checker::new(config.tsc, config.retention.scripts_surely_kept()).await?,
        projection: Projection::default(),
        cluster: Cluster::default(),
        webhooks,
        histories: Semaphore::new(HISTORIES),
        allow_stdio: config.allow_stdio,
        tasks: TaskTracker::new(),
        stopping: stopping.clone(),
    });
    let listener = TcpListener::bind(config.listen).await.with_context(|| format!("--listen {}", config.listen))?;
    tracing::info!(listen = %listener.local_addr()?, %nats, "the API answers");
    let background = background(Arc::clone(&app), nats, bootstrap_key, config.retention);
    let requests = listen::serve(listener, router(Arc::clone(&app)), listen::HEADERS, &stopping);
    let served = tokio::select! {
        failed = background => failed,
        () = finish(requests, &stopping) => Ok(()),
    };
    app.tasks.close();
    if tokio::time::timeout(GRACE, app.tasks.wait()).await.is_err() {
        tracing::warn!("owners of new runs could not be told in time; they find them in the journal");
    }
    if let Some(bus) = app.store.handle() {
        let _ = tokio::time::timeout(Duration::from_secs(1), bus.flush()).await;
    }
    served
}

/// `requests` ends when the last one under way has; this does not wait for ever for that.
async fn finish(requests: impl Future<Output = ()>, stopping: &CancellationToken) {
    let overdue = async {
        stopping.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        () = requests => {}
        () = overdue => tracing::warn!("requests that were under way after {GRACE:?} were cut off"),
    }
}

fn parse_key(key: &Secret<String>) -> anyhow::Result<ApiKey> {
    key.expose().parse().context("REWIND_BOOTSTRAP_KEY")
}

/// Connects, however long that takes, and then keeps the projection and the cluster going. Returns
/// only when NATS refuses us, or by a fault.
async fn background(
    app: Arc<App>,
    nats: rewind_bus::Url,
    bootstrap_key: Option<ApiKey>,
    retention: Retention,
) -> anyhow::Result<()> {
    let bus = Bus::connect(&nats, "rewind-coordinator").await.context("NATS")?;
    if let Some(key) = bootstrap_key {
        while let Err(error) = bus.put_key(key.hash(), &KeyRecord { role: Role::Admin }).await {
            anyhow::ensure!(error.retryable(), "the bootstrap key cannot be stored: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    // Before the first run is started: nothing that happens in it is missed.
    webhooks::deliver(&app.webhooks, &bus, &app.tasks, &app.stopping).await.context("webhooks")?;
    app.store.set(bus.clone());
    // Tasks of their own: with much traffic each is work for a core.
    let follow = tokio::spawn({
        let (app, bus) = (Arc::clone(&app), bus.clone());
        async move { app.projection.follow(&bus).await }
    });
    let forget = tokio::spawn({
        let (app, bus) = (Arc::clone(&app), bus.clone());
        async move { retention::follow(&app, &bus).await }
    });
    let purge = tokio::spawn({
        let (app, bus) = (Arc::clone(&app), bus.clone());
        async move { retention::run(&app, &bus, retention).await }
    });
    let lead = app.tasks.spawn({
        let app = Arc::clone(&app);
        let bus = bus.clone();
        async move { app.cluster.run(&bus, &app.stopping).await }
    });
    let publish = tokio::spawn(webhooks::publish(Arc::clone(&app), bus));
    // Neither ends but by a fault, unless told to; without it this process would only look alive.
    tokio::select! {
        ended = follow => ended.context("following the journal")?,
        ended = forget => ended.context("following what is purged")?,
        ended = purge => ended.context("purging ended runs")?,
        ended = lead => ended.context("watching the cluster")?,
        ended = publish => ended.context("telling of events")?,
    }
    anyhow::ensure!(app.stopping.is_cancelled(), "a task that never ends has ended");
    std::future::pending().await
}

fn router(app: Arc<App>) -> Router {
    let (router, document) = routes(&app).split_for_parts();
    let document = Arc::new(document.to_json().unwrap_or_default());
    let served = move || async move { ([(header::CONTENT_TYPE, "application/json")], String::clone(&document)) };
    router
        .route("/openapi.json", get(served))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn(trace))
        .with_state(app)
}

/// All routes but `/openapi.json`, which is made of them.
fn routes(app: &Arc<App>) -> OpenApiRouter<Arc<App>> {
    let guarded = OpenApiRouter::new()
        .routes(routes!(toolsets::register))
        .routes(routes!(toolsets::read))
        .routes(routes!(toolsets::declarations))
        .routes(routes!(toolsets::tools))
        .routes(routes!(drift::drift))
        .routes(routes!(toolsets::check))
        .routes(routes!(runs::create, runs::list))
        .routes(routes!(runs::read))
        .routes(routes!(runs::journal))
        .routes(routes!(fork::fork))
        .routes(routes!(fork::cassette))
        .routes(routes!(decisions::cancel))
        .routes(routes!(decisions::approve))
        .routes(routes!(decisions::reject))
        .routes(routes!(decisions::parked))
        .routes(routes!(webhooks::dead::list))
        .routes(routes!(webhooks::dead::resend))
        .route_layer(middleware::from_fn_with_state(Arc::clone(app), auth::require_key));
    let mut all = OpenApiRouter::with_openapi(openapi::Document::openapi())
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(problem_pages::page))
        .routes(routes!(problem_pages::index))
        .merge(guarded);
    openapi::complete(all.get_openapi_mut());
    all
}

async fn not_found(uri: Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Refusal::new(ProblemCode::NotFound, format!("there is nothing at {path}"))
}

async fn wrong_method(request: Request) -> Refusal {
    let detail = format!("{} is not a method of this path", request.method());
    Refusal::new(ProblemCode::MethodNotAllowed, detail)
}

fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    Refusal::internal("answer the request", &format!("panic: {text}")).into_response()
}

/// A span for each request. Paths hold ids and no secrets; queries stay out.
async fn trace(request: Request, next: Next) -> Response {
    let span = tracing::info_span!("request", method = %request.method(), path = request.uri().path());
    async {
        let response = next.run(request).await;
        tracing::debug!(status = response.status().as_u16(), "answered");
        response
    }
    .instrument(span)
    .await
}
