use std::sync::Arc;

use rmcp::model::{ErrorData, ProgressToken, RequestId, ServerJsonRpcMessage};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{process::ChildStdout, sync::mpsc};

use super::{
    diary::Diary,
    id_scan::IdScan,
    lines::Lines,
    waiting::{Waiting, request_id},
};
use crate::{
    McpError,
    exchange::{Exchange, Failure, Heard},
};

/// Bytes of a line that are read over before the server is given up.
const MOST_SKIPPED: usize = 256 << 20;

/// Reads what a process says: answers go to the exchanges that wait for them, the rest to `rmcp`.
pub(super) struct Listener {
    pub(super) server: String,
    pub(super) waiting: Arc<Waiting>,
    pub(super) heard: mpsc::Sender<ServerJsonRpcMessage>,
    pub(super) diary: Arc<Diary>,
}

/// As much of a message as tells whom it is for.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Listener {
    /// Returns when nothing more is to be heard, and why it has stopped to listen if it was not the server
    /// that has stopped to speak.
    pub(super) async fn listen(&self, stdout: ChildStdout) -> Option<&'static str> {
        let mut lines = Lines::new(stdout);
        let mut skipping: Option<(IdScan, usize)> = None;
        loop {
            let piece = match lines.next(|| self.waiting.longest_line()).await {
                Ok(Some(piece)) => piece,
                Ok(None) | Err(_) => return None,
            };
            if piece.begins && piece.ends {
                let Some(message) = self.message(piece.text) else { continue };
                if self.heard.send(message).await.is_err() {
                    return Some("the connection was closed");
                }
                continue;
            }
            let (scan, skipped) = skipping.get_or_insert_default();
            scan.feed(piece.text);
            *skipped += piece.text.len();
            if *skipped > MOST_SKIPPED {
                return Some("it wrote a line without end");
            }
            if piece.ends {
                let (scan, skipped) = skipping.take().unwrap_or_default();
                if let Some(message) = self.too_large(&scan, skipped)
                    && self.heard.send(message).await.is_err()
                {
                    return Some("the connection was closed");
                }
            }
        }
    }

    /// Keeps an answer in its exchange; gives what `rmcp` is to see of the line, if anything.
    fn message(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        if line.trim_ascii().is_empty() {
            return None;
        }
        // serde would read an array as the members in order.
        let object = line.trim_ascii_start().first() == Some(&b'{');
        let head = match serde_json::from_slice::<Head<'_>>(line) {
            Ok(head) if object => head,
            read => {
                self.diary.nonsense(line);
                return read.err().and_then(|error| self.broken(line, &error));
            }
        };
        if let Some(method) = head.method {
            if head.id.is_none() {
                self.notice(&method, head.params);
                return if is_for_rmcp(&method) { self.parse(line) } else { None };
            }
            return self.parse(line);
        }
        let id = match head.id.and_then(request_id) {
            Some(id) => id,
            // A server that could not read the request cannot give its id back.
            None if head.error.is_some() => match self.waiting.only() {
                Some(id) => id,
                None => return self.parse(line),
            },
            None => return self.parse(line),
        };
        match self.waiting.take(&id) {
            Some(exchange) => Some(self.answer(line, &id, &exchange)),
            None => self.parse(line),
        }
    }

    fn answer(&self, line: &[u8], id: &RequestId, exchange: &Exchange) -> ServerJsonRpcMessage {
        exchange.hear();
        let reason = match exchange.read(line, id, &self.server) {
            Heard::Answer(stand_in) => return stand_in,
            Heard::Nonsense(reason) => reason,
            Heard::Other => "it answered with what is no answer".to_owned(),
        };
        // A call may have been done all the same.
        exchange.end(Err(Failure::Mcp(McpError::Interrupted { server: self.server.clone(), reason })));
        stand_in_error(id)
    }

    /// What is no JSON may still have been meant as an answer: `NaN` is what Python makes of one.
    fn broken(&self, line: &[u8], error: &serde_json::Error) -> Option<ServerJsonRpcMessage> {
        let mut scan = IdScan::default();
        scan.feed(line);
        let (id, exchange) = self.asked(&scan)?;
        let reason = format!("it sent no JSON-RPC message: {error}");
        exchange.end(Err(Failure::Mcp(McpError::Interrupted { server: self.server.clone(), reason })));
        Some(stand_in_error(&id))
    }

    /// The request that a line answers which cannot be read.
    fn asked(&self, scan: &IdScan) -> Option<(RequestId, Exchange)> {
        let id = request_id(serde_json::from_str(scan.id()?).ok()?)?;
        self.waiting.take(&id).map(|exchange| (id, exchange))
    }

    fn too_large(&self, scan: &IdScan, bytes: usize) -> Option<ServerJsonRpcMessage> {
        let Some((id, exchange)) = self.asked(scan) else {
            self.diary.skipped(bytes);
            return None;
        };
        let error = McpError::TooLarge { server: self.server.clone(), limit: exchange.limit() };
        exchange.end(Err(Failure::Mcp(error)));
        Some(stand_in_error(&id))
    }

    /// Progress shows that the server is at work.
    fn notice(&self, method: &str, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Progress {
            progress_token: ProgressToken,
        }
        if method == "notifications/progress"
            && let Some(Ok(progress)) = params.map(|params| serde_json::from_str::<Progress>(params.get()))
        {
            self.waiting.hear(&progress.progress_token);
        }
    }

    fn parse(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let message = serde_json::from_slice(line).ok();
        if message.is_none() {
            self.diary.nonsense(line);
        }
        message
    }
}

/// Of notifications, those that tools have changed, and what belongs to a subscription to them.
fn is_for_rmcp(method: &str) -> bool {
    method == "notifications/tools/list_changed" || method.starts_with("notifications/subscriptions/")
}

fn stand_in_error(id: &RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::internal_error("kept in the exchange", None), Some(id.clone()))
}
