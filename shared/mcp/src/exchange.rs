//! One request and its answer, carried beside `rmcp`'s message from the caller to the transport
//! and back: what `rmcp`'s own types would round, drop or blur travels here.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use rewind_model::Json;
use rmcp::model::{ErrorData, ListToolsResult, RequestId, ServerJsonRpcMessage, ServerResult, Tool};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::{sync::Notify, time::Instant};

use crate::McpError;

/// Bytes that an answer may have around its result.
pub(crate) const ENVELOPE: usize = 64 << 10;

/// Why a request failed, as far as the connection must know.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server no longer knows the session; it did not process the request.
    SessionExpired,
    /// The connection's task had ended before the request was sent.
    Closed,
    Mcp(McpError),
}

/// What is asked, which decides how an answer is read.
#[derive(Debug)]
pub(crate) enum Ask {
    List,
    /// The arguments: the text that goes on the wire.
    Call(Box<RawValue>),
}

/// Cheap to clone; every clone is the same exchange.
#[derive(Debug, Clone)]
pub(crate) struct Exchange(Arc<State>);

#[derive(Debug)]
struct State {
    ask: Ask,
    /// Bytes of the result.
    limit: usize,
    started: Instant,
    /// Milliseconds from `started` to the last thing that the server sent.
    heard: AtomicU64,
    stage: AtomicU8,
    end: Mutex<Option<Result<Json, Failure>>>,
    abort: Notify,
}

/// Stages of a request. It leaves the first one once, so that who gives it up and who sends it agree on
/// which of the two came first.
const WAITING: u8 = 0;
const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

/// A message that a server sent, as far as it may answer a request.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    result: Option<Json>,
    #[serde(default)]
    error: Option<ErrorObject>,
}

#[derive(Deserialize)]
pub(crate) struct ErrorObject {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
}

/// What the text that came turned out to be.
#[expect(clippy::large_enum_variant, reason = "nearly every one is the answer, and none is kept")]
pub(crate) enum Heard {
    /// The answer. It has been kept; this stands for it towards `rmcp`.
    Answer(ServerJsonRpcMessage),
    /// A notification or a request of the server's.
    Other,
    /// No JSON-RPC message.
    Nonsense(String),
}

impl Exchange {
    pub(crate) fn new(ask: Ask, limit: usize) -> Self {
        Self(Arc::new(State {
            ask,
            limit,
            started: Instant::now(),
            heard: AtomicU64::new(0),
            stage: AtomicU8::new(WAITING),
            end: Mutex::new(None),
            abort: Notify::new(),
        }))
    }

