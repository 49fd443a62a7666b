//! One `rmcp` client: a negotiated protocol version and, in the legacy era, a session.

use std::{sync::Arc, time::Duration};

use rewind_model::Json;
use rmcp::{
    ClientServiceExt, RoleClient, ServiceError,
    model::{
        CancelledNotification, CancelledNotificationParam, ClientCapabilities, ClientConfig, ClientRequest,
        GetExtensions, Implementation, ProtocolVersion, RequestId, RequestMetaObject,
    },
    service::{
        ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, Peer, PeerRequestOptions, RunningService,
    },
    transport::{
        IntoTransport, StreamableHttpClientTransport, common::client_side_sse::FixedInterval,
        streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument as _, Span};

use crate::{
    Era, McpError,
    changes::{self, Changes, Ears},
    endpoint::{HttpTarget, Target},
    error::excerpt,
    exchange::{Exchange, Failure},
    http::{self, Http},
    stdio::Launcher,
};

/// POSTs under way at once over one connection; a node bounds what it has in flight itself.
const MAX_CONCURRENT_REQUESTS: usize = 4_096;

/// By which way connections are opened, and what they have in common.
pub(crate) enum Route {
    Http { pool: reqwest::Client, target: Box<HttpTarget> },
    Stdio(Launcher),
}

impl Route {
    /// # Errors
    /// When TLS cannot be set up.
    pub(crate) fn to(target: Target) -> Result<Self, McpError> {
        Ok(match target {
            Target::Http(target) => Self::Http { pool: http::client()?, target: Box::new(target) },
            Target::Stdio(program) => Self::Stdio(Launcher::new(program)),
        })
    }

    /// The server as messages name it.
    pub(crate) fn server(&self) -> &str {
        match self {
            Self::Http { target, .. } => &target.display,
            Self::Stdio(launcher) => launcher.server(),
        }
    }

    /// # Errors
    /// What went wrong; no call was sent by then.
    pub(crate) async fn open(&self, changes: &Changes) -> Result<Connection, McpError> {
        match self {
            Self::Http { pool, target } => Connection::over_http(pool.clone(), (**target).clone(), changes).await,
            Self::Stdio(launcher) => Connection::over_stdio(launcher, changes).await,
        }
    }
}

pub(crate) struct Connection {
    service: RunningService<RoleClient, Ears>,
    server: String,
    /// Hears from the server that its tools have changed, while the connection is in use.
    _listening: Option<AbortOnDropHandle<()>>,
    pub(crate) era: Era,
    pub(crate) protocol_version: String,
    pub(crate) instructions: Option<String>,
}

impl Connection {
    /// Asks with `server/discover`, and falls back to `initialize`.
    async fn over_http(pool: reqwest::Client, target: HttpTarget, changes: &Changes) -> Result<Self, McpError> {
        let server = target.display.clone();
        let http = Http::new(pool, target);
        let transport = StreamableHttpClientTransport::with_client(http.clone(), config(&server));
        match serve(transport, either_era(), changes).await {
            Ok(service) => {
                let mut connection = Self::of(service, server).await;
                connection.listen(Some(http), changes);
                Ok(connection)
            }
            Err(error) => Err(before_any_call(handshake_error(&http, &server, &error))),
        }
    }

    /// As over HTTP. A server that dies of `server/discover`, or gives an answer to it that makes no
    /// sense, is started once more and not asked that again.
    async fn over_stdio(launcher: &Launcher, changes: &Changes) -> Result<Self, McpError> {
        let legacy = launcher.is_legacy();
        let first = if legacy { session_era() } else { either_era() };
        let opened = match Self::over_pipes(launcher, first, changes).await {
            Err(Unopened::Handshake(_)) if !legacy => Self::over_pipes(launcher, session_era(), changes).await,
            opened => opened,
        };
        // Some never answer what they do not know: they are not asked each time. One that has been
        // replaced by a newer one is.
        launcher.set_legacy(opened.as_ref().is_ok_and(|connection| connection.era == Era::Session));
        opened.map_err(|error| match error {
            Unopened::Start(error) | Unopened::Handshake(error) => error,
        })
    }

    async fn over_pipes(
        launcher: &Launcher,
        lifecycle: ClientLifecycleMode,
        changes: &Changes,
    ) -> Result<Self, Unopened> {
        let (transport, launching) = launcher.start().await.map_err(Unopened::Start)?;
        let server = launcher.server().to_owned();
        match serve(transport, lifecycle, changes).await {
            Ok(service) => {
                launching.succeeded();
                let mut connection = Self::of(service, server).await;
                connection.listen(None, changes);
                Ok(connection)
            }
            Err(error) => {
                let (ended, last_words) = launching.last_words().await;
                Err(Unopened::Handshake(match ended {
                    Some(ended) => {
                        McpError::Unreachable { server, reason: format!("{ended} before it was ready{last_words}") }
                    }
                    None => McpError::NotMcp { server, reason: format!("{}{last_words}", handshake_reason(&error)) },
                }))
            }
        }
    }

    /// Where the server says that it tells of changes.
    fn listen(&mut self, http: Option<Http>, changes: &Changes) {
        let peer = self.service.peer_info();
        let tells = peer.and_then(|peer| peer.capabilities.tools.as_ref()?.list_changed).unwrap_or(false);
        if tells {
            self._listening = match (self.era, http) {
                (Era::Stateless, _) => Some(changes::subscribe(self.service.peer().clone(), changes.clone())),
                (Era::Session, Some(http)) => changes::follow(http, self.protocol_version.clone(), changes.clone()),
                // It sends them with everything else.
                (Era::Session, None) => None,
            };
        }
    }

    async fn of(service: RunningService<RoleClient, Ears>, server: String) -> Self {
        service.set_response_cache_config(ClientCacheConfig::disabled()).await;
        let peer = service.peer_info();
        let version =
            peer.as_ref().map_or(ProtocolVersion::LATEST_WITH_INITIALIZE, |peer| peer.protocol_version.clone());
        let era = if version.has_initialize() { Era::Session } else { Era::Stateless };
        let instructions = peer.and_then(|peer| peer.instructions.clone());
        tracing::debug!(%server, %version, "MCP connection opened");
        Self { service, server, _listening: None, era, protocol_version: version.to_string(), instructions }
    }

    /// Sends one request and waits for its answer, without a time limit. Dropping the future cancels
    /// the request at the server.
    pub(crate) async fn exchange(
        &self,
        mut request: ClientRequest,
        meta: RequestMetaObject,
        exchange: &Exchange,
    ) -> Result<Json, Failure> {
        request.extensions_mut().insert(exchange.clone());
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let Ok(handle) = self.service.send_request_with_option(request, options).await else {
            return Err(Failure::Closed);
        };
        let mut guard = CancelOnDrop { peer: self.service.peer(), exchange, id: Some(handle.id.clone()) };
        let answer = tokio::select! {
            biased;
            answer = handle.await_response() => answer,
            () = exchange.aborted() => return exchange.take().unwrap_or(Err(Failure::Closed)),
        };
        guard.id = None;
        if let Some(end) = exchange.take() {
            return end;
        }
        match answer {
            // It came over a resumed stream, which the exchange does not see.
            Ok(result) => Json::of(&result).map_err(|error| self.interrupted(error.to_string())),
            Err(_) if !exchange.sent() => Err(Failure::Closed),
            Err(ServiceError::McpError(error)) if !is_rmcp_s_own(&error) => Err(Failure::Mcp(McpError::Protocol {
                server: self.server.clone(),
                code: error.code.0.into(),
                message: excerpt(&error.message),
            })),
            Err(_) => Err(self.interrupted("the stream ended before the answer".to_owned())),
        }
    }

    fn interrupted(&self, reason: String) -> Failure {
        Failure::Mcp(McpError::Interrupted { server: self.server.clone(), reason })
    }
}

fn me() -> ClientConfig {
    let me = Implementation::new("rewind", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), me).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// The connection outlives the call that happens to open it, so it is not part of that call's span.
async fn serve<T, E, A>(
    transport: T,
    lifecycle: ClientLifecycleMode,
    changes: &Changes,
) -> Result<RunningService<RoleClient, Ears>, ClientInitializeError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let ears = Ears { me: me(), changes: changes.clone() };
    ears.serve_with_lifecycle(transport, lifecycle).instrument(Span::none()).await
}

