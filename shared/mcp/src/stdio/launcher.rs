use std::{
    process::ExitStatus,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::AbortHandle,
    time::{Instant, timeout},
};

use super::{
    Stdio,
    child::{Child, Pipes},
    diary::Diary,
    listener::Listener,
    speaker::Speaker,
    waiting::Waiting,
};
use crate::{McpError, endpoint::Program};

/// Messages that `rmcp` has yet to take.
const HEARD: usize = 64;
/// How long the last words of a process that ended may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Starts the processes of one endpoint, one after the other, and ends them.
#[derive(Clone)]
pub(crate) struct Launcher(Arc<Inner>);

struct Inner {
    program: Program,
    backoff: Mutex<Backoff>,
    /// It is known not to understand `server/discover`.
    legacy: AtomicBool,
    closing: watch::Sender<bool>,
    /// Processes that have not ended, or are being started.
    alive: watch::Sender<usize>,
}

/// A process during the handshake.
pub(crate) struct Launching {
    diary: Arc<Diary>,
    ended: watch::Receiver<Option<Ending>>,
    well: Arc<AtomicBool>,
}

/// How a process ended.
#[derive(Debug, Clone)]
struct Ending {
    by_itself: bool,
    text: String,
}

impl Launcher {
    pub(crate) fn new(program: Program) -> Self {
        let (closing, _) = watch::channel(false);
        let (alive, _) = watch::channel(0);
        let backoff = Mutex::new(Backoff::new());
        Self(Arc::new(Inner { program, backoff, legacy: AtomicBool::new(false), closing, alive }))
    }

    pub(crate) fn server(&self) -> &str {
        &self.0.program.display
    }

    pub(crate) fn is_legacy(&self) -> bool {
        self.0.legacy.load(Ordering::Relaxed)
    }

    pub(crate) fn set_legacy(&self, legacy: bool) {
        self.0.legacy.store(legacy, Ordering::Relaxed);
    }

    /// Starts a process, after a wait where the last ones have not lived long.
    ///
    /// # Errors
    /// [`McpError::Unreachable`] when it cannot be started.
    pub(crate) async fn start(&self) -> Result<(Stdio, Launching), McpError> {
        let wait = self.0.backoff().wait(Instant::now());
        if !wait.is_zero() {
            tracing::info!(server = self.server(), ?wait, "the MCP server is started again after a wait");
            tokio::time::sleep(wait).await;
        }
        let alive = Alive::new(Arc::clone(&self.0));
        if *self.0.closing.borrow() {
            return Err(self.unreachable("this process is ending, and starts no server any more".to_owned()));
        }
        let (child, pipes) = match Child::start(&self.0.program).await {
            Ok(started) => started,
            Err(error) => {
                self.0.backoff().ended(Duration::ZERO, Instant::now());
                return Err(self.unreachable(format!(
                    "the command cannot be started: {error}; it has to be an executable's path, or a name that the \
                     PATH of Rewind's own process has"
                )));
            }
        };
        tracing::info!(server = self.server(), pid = child.pid(), "MCP server started");
        Ok(attach(alive, child, pipes))
    }

    /// Ends every process and waits for their ends; none is started from then on.
    pub(crate) async fn close(&self) {
        self.0.closing.send_replace(true);
        let mut alive = self.0.alive.subscribe();
        // The sender is in `self`.
        let _ = alive.wait_for(|alive| *alive == 0).await;
    }

    fn unreachable(&self, reason: String) -> McpError {
        McpError::Unreachable { server: self.server().to_owned(), reason }
    }
}

impl Launching {
    /// The handshake is done: when it ends now, the next one is started at once.
    pub(crate) fn succeeded(&self) {
        self.well.store(true, Ordering::Relaxed);
    }

    /// What the process has to do with it that the handshake failed: how it ended, if it did by itself,
    /// and its last words.
    pub(crate) async fn last_words(mut self) -> (Option<String>, String) {
        let ending = ending(&mut self.ended).await.filter(|ending| ending.by_itself);
        (ending.map(|ending| ending.text), self.diary.last_words())
    }
}

