//! The events of a streamed answer (server-sent events).

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use reqwest::Response;
use rmcp::{model::RequestId, transport::streamable_http_client::SseError};
use sse_stream::{Sse, SseStream};

use crate::{
    McpError,
    error::reason,
    exchange::{Exchange, Failure, Heard},
};

/// The events of `response`, each of at most `most` bytes. The one that answers `exchange`, if there is
/// one, is kept there and replaced by a stand-in.
pub(crate) fn events(
    response: Response,
    most: usize,
    exchange: Option<(Exchange, RequestId)>,
    server: String,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let unread = Arc::new(AtomicUsize::new(0));
    let overrun = exchange.as_ref().map(|(exchange, _)| {
        let error = McpError::TooLarge { server: server.clone(), limit: exchange.limit() };
        (exchange.clone(), error)
    });
    let bytes = bounded(response, most, Arc::clone(&unread), overrun);
    let events = SseStream::from_bytes_stream(bytes);
    let state = Reading { events, unread, exchange, server, answered: false, resumable: false };
    futures::stream::unfold(state, |mut state| async move { state.next().await.map(|event| (event, state)) }).boxed()
}

/// Fails once more than `most` bytes have come since the reader last took an event.
fn bounded(
    response: Response,
    most: usize,
    unread: Arc<AtomicUsize>,
    mut overrun: Option<(Exchange, McpError)>,
) -> BoxStream<'static, Result<Bytes, std::io::Error>> {
    response
        .bytes_stream()
        .map(move |chunk| {
            let chunk = chunk.map_err(|error| std::io::Error::other(reason(error)))?;
            if unread.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len() <= most {
                return Ok(chunk);
            }
            if let Some((exchange, error)) = overrun.take() {
                exchange.abort(Failure::Mcp(error));
            }
            Err(std::io::Error::other("an event is over the size limit"))
        })
        .boxed()
}

struct Reading<S> {
    events: S,
    unread: Arc<AtomicUsize>,
    exchange: Option<(Exchange, RequestId)>,
    server: String,
    answered: bool,
    resumable: bool,
}

impl<S: futures::Stream<Item = Result<Sse, SseError>> + Unpin> Reading<S> {
    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        if self.answered {
            // Reads on to the end, so that the connection can be used again. The end of a stream with
            // event ids would make `rmcp` open another one to resume it: there is nothing to resume.
            while let Some(Ok(_)) = self.events.next().await {}
            return if self.resumable { std::future::pending().await } else { None };
        }
        let mut event = match self.events.next().await? {
            Ok(event) => event,
            Err(error) => return Some(Err(error)),
        };
        self.unread.store(0, Ordering::Relaxed);
        self.resumable |= event.id.is_some();
        if let (Some((exchange, id)), Some(data)) = (&self.exchange, &event.data) {
            exchange.hear();
            if let Heard::Answer(stand_in) = exchange.read(data.as_bytes(), id, &self.server) {
                event.data = serde_json::to_string(&stand_in).ok();
                self.answered = true;
            }
        }
        Some(Ok(event))
    }
}
