use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rewind_model::Json;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest, MetaObject, PaginatedRequestParams,
    RequestMetaObject,
};
use serde_json::value::RawValue;

use crate::{
    Call, CallResult, Endpoint, Era, ListLimits, Listing, McpError,
    call::NoCallResult,
    changes::Changes,
    connection::{Connection, Route},
    exchange::{Ask, Exchange, Failure, mirrors_arguments},
    listing::Page,
};

/// How long opening a connection may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// A client of one endpoint. Cheap to clone; clones share the connection, and the pool or the process
/// under it.
///
/// The connection is opened by the first request and is never asked whether it still lives: it is used,
/// and opened anew when that fails.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    route: Route,
    connection: RwLock<Option<Arc<Connection>>>,
    /// Held while one is opened, so that many calls open one.
    opening: tokio::sync::Mutex<()>,
    /// What the server says of changes, over whichever connection.
    changes: Changes,
    /// There was a connection before.
    opened: AtomicBool,
    /// Some tool of the last listing wants arguments mirrored in headers.
    mirrors: AtomicBool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.0.route.server()).finish()
    }
}

impl Client {
    /// Nothing is sent, and no process started, yet.
    ///
    /// # Errors
    /// [`McpError::InvalidEndpoint`].
    pub fn new(endpoint: &Endpoint) -> Result<Self, McpError> {
        Ok(Self(Arc::new(Inner {
            route: Route::to(endpoint.check()?)?,
            connection: RwLock::new(None),
            opening: tokio::sync::Mutex::new(()),
            changes: Changes::default(),
            opened: AtomicBool::new(false),
            mirrors: AtomicBool::new(false),
        })))
    }

    /// Grows whenever the server says that its tools have changed, or when it may have said so unheard: a list that
    /// was made before is to be made again. Costs nothing.
    pub fn changes(&self) -> u64 {
        self.0.changes.count()
    }

    /// Gives the connection up. Over stdio it ends the process, which has a second to do so by itself when
    /// its stdin is closed and another one after SIGTERM, and waits for its end: calls that are under way are
    /// interrupted, later ones refused.
    ///
    /// Without it, the process is ended when the last clone of the client is dropped.
    pub async fn close(&self) {
        self.0.connection.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Route::Stdio(launcher) = &self.0.route {
            launcher.close().await;
        }
    }

    /// All tools, from the first page to the last, as of now (nothing is cached).
    ///
    /// # Errors
    /// Any but those of a call; [`McpError::UnusableList`] when a cursor repeats or a limit is passed.
    pub async fn list_tools(&self, limits: ListLimits) -> Result<Listing, McpError> {
        let list = async {
            let connection = self.connection().await?;
            match self.list_over(&connection, limits).await {
                Err(Failure::SessionExpired | Failure::Closed) => {
                    self.forget(&connection);
                    let connection = self.connection().await?;
                    self.list_over(&connection, limits).await.map_err(|failure| self.final_error(failure))
                }
                listed => listed.map_err(|failure| self.final_error(failure)),
            }
        };
        let listed = tokio::time::timeout(limits.timeout, list).await;
        listed.unwrap_or_else(|_| Err(self.timeout(limits.timeout, true)))
    }