fn either_era() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

fn session_era() -> ClientLifecycleMode {
    ClientLifecycleMode::Initialize
}

fn config(server: &str) -> StreamableHttpClientTransportConfig {
    let mut resume = FixedInterval::default();
    resume.max_times = Some(5);
    resume.duration = Duration::from_secs(1);
    // The URL and the headers are the HTTP exchange's own; this one is for rmcp's messages.
    let mut config = StreamableHttpClientTransportConfig::with_uri(server)
        // The journal owns retries: rmcp must not send anything again by itself.
        .reinit_on_expired_session(false)
        .max_concurrent_requests(MAX_CONCURRENT_REQUESTS);
    config.retry_config = Arc::new(resume);
    config.channel_buffer_capacity = 256;
    config
}

/// rmcp reports a stream that ended without an answer as a JSON-RPC error with a mark in its data.
fn is_rmcp_s_own(error: &rmcp::ErrorData) -> bool {
    error.data.as_ref().is_some_and(|data| data.get("io.modelcontextprotocol/transportClosed").is_some())
}

fn handshake_error(http: &Http, server: &str, error: &ClientInitializeError) -> McpError {
    http.take_handshake_failure()
        .unwrap_or_else(|| McpError::NotMcp { server: server.to_owned(), reason: handshake_reason(error) })
}

fn handshake_reason(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => excerpt(&fallback.to_string()),
        other => excerpt(&other.to_string()),
    }
}

/// Why there is no connection to a process.
enum Unopened {
    /// There is no process either.
    Start(McpError),
    Handshake(McpError),
}

/// An answer that was lost during the handshake is no lost call.
fn before_any_call(error: McpError) -> McpError {
    match error {
        McpError::Interrupted { server, reason } => McpError::Unreachable { server, reason },
        other => other,
    }
}

/// Tells the server that nobody waits for the answer any more.
struct CancelOnDrop<'a> {
    peer: &'a Peer<RoleClient>,
    exchange: &'a Exchange,
    id: Option<RequestId>,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        self.exchange.give_up();
        let peer = self.peer.clone();
        let params = CancelledNotificationParam::new(Some(id), Some("nobody waits for the answer any more".into()));
        runtime.spawn(async move { peer.send_notification(CancelledNotification::new(params).into()).await });
    }
}