impl Inner {
    fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a process.
struct Alive(Arc<Inner>);

impl Alive {
    fn new(inner: Arc<Inner>) -> Self {
        inner.alive.send_modify(|alive| *alive += 1);
        Self(inner)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.send_modify(|alive| *alive -= 1);
    }
}

/// Sets up everything that lives as long as the process does.
fn attach(alive: Alive, child: Child, pipes: Pipes) -> (Stdio, Launching) {
    let server = alive.0.program.display.clone();
    let diary = Arc::new(Diary::new(server.clone(), child.pid()));
    let waiting = Arc::new(Waiting::new());
    let (heard_sender, heard) = mpsc::channel(HEARD);
    let (stop, stopped) = oneshot::channel();
    let (ended_sender, ended) = watch::channel(None);
    let well = Arc::new(AtomicBool::new(false));

    let (speaker, stdin) = Speaker::start(pipes.stdin);
    let stderr = tokio::spawn({
        let diary = Arc::clone(&diary);
        async move { diary.keep(pipes.stderr).await }
    });
    let listener = Listener {
        server: server.clone(),
        waiting: Arc::clone(&waiting),
        heard: heard_sender,
        diary: Arc::clone(&diary),
    };
    tokio::spawn(listen(listener, pipes.stdout, ended.clone()));
    let attendant = Attendant { alive, child, stdin, well: Arc::clone(&well) };
    tokio::spawn(async move {
        let ending = attendant.attend(stopped).await;
        // A process that left the group may hold the pipe: its lines are not waited for.
        let _ = timeout(LAST_WORDS, stderr).await;
        ended_sender.send_replace(Some(ending));
    });
    (Stdio { server, speaker: Some(speaker), heard, waiting, _stop: stop }, Launching { diary, ended, well })
}

/// Listens until nothing more is to be heard, and then tells those who wait for answers.
async fn listen(listener: Listener, stdout: tokio::process::ChildStdout, mut ended: watch::Receiver<Option<Ending>>) {
    let given_up = listener.listen(stdout).await;
    // A closed pipe is mostly an ended process.
    let ending = ending(&mut ended).await;
    let found = ending.as_ref().map_or("its stdout was closed", |ending| &ending.text);
    listener.waiting.end(&listener.server, given_up.unwrap_or(found));
}

/// `None`: it has not ended, and will not in time.
async fn ending(ended: &mut watch::Receiver<Option<Ending>>) -> Option<Ending> {
    timeout(LAST_WORDS, ended.wait_for(Option::is_some)).await.ok()?.ok()?.clone()
}

/// Sees to a process until its end.
struct Attendant {
    alive: Alive,
    child: Child,
    /// Aborted, it closes the process's stdin.
    stdin: AbortHandle,
    well: Arc<AtomicBool>,
}

impl Attendant {
    async fn attend(mut self, stopped: oneshot::Receiver<()>) -> Ending {
        let started = Instant::now();
        let inner = Arc::clone(&self.alive.0);
        let mut closing = inner.closing.subscribe();
        let status = tokio::select! {
            biased;
            status = self.child.wait() => Some(status),
            _ = stopped => None,
            _ = closing.wait_for(|closing| *closing) => None,
        };
        self.stdin.abort();
        let (server, pid) = (&inner.program.display, self.child.pid());
        let well = self.well.load(Ordering::Relaxed);
        let by_itself = status.is_some();
        if by_itself || !well {
            let lived = if well { started.elapsed() } else { Duration::ZERO };
            inner.backoff().ended(lived, Instant::now());
        }
        let text = match status {
            Some(status) => {
                let how = how(status);
                tracing::warn!(%server, pid, "the MCP server has ended by itself: {how}");
                format!("its process ended ({how})")
            }
            None => {
                let how = how(self.child.stop().await);
                tracing::info!(%server, pid, "the MCP server was ended: {how}");
                "its process was ended".to_owned()
            }
        };
        Ending { by_itself, text }
    }
}

fn how(status: std::io::Result<ExitStatus>) -> String {
    status.map_or_else(|error| format!("it was lost: {error}"), |status| status.to_string())
}

/// The wait before a start: short after a process that was well, growing while they keep dying.
#[derive(Debug)]
struct Backoff {
    next: Duration,
    not_before: Option<Instant>,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(10);
    /// A process that lived this long was well.
    const WELL: Duration = Duration::from_secs(10);

    fn new() -> Self {
        Self { next: Self::FIRST, not_before: None }
    }

    fn ended(&mut self, lived: Duration, now: Instant) {
        if lived >= Self::WELL {
            self.next = Self::FIRST;
        }
        self.not_before = Some(now + self.next);
        self.next = (self.next * 2).min(Self::LONGEST);
    }

    fn wait(&self, now: Instant) -> Duration {
        self.not_before.map_or(Duration::ZERO, |start| start.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_while_processes_keep_dying_and_begin_anew_after_one_that_lived() {
        let (mut backoff, now) = (Backoff::new(), Instant::now());
        assert_eq!(backoff.wait(now), Duration::ZERO);
        let mut after = |lived| {
            backoff.ended(lived, now);
            backoff.wait(now).as_millis()
        };
        let waits: Vec<_> = (0..9).map(|_| after(Duration::from_secs(1))).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]);
        assert_eq!(after(Backoff::WELL), 100);
        assert_eq!(backoff.wait(now + Duration::from_secs(1)), Duration::ZERO);
    }
}