    /// Calls a tool once.
    ///
    /// The request is sent a second time in two cases only, with the same key, over a new connection:
    /// when the server refused it because the session it was sent in has expired (the specification has
    /// it answer 404 before it looks at the request), and when this side's connection had ended before
    /// anything was sent. In both the tool has not seen the first one.
    ///
    /// A tool of which arguments are mirrored in headers (`x-mcp-header`) can only be called by a client
    /// that has listed it. Dropping the future cancels the call at the server.
    ///
    /// # Errors
    /// See [`McpError`]. A tool that fails is no error here: [`CallResult::is_error`].
    pub async fn call(&self, call: Call<'_>) -> Result<CallResult, McpError> {
        let arguments =
            object(call.arguments).ok_or_else(|| McpError::InvalidArguments { tool: call.tool.to_owned() })?;
        let exchange = Exchange::new(Ask::Call(arguments), call.max_result_bytes);
        let silence = async {
            match call.idle_timeout {
                Some(idle) => exchange.silence(idle).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            result = self.call_over_a_connection(&call, &exchange) => result,
            () = silence => Err(self.timeout(call.idle_timeout.unwrap_or_default(), exchange.sent())),
            () = tokio::time::sleep(call.timeout) => Err(self.timeout(call.timeout, exchange.sent())),
        }
    }

    async fn call_over_a_connection(&self, call: &Call<'_>, exchange: &Exchange) -> Result<CallResult, McpError> {
        let connection = self.connection().await?;
        let (era, answer) = match connection.exchange(self.request(call), meta(call), exchange).await {
            Err(Failure::SessionExpired | Failure::Closed) => {
                self.forget(&connection);
                exchange.reset();
                let connection = self.connection().await?;
                (connection.era, connection.exchange(self.request(call), meta(call), exchange).await)
            }
            answer => (connection.era, answer),
        };
        let raw = answer.map_err(|failure| self.final_error(failure))?;
        CallResult::parse(raw, era).map_err(|error| match error {
            NoCallResult::Malformed(reason) => {
                McpError::Interrupted { server: self.server(), reason: format!("it is no tool result: {reason}") }
            }
            NoCallResult::Unsupported(what) => McpError::Unsupported { server: self.server(), what },
        })
    }

    fn request(&self, call: &Call<'_>) -> ClientRequest {
        let mut params = CallToolRequestParams::new(call.tool.to_owned());
        // The wire gets the arguments from the exchange; rmcp only needs them to mirror some in headers.
        if self.0.mirrors.load(Ordering::Relaxed) {
            params.arguments = call.arguments.to().ok();
        }
        ClientRequest::CallToolRequest(CallToolRequest::new(params))
    }

    async fn list_over(&self, connection: &Connection, limits: ListLimits) -> Result<Listing, Failure> {
        let unusable = |reason: String| Failure::Mcp(McpError::UnusableList { server: self.server(), reason });
        let mut listing = Listing {
            era: connection.era,
            protocol_version: connection.protocol_version.clone(),
            instructions: connection.instructions.clone(),
            tools: Vec::new(),
            malformed: Vec::new(),
        };
        let (mut cursor, mut seen) = (None::<String>, HashSet::new());
        let mut bytes_left = limits.bytes;
        let mut mirrors = false;
        for _ in 0..limits.pages {
            let raw = page(connection, cursor.clone(), bytes_left).await?;
            bytes_left = bytes_left.saturating_sub(raw.len());
            mirrors |= connection.era == Era::Stateless && mirrors_arguments(&raw);
            let Page { tools, next_cursor } = Page::parse(&raw).map_err(unusable)?;
            tools.iter().for_each(|entry| listing.push(entry));
            if listing.tools.len() + listing.malformed.len() > limits.tools {
                return Err(unusable(format!("it has more than {} tools", limits.tools)));
            }
            let Some(next) = next_cursor else {
                self.0.mirrors.store(mirrors, Ordering::Relaxed);
                return Ok(listing);
            };
            if !seen.insert(next.clone()) {
                return Err(unusable(format!("it repeats the cursor {:?}", crate::error::excerpt(&next))));
            }
            cursor = Some(next);
        }
        Err(unusable(format!("it has more than {} pages", limits.pages)))
    }

    /// The connection that is open, or a new one.
    async fn connection(&self) -> Result<Arc<Connection>, McpError> {
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let _opening = self.0.opening.lock().await;
        if let Some(open) = self.open_connection() {
            return Ok(open);
        }
        let opened = tokio::time::timeout(OPEN_TIMEOUT, self.0.route.open(&self.0.changes)).await;
        let connection = Arc::new(opened.unwrap_or_else(|_| Err(self.timeout(OPEN_TIMEOUT, false)))?);
        // What it said while there was none was heard by nobody.
        if self.0.opened.swap(true, Ordering::AcqRel) {
            self.0.changes.note();
        }
        if self.0.mirrors.load(Ordering::Relaxed) {
            // rmcp mirrors arguments by the schemas that this connection has seen. What is wrong with
            // the list is for the one who lists to say.
            let _ = self.list_over(&connection, ListLimits::default()).await;
        }
        *self.0.connection.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&connection));
        Ok(connection)
    }

    fn open_connection(&self) -> Option<Arc<Connection>> {
        self.0.connection.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes `broken` out of use, unless that has been done and another is in its place.
    fn forget(&self, broken: &Arc<Connection>) {
        let mut connection = self.0.connection.write().unwrap_or_else(PoisonError::into_inner);
        if connection.as_ref().is_some_and(|open| Arc::ptr_eq(open, broken)) {
            *connection = None;
        }
    }

    fn server(&self) -> String {
        self.0.route.server().to_owned()
    }

    fn timeout(&self, after: Duration, sent: bool) -> McpError {
        McpError::Timeout { server: self.server(), after, sent }
    }

    /// What a failure means to the caller when nothing more is tried.
    fn final_error(&self, failure: Failure) -> McpError {
        let reason = match failure {
            Failure::Mcp(error) => return error,
            Failure::SessionExpired => "it does not know the session that it has just opened",
            Failure::Closed => "the connection ended as soon as it was opened",
        };
        McpError::Unreachable { server: self.server(), reason: reason.into() }
    }
}

async fn page(connection: &Connection, cursor: Option<String>, limit: usize) -> Result<Json, Failure> {
    let params = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
    let request = ListToolsRequest { params, ..ListToolsRequest::default() };
    let exchange = Exchange::new(Ask::List, limit);
    connection.exchange(ClientRequest::ListToolsRequest(request), RequestMetaObject::new(), &exchange).await
}

fn meta(call: &Call<'_>) -> RequestMetaObject {
    let mut meta = MetaObject::new();
    meta.0.insert(Call::KEY_MEMBER.to_owned(), call.key.into());
    if let Some(trace) = call.trace {
        meta.set_traceparent(&trace.traceparent);
        if let Some(state) = &trace.tracestate {
            meta.set_tracestate(state);
        }
    }
    RequestMetaObject(meta)
}

fn object(arguments: &Json) -> Option<Box<RawValue>> {
    let raw: Box<RawValue> = arguments.to().ok()?;
    raw.get().starts_with('{').then_some(raw)
}