    /// The text of the call's arguments.
    pub(crate) fn arguments(&self) -> Option<&RawValue> {
        match &self.0.ask {
            Ask::Call(arguments) => Some(arguments),
            Ask::List => None,
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.0.limit
    }

    /// From here on the tool may see the request. `false`: it has been given up, and must not be sent.
    #[must_use]
    pub(crate) fn sending(&self) -> bool {
        self.leave_waiting_for(SENT)
    }

    /// It was about to be sent, and certainly was not.
    pub(crate) fn not_sent(&self) {
        let _ = self.0.stage.compare_exchange(SENT, WAITING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Nobody waits for it any more: unless it has been sent, it never will be.
    pub(crate) fn give_up(&self) {
        self.leave_waiting_for(GIVEN_UP);
    }

    fn leave_waiting_for(&self, stage: u8) -> bool {
        self.0.stage.compare_exchange(WAITING, stage, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn sent(&self) -> bool {
        self.0.stage.load(Ordering::Acquire) == SENT
    }

    /// Before it is sent again, after a refusal.
    pub(crate) fn reset(&self) {
        self.0.stage.store(WAITING, Ordering::Release);
        self.take();
    }

    /// The server has just sent something that belongs to this exchange.
    pub(crate) fn hear(&self) {
        let since = u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.heard.store(since, Ordering::Relaxed);
    }

    /// Resolves when the server has been silent for `idle`.
    pub(crate) async fn silence(&self, idle: Duration) {
        loop {
            let heard = Duration::from_millis(self.0.heard.load(Ordering::Relaxed));
            let end = self.0.started + heard + idle;
            if end <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(end).await;
        }
    }

    /// Keeps how the request ended; the first end counts.
    pub(crate) fn end(&self, end: Result<Json, Failure>) {
        self.lock().get_or_insert(end);
    }

    /// Ends it with a failure that `rmcp` would not report by itself.
    pub(crate) fn abort(&self, failure: Failure) {
        self.end(Err(failure));
        self.0.abort.notify_one();
    }

    pub(crate) async fn aborted(&self) {
        loop {
            self.0.abort.notified().await;
            // A word that nobody took may be from before a reset.
            if self.lock().is_some() {
                return;
            }
        }
    }

    pub(crate) fn take(&self) -> Option<Result<Json, Failure>> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Result<Json, Failure>>> {
        self.0.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a message that came in answer to the request with `id`, and keeps it if it is the answer.
    pub(crate) fn read(&self, text: &[u8], id: &RequestId, server: &str) -> Heard {
        // serde would read an array as the members in order.
        if text.trim_ascii_start().first() != Some(&b'{') {
            return Heard::Nonsense("it sent no JSON object".into());
        }
        let envelope: Envelope<'_> = match serde_json::from_slice(text) {
            Ok(envelope) => envelope,
            Err(error) => return Heard::Nonsense(format!("it sent no JSON-RPC message: {error}")),
        };
        if let Some(error) = envelope.error {
            // A server that could not read the request cannot give its id back.
            if envelope.id.is_some_and(|theirs| !is_same_id(theirs, id)) {
                return Heard::Other;
            }
            self.end(Err(Failure::Mcp(protocol(server, &error))));
            let stand_in = ErrorData::internal_error("kept in the exchange", None);
            return Heard::Answer(ServerJsonRpcMessage::error(stand_in, Some(id.clone())));
        }
        let Some(result) = envelope.result else {
            return match envelope.id {
                Some(theirs) if is_same_id(theirs, id) => {
                    Heard::Nonsense("its answer has neither result nor error".into())
                }
                _ => Heard::Other,
            };
        };
        if !envelope.id.is_some_and(|theirs| is_same_id(theirs, id)) {
            return Heard::Other;
        }
        let stand_in = ServerJsonRpcMessage::response(self.stand_in(&result), id.clone());
        self.end(if result.len() > self.0.limit {
            Err(Failure::Mcp(McpError::TooLarge { server: server.into(), limit: self.0.limit }))
        } else {
            Ok(result)
        });
        Heard::Answer(stand_in)
    }

    /// What `rmcp` gets instead of the result: nothing, but for a page of tools of which some want
    /// arguments mirrored in headers, since `rmcp` does that from the schemas that it has seen.
    fn stand_in(&self, result: &Json) -> ServerResult {
        if matches!(self.0.ask, Ask::List) && mirrors_arguments(result) {
            #[derive(Deserialize)]
            struct Tools {
                tools: Vec<Value>,
            }
            let entries = result.to().map(|page: Tools| page.tools).unwrap_or_default();
            let tools: Vec<Tool> = entries.into_iter().filter_map(|entry| serde_json::from_value(entry).ok()).collect();
            return ServerResult::ListToolsResult(ListToolsResult::with_all_items(tools));
        }
        ServerResult::empty(())
    }
}

/// Does a page hold a tool with arguments that are also sent as headers (SEP-2243)?
pub(crate) fn mirrors_arguments(page: &Json) -> bool {
    page.as_str().contains("\"x-mcp-header\"")
}

pub(crate) fn protocol(server: &str, error: &ErrorObject) -> McpError {
    McpError::Protocol { server: server.into(), code: error.code, message: crate::error::excerpt(&error.message) }
}

/// Some servers give a number back as a string.
fn is_same_id(theirs: &RawValue, ours: &RequestId) -> bool {
    let theirs = theirs.get().trim_matches('"');
    match ours {
        RequestId::Number(number) => theirs.parse() == Ok(*number),
        RequestId::String(text) => theirs == &**text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(exchange: &Exchange, text: &str) -> &'static str {
        match exchange.read(text.as_bytes(), &RequestId::Number(7), "server") {
            Heard::Answer(_) => "answer",
            Heard::Other => "other",
            Heard::Nonsense(_) => "nonsense",
        }
    }

    #[test]
    fn only_the_answer_with_its_id_counts() {
        let exchange = Exchange::new(Ask::List, 100);
        for (text, heard) in [
            (r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#, "other"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, "nonsense"),
            (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, "other"),
            ("{}", "other"),
            ("[]", "nonsense"),
            ("<html>", "nonsense"),
        ] {
            assert_eq!(read(&exchange, text), heard, "{text}");
            assert!(exchange.take().is_none(), "{text}");
        }
        assert_eq!(read(&exchange, r#"{"jsonrpc":"2.0","id":"7","result":{"n":12345678901234567890123}}"#), "answer");
        let kept = exchange.take().expect("an end").expect("a result");
        assert_eq!(kept.as_str(), r#"{"n":12345678901234567890123}"#);
    }

    #[test]
    fn what_was_given_up_is_not_sent_and_what_was_sent_is_not_given_up() {
        let exchange = Exchange::new(Ask::List, 100);
        exchange.give_up();
        assert!(!exchange.sending() && !exchange.sent());
        exchange.reset();
        assert!(exchange.sending());
        exchange.give_up();
        assert!(exchange.sent());
    }

    #[test]
    fn an_error_without_an_id_is_the_answer() {
        let exchange = Exchange::new(Ask::List, 100);
        assert_eq!(
            read(&exchange, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#),
            "answer"
        );
        assert!(matches!(exchange.take(), Some(Err(Failure::Mcp(McpError::Protocol { code: -32700, .. })))));
    }

    #[test]
    fn a_result_over_the_limit_is_not_kept() {
        let exchange = Exchange::new(Ask::List, 10);
        assert_eq!(read(&exchange, r#"{"id":7,"result":"123456789"}"#), "answer");
        assert!(matches!(exchange.take(), Some(Err(Failure::Mcp(McpError::TooLarge { limit: 10, .. })))));
    }
}
