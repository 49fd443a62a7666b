//! The pipes under `rmcp` when the server is a child process: a JSON-RPC message is a line.
//!
//! ```text
//! launcher ─ child ─ spawn        starts it, again after a while when it dies, and ends it
//!                  └ guard        ends what it has started when this process cannot
//! mod (Stdio) ─ speaker           lines to its stdin, each whole or not at all
//!             └ listener ─ lines  lines from its stdout, each for the exchange that waits for it
//! diary                           its stderr, for the log
//! ```

mod child;
mod diary;
mod guard;
mod id_scan;
mod launcher;
mod lines;
mod listener;
mod spawn;
mod speaker;
mod waiting;

use std::sync::Arc;

use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::launcher::Launcher;
use self::{speaker::Speaker, waiting::Waiting};
use crate::{
    McpError,
    exchange::Failure,
    transport::Kept,
    wire::{self, exchange_of},
};

/// One process's pipes, as `rmcp` uses them. Dropped, the process is told to end.
pub(crate) struct Stdio {
    server: String,
    speaker: Option<Speaker>,
    heard: mpsc::Receiver<ServerJsonRpcMessage>,
    waiting: Arc<Waiting>,
    /// Nothing is ever sent by it: the process ends with it.
    _stop: oneshot::Sender<()>,
}

impl Stdio {
    fn queue(&self, message: &ClientJsonRpcMessage) -> Result<(), Kept> {
        if let JsonRpcMessage::Notification(notification) = message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
        {
            self.waiting.forget(id);
        }
        let exchange = exchange_of(message);
        let fail = |failure| {
            if let Some(exchange) = exchange {
                exchange.abort(failure);
            }
            Kept
        };
        let Some(speaker) = &self.speaker else { return Err(fail(Failure::Closed)) };
        let unreachable = |reason: String| Failure::Mcp(McpError::Unreachable { server: self.server.clone(), reason });
        let text = wire::text(message)
            .map_err(|error| fail(unreachable(format!("the request cannot be written: {error}"))))?;
        if let (JsonRpcMessage::Request(request), Some(exchange)) = (message, exchange)
            && !self.waiting.add(request, exchange)
        {
            return Err(fail(Failure::Closed));
        }
        speaker.say(text, exchange.cloned()).map_err(|reason| {
            if let JsonRpcMessage::Request(request) = message {
                self.waiting.forget(&request.id);
            }
            fail(unreachable(reason.to_owned()))
        })
    }
}

impl Transport<RoleClient> for Stdio {
    type Error = Kept;

    /// Queues it at once, so that messages go out in the order in which they were given.
    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = Result<(), Kept>> + Send + 'static {
        std::future::ready(self.queue(&message))
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.heard.recv().await
    }

    async fn close(&mut self) -> Result<(), Kept> {
        // The process's stdin goes with it. The rest follows when the transport is dropped.
        self.speaker = None;
        Ok(())
    }
}
