//! The HTTP exchange under `rmcp`: one POST a request, on a pool of kept-alive connections.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcError, JsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::StreamableHttpPostResponse,
};
use url::Url;

use crate::{
    McpError,
    endpoint::HttpTarget,
    error::{excerpt, reason},
    events::events,
    exchange::{ENVELOPE, ErrorObject, Exchange, Failure, Heard, protocol},
    wire::{self, exchange_of},
};

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// Bytes of an error answer that are read.
const ERROR_BODY: usize = 64 << 10;

/// A client with what the protocol needs. `reqwest` would read proxies from the environment and follow
/// redirects to other hosts, with every header (GHSA-9g45-5xwm-f3wc).
///
/// # Errors
/// When TLS cannot be set up.
pub(crate) fn client() -> Result<reqwest::Client, McpError> {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(redirects())
        .connect_timeout(Duration::from_secs(10))
        // Common servers close an idle connection after five seconds; one that they are closing must
        // not be taken for the next call, which would look like a lost answer.
        .pool_idle_timeout(Duration::from_secs(4))
        .build()
        .map_err(|error| McpError::InvalidEndpoint { reason: reason(error) })
}

/// Follows a redirect to the same origin that keeps method and body; any other is an answer.
fn redirects() -> reqwest::redirect::Policy {
    reqwest::redirect::Policy::custom(|attempt| {
        let keeps_body = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        let same_origin = attempt.previous().first().is_some_and(|first| first.origin() == attempt.url().origin());
        if keeps_body && same_origin && attempt.previous().len() <= 5 { attempt.follow() } else { attempt.stop() }
    })
}

/// One `rmcp` connection's view of the pool.
#[derive(Clone)]
pub(crate) struct Http(Arc<Inner>);

struct Inner {
    client: reqwest::Client,
    target: HttpTarget,
    /// The endpoint's headers and those that are the same for every POST.
    post_headers: HeaderMap,
    /// The session that the server opened, if it did.
    session: Mutex<Option<String>>,
    /// The last failure of a message that has no [`Exchange`]: those of the handshake.
    handshake_failure: Mutex<Option<McpError>>,
}

impl Http {
    pub(crate) fn new(client: reqwest::Client, target: HttpTarget) -> Self {
        let mut post_headers = target.headers.clone();
        post_headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        post_headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self(Arc::new(Inner {
            client,
            target,
            post_headers,
            session: Mutex::new(None),
            handshake_failure: Mutex::new(None),
        }))
    }

