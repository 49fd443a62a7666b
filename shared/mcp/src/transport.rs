//! What `rmcp` asks of an HTTP client.

use std::{collections::HashMap, sync::Arc};

use futures::stream::BoxStream;
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};
use rmcp::{
    model::ClientJsonRpcMessage,
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
    },
};
use sse_stream::Sse;

use crate::{
    events::events,
    exchange::Failure,
    http::{Http, SESSION_ID, media_type},
    wire::exchange_of,
};

/// The failure itself is in the exchange, or is the handshake's.
#[derive(Debug, thiserror::Error)]
#[error("the request failed")]
pub(crate) struct Kept;

type Refusal = StreamableHttpError<Kept>;

impl StreamableHttpClient for Http {
    type Error = Kept;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Refusal> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Refusal> {
        let posted = self.post(&message, session_id.as_deref(), headers, limits.max_json_response_size).await;
        posted.map_err(|failure| {
            match (exchange_of(&message), failure) {
                (Some(exchange), failure) => exchange.end(Err(failure)),
                (None, Failure::Mcp(error)) => {
                    self.keep_handshake_failure(error);
                }
                (None, Failure::SessionExpired | Failure::Closed) => {}
            }
            StreamableHttpError::Client(Kept)
        })
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Refusal> {
        let mut all = self.headers().clone();
        all.extend(headers);
        if let Ok(value) = HeaderValue::try_from(&*session_id) {
            all.insert(SESSION_ID, value);
        }
        // Out of politeness only: a server forgets sessions by itself, and may not know this one.
        let _ = self.client().delete(self.url()).headers(all).send().await;
        Ok(())
    }

    /// Only to resume the stream of an answer (`last_event_id`). The stream of a session that belongs to
    /// no request is `changes`' own, and only opened where a server says that it uses it.
    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Refusal> {
        let most = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session_id, last_event_id, auth_header, headers, most).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        _uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Refusal> {
        let Some(last_event_id) = last_event_id else {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        };
        let mut all = self.headers().clone();
        all.extend(headers);
        all.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let texts =
            [(HeaderName::from_static("last-event-id"), Some(&*last_event_id)), (SESSION_ID, session_id.as_deref())];
        for (name, value) in texts {
            if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
                all.insert(name, value);
            }
        }
        let sent = self.client().get(self.url()).headers(all).send().await;
        let response = sent.map_err(|_| StreamableHttpError::Client(Kept))?;
        if !response.status().is_success() || media_type(&response) != "text/event-stream" {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(events(response, max_sse_event_size, None, self.server().to_owned()))
    }
}
