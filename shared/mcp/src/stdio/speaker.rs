use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{io::AsyncWriteExt, process::ChildStdin, sync::mpsc, task::AbortHandle};

use crate::exchange::Exchange;

/// Bytes that wait for a server that is slow to read.
const MOST_QUEUED: usize = 64 << 20;

/// Says lines to a process, in order.
pub(super) struct Speaker {
    lines: mpsc::UnboundedSender<Line>,
    queued: Arc<AtomicUsize>,
}

struct Line {
    text: Vec<u8>,
    exchange: Option<Exchange>,
}

impl Speaker {
    /// Dropped, it closes the process's stdin once everything is said; aborted, at once.
    pub(super) fn start(stdin: ChildStdin) -> (Self, AbortHandle) {
        let (lines, to_say) = mpsc::unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        let task = tokio::spawn(write(stdin, to_say, Arc::clone(&queued)));
        (Self { lines, queued }, task.abort_handle())
    }

    /// # Errors
    /// When too much waits already.
    pub(super) fn say(&self, mut text: Vec<u8>, exchange: Option<Exchange>) -> Result<(), &'static str> {
        if self.queued.load(Ordering::Relaxed) >= MOST_QUEUED {
            return Err("it does not read what it is sent");
        }
        // Between the tokens of a JSON text; in its strings there is none.
        text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        text.push(b'\n');
        self.queued.fetch_add(text.len(), Ordering::Relaxed);
        // Where nobody listens any more, the end of the process tells those who wait.
        let _ = self.lines.send(Line { text, exchange });
        Ok(())
    }
}

async fn write(mut stdin: ChildStdin, mut to_say: mpsc::UnboundedReceiver<Line>, queued: Arc<AtomicUsize>) {
    while let Some(Line { text, exchange }) = to_say.recv().await {
        queued.fetch_sub(text.len(), Ordering::Relaxed);
        if exchange.as_ref().is_some_and(|exchange| !exchange.sending()) {
            continue;
        }
        if stdin.write_all(&text).await.is_err() {
            // The line lacks its end, so no server has taken it for a message. The end of the process, which
            // is near, tells the one who waits.
            if let Some(exchange) = exchange {
                exchange.not_sent();
            }
            return;
        }
    }
}