    pub(crate) fn take_handshake_failure(&self) -> Option<McpError> {
        self.0.handshake_failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn keep_handshake_failure(&self, error: McpError) {
        *self.0.handshake_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    pub(crate) fn session(&self) -> Option<String> {
        self.0.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn client(&self) -> &reqwest::Client {
        &self.0.client
    }

    pub(crate) fn url(&self) -> Url {
        self.0.target.url.clone()
    }

    /// The endpoint's own.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.0.target.headers
    }

    pub(crate) fn server(&self) -> &str {
        &self.0.target.display
    }

    fn interrupted(&self, reason: impl Into<String>) -> Failure {
        Failure::Mcp(McpError::Interrupted { server: self.server().into(), reason: reason.into() })
    }

    fn not_mcp(&self, reason: impl Into<String>) -> Failure {
        Failure::Mcp(McpError::NotMcp { server: self.server().into(), reason: reason.into() })
    }

    /// A successful answer that makes no sense: a call may have been done all the same.
    fn nonsense(&self, message: &ClientJsonRpcMessage, reason: impl Into<String>) -> Failure {
        match message {
            JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::CallToolRequest(_)) => {
                self.interrupted(reason)
            }
            _ => self.not_mcp(reason),
        }
    }

    pub(crate) async fn post(
        &self,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
        limit: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let exchange = exchange_of(message);
        let mut all = self.0.post_headers.clone();
        all.extend(headers);
        if let Some(session) = session {
            let value =
                HeaderValue::try_from(session).map_err(|_| self.not_mcp("its session id is no header value"))?;
            all.insert(SESSION_ID, value);
        }
        let body =
            wire::text(message).map_err(|error| self.not_mcp(format!("the request cannot be written: {error}")))?;
        if exchange.is_some_and(|exchange| !exchange.sending()) {
            return Err(Failure::Closed);
        }
        let request = self.0.client.post(self.0.target.url.clone()).headers(all).body(body);
        let response = request.send().await.map_err(|error| self.send_failure(error))?;
        if let Some(exchange) = exchange {
            exchange.hear();
        }
        if response.status().is_success() {
            self.success(message, response, limit).await
        } else {
            self.refusal(message, session.is_some(), response).await
        }
    }

    fn send_failure(&self, error: reqwest::Error) -> Failure {
        if error.is_connect() || error.is_builder() {
            return Failure::Mcp(McpError::Unreachable { server: self.server().into(), reason: reason(error) });
        }
        self.interrupted(reason(error))
    }

    async fn success(
        &self,
        message: &ClientJsonRpcMessage,
        response: Response,
        limit: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let JsonRpcMessage::Request(request) = message else {
            // Nothing is awaited, whatever the server says to it.
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let exchange = exchange_of(message);
        let limit = exchange.map_or(limit, Exchange::limit);
        let session = response.headers().get(SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if let (None, Some(session)) = (exchange, &session) {
            *self.0.session.lock().unwrap_or_else(PoisonError::into_inner) = Some(session.clone());
        }
        match media_type(&response).as_str() {
            "application/json" => {
                let body = self.bounded_body(response, limit).await?;
                let message = match exchange {
                    Some(exchange) => match exchange.read(&body, &request.id, self.server()) {
                        Heard::Answer(stand_in) => stand_in,
                        Heard::Other => {
                            return Err(self.nonsense(message, "it answered another request than the one sent"));
                        }
                        Heard::Nonsense(reason) => return Err(self.nonsense(message, reason)),
                    },
                    None => serde_json::from_slice(&body)
                        .map_err(|error| self.not_mcp(format!("it sent no JSON-RPC message: {error}")))?,
                };
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            "text/event-stream" => {
                let most = limit.saturating_add(ENVELOPE);
                let exchange = exchange.cloned().map(|exchange| (exchange, request.id.clone()));
                let events = events(response, most, exchange, self.server().to_owned());
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            other => {
                let status = response.status().as_u16();
                let kind = if other.is_empty() {
                    "no content type".to_owned()
                } else {
                    format!("content type {:?}", excerpt(other))
                };
                Err(self.nonsense(message, format!("HTTP {status} with {kind} to a request")))
            }
        }
    }

    /// An answer that is no success. `rmcp` needs to see a refused `server/discover` as a JSON-RPC error:
    /// it is how a legacy server is told from a modern one.
    async fn refusal(
        &self,
        message: &ClientJsonRpcMessage,
        in_session: bool,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        let server = self.server().to_owned();
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return Err(Failure::Mcp(McpError::Unauthorized { server, status: status.as_u16() }));
        }
        if status == StatusCode::NOT_FOUND && in_session {
            return Err(Failure::SessionExpired);
        }
        let body = beginning(response, ERROR_BODY).await;
        let answer = match serde_json::from_str::<ServerJsonRpcMessage>(&body) {
            Ok(JsonRpcMessage::Error(JsonRpcError { error, .. })) => Some(error),
            _ => None,
        };
        if in_session && status == StatusCode::BAD_REQUEST && answer.as_ref().is_some_and(is_lost_session) {
            return Err(Failure::SessionExpired);
        }
        if let JsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::DiscoverRequest(_))
            && status.is_client_error()
        {
            let error = answer
                .unwrap_or_else(|| ErrorData::invalid_request(format!("HTTP {status}: {}", excerpt(&body)), None));
            return Ok(StreamableHttpPostResponse::Json(
                ServerJsonRpcMessage::error(error, Some(request.id.clone())),
                None,
            ));
        }
        if let Some(error) = answer {
            let error = ErrorObject { code: error.code.0.into(), message: error.message.into_owned() };
            return Err(Failure::Mcp(protocol(&server, &error)));
        }
        let reason =
            if body.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {}", excerpt(&body)) };
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(Failure::Mcp(McpError::Unreachable { server, reason }));
        }
        // What stands before the server may answer 5xx when the server has done the work.
        Err(if status.is_server_error() { self.interrupted(reason) } else { self.not_mcp(reason) })
    }

    /// The whole body, or an error as soon as it is known to be over the limit.
    async fn bounded_body(&self, mut response: Response, limit: usize) -> Result<Vec<u8>, Failure> {
        let too_large = || Failure::Mcp(McpError::TooLarge { server: self.server().into(), limit });
        let most = limit.saturating_add(ENVELOPE);
        let announced = response.content_length().unwrap_or(0);
        if announced > most as u64 {
            return Err(too_large());
        }
        let mut body = Vec::with_capacity(usize::try_from(announced).unwrap_or(0));
        while let Some(chunk) = response.chunk().await.map_err(|error| self.interrupted(reason(error)))? {
            if body.len() + chunk.len() > most {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// The official SDK's example servers, and those made from them, answer an unknown session with HTTP 400
/// and this error where the specification wants 404. It comes from before any tool.
fn is_lost_session(error: &ErrorData) -> bool {
    error.code.0 == -32000 && error.message.to_ascii_lowercase().contains("no valid session id")
}

/// Lower case, without parameters; empty if there is none.
pub(crate) fn media_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let value = value.unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// At most `most` bytes of a body; as much of it as came.
async fn beginning(mut response: Response, most: usize) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk[..chunk.len().min(most - body.len())]);
        if body.len() == most {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}
