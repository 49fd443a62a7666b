use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::process::ChildStderr;

use super::lines::Lines;
use crate::error::excerpt;

/// Bytes of a line of stderr; what goes over is left out.
const LONGEST_LINE: usize = 4 << 10;
/// Lines of one process that are logged in `WINDOW`.
const MOST_LINES: u32 = 200;
const WINDOW: Duration = Duration::from_secs(1);

/// What a process writes that is no message: for the log, and the last of it for error messages.
#[derive(Debug)]
pub(super) struct Diary {
    server: String,
    pid: u32,
    pages: Mutex<Pages>,
}

#[derive(Debug)]
struct Pages {
    last_line: Option<String>,
    nonsense: Option<String>,
    window: Instant,
    lines: u32,
}

impl Diary {
    pub(super) fn new(server: String, pid: u32) -> Self {
        let pages = Pages { last_line: None, nonsense: None, window: Instant::now(), lines: 0 };
        Self { server, pid, pages: Mutex::new(pages) }
    }

    /// Logs stderr until it ends.
    pub(super) async fn keep(&self, stderr: ChildStderr) {
        let mut lines = Lines::new(stderr);
        while let Ok(Some(piece)) = lines.next(|| LONGEST_LINE).await {
            if piece.begins {
                self.stderr(piece.text);
            }
        }
        self.tell_left_out(&self.lock());
    }

    fn stderr(&self, line: &[u8]) {
        let text = printable(line);
        if text.is_empty() {
            return;
        }
        let shown = {
            let mut pages = self.lock();
            pages.last_line = Some(excerpt(&text));
            self.may_log(&mut pages)
        };
        if shown {
            tracing::info!(server = %self.server, pid = self.pid, "stderr: {text}");
        }
    }

    /// A line of stdout that is no message.
    pub(super) fn nonsense(&self, line: &[u8]) {
        let text = excerpt(&printable(line));
        let shown = {
            let mut pages = self.lock();
            pages.nonsense = Some(text.clone());
            self.may_log(&mut pages)
        };
        if shown {
            tracing::warn!(server = %self.server, pid = self.pid, "wrote a line on stdout that is no message: {text}");
        }
    }

    /// A line of stdout of so many bytes that answers nothing.
    pub(super) fn skipped(&self, bytes: usize) {
        self.lock().nonsense = Some(format!("a line of {bytes} bytes"));
        tracing::warn!(server = %self.server, pid = self.pid, bytes, "wrote a line on stdout that is over every limit");
    }

    /// The last words, for the one who wonders why it is no server: ` (…)`, or nothing.
    pub(super) fn last_words(&self) -> String {
        let pages = self.lock();
        match (&pages.nonsense, &pages.last_line) {
            (_, Some(line)) => format!(" (the last line on its stderr: {line})"),
            (Some(nonsense), None) => format!(" (it wrote: {nonsense})"),
            (None, None) => String::new(),
        }
    }

    /// A flood is cut, so that the log is not lost to one server.
    fn may_log(&self, pages: &mut Pages) -> bool {
        if pages.window.elapsed() >= WINDOW {
            self.tell_left_out(pages);
            (pages.window, pages.lines) = (Instant::now(), 0);
        }
        pages.lines = pages.lines.saturating_add(1);
        pages.lines <= MOST_LINES
    }

    fn tell_left_out(&self, pages: &Pages) {
        let left_out = pages.lines.saturating_sub(MOST_LINES);
        if left_out > 0 {
            tracing::warn!(server = %self.server, pid = self.pid, left_out, "lines were left out");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// At most `LONGEST_LINE` bytes, as characters that do nothing to a terminal.
fn printable(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(&line[..line.len().min(LONGEST_LINE)]);
    let harmless = |c: char| {
        !c.is_control() && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    line.trim_end()
        .chars()
        .map(|c| {
            if harmless(c) {
                c
            } else if c == '\t' {
                ' '
            } else {
                '\u{fffd}'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_does_nothing_to_a_terminal_and_has_an_end() {
        assert_eq!(printable(b"\x1b[2Ja\tb\r"), "\u{fffd}[2Ja b");
        assert_eq!(printable("\u{202e}evil".as_bytes()), "\u{fffd}evil");
        assert_eq!(printable(&[b'x'; 3 * LONGEST_LINE]).len(), LONGEST_LINE);
        assert_eq!(printable(b"\xff"), "\u{fffd}");
    }

    #[test]
    fn a_flood_is_cut() {
        let diary = Diary::new("server".into(), 1);
        let logged = (0..10_000).filter(|_| diary.may_log(&mut diary.lock())).count();
        assert!((200..2_000).contains(&logged), "{logged}");
        diary.nonsense(b"hello");
        assert_eq!(diary.last_words(), " (it wrote: hello)");
        diary.stderr(b"No such module\n");
        assert_eq!(diary.last_words(), " (the last line on its stderr: No such module)");
    }
}
