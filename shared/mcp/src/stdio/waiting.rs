use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rmcp::model::{
    ClientRequest, GetExtensions, JsonRpcRequest, NumberOrString, ProgressToken, RequestId, RequestMetaObject,
};
use serde_json::value::RawValue;

use crate::{
    McpError,
    exchange::{ENVELOPE, Exchange, Failure},
};

/// Bytes of a message that answers no exchange: one of the handshake, a request of the server's.
const LONGEST: usize = 16 << 20;

/// The requests of one process that wait for their answers; none is added once the process is gone.
#[derive(Debug)]
pub(super) struct Waiting(Mutex<Option<HashMap<RequestId, Asked>>>);

#[derive(Debug)]
struct Asked {
    exchange: Exchange,
    progress: Option<ProgressToken>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Some(HashMap::new())))
    }

    /// Whether it can still be answered.
    pub(super) fn add(&self, request: &JsonRpcRequest<ClientRequest>, exchange: &Exchange) -> bool {
        let meta: Option<&RequestMetaObject> = request.request.extensions().get();
        let progress = meta.and_then(RequestMetaObject::get_progress_token);
        let asked = Asked { exchange: exchange.clone(), progress };
        self.lock().as_mut().map(|all| all.insert(request.id.clone(), asked)).is_some()
    }

    /// Nobody wants its answer any more.
    pub(super) fn forget(&self, id: &RequestId) {
        self.take(id);
    }

    /// The one that an answer with this id is for.
    pub(super) fn take(&self, id: &RequestId) -> Option<Exchange> {
        Some(self.lock().as_mut()?.remove(id)?.exchange)
    }

    /// The only one there is, if it is.
    pub(super) fn only(&self) -> Option<RequestId> {
        let waiting = self.lock();
        let mut ids = waiting.as_ref()?.keys();
        ids.next().filter(|_| ids.next().is_none()).cloned()
    }

    /// The server says that it is at work on the request with this token.
    pub(super) fn hear(&self, token: &ProgressToken) {
        if let Some(asked) =
            self.lock().iter().flat_map(HashMap::values).find(|asked| asked.progress.as_ref() == Some(token))
        {
            asked.exchange.hear();
        }
    }

    /// Bytes that a line may have.
    pub(super) fn longest_line(&self) -> usize {
        let limits = |all: &HashMap<_, Asked>| all.values().map(|asked| asked.exchange.limit()).max();
        self.lock().as_ref().and_then(limits).unwrap_or(0).max(LONGEST).saturating_add(ENVELOPE)
    }

    /// The process is gone: what it may have seen is lost, what it has not seen can be sent to another one.
    pub(super) fn end(&self, server: &str, reason: &str) {
        for Asked { exchange, .. } in self.lock().take().into_iter().flat_map(HashMap::into_values) {
            exchange.abort(if exchange.sent() {
                Failure::Mcp(McpError::Interrupted { server: server.to_owned(), reason: reason.to_owned() })
            } else {
                Failure::Closed
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<RequestId, Asked>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id as a server gives it back: some make a string of a number.
pub(super) fn request_id(text: &RawValue) -> Option<RequestId> {
    let text = text.get().trim_matches('"');
    match text {
        "" | "null" => None,
        _ => Some(text.parse().map_or_else(|_| NumberOrString::String(text.into()), NumberOrString::Number)),
    }
}
