//! One sandbox process, seen from the node.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    net::UnixStream,
    process::Child,
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};

use super::{PoolConfig, spawn::Spawner, usage::Usage};
use crate::{
    Limit, SandboxError, ToSandbox, Turn,
    frame::{self, FrameError},
    process::EXIT_CPU,
    protocol::{FromSandbox, Landlock},
};

/// How long a child may take from its start to being confined.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a child whose socket was closed may take to end by itself.
const END_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two looks at a process that is at work.
const WATCH: Duration = Duration::from_millis(50);
/// Between two looks at a process that is not.
const WATCH_IDLE: Duration = Duration::from_secs(10);
/// Bytes of one answer, all its parts together: what a script that took over its process could make
/// the node hold.
const MAX_ANSWER_BYTES: usize = 1 << 30;

/// Where requests to a process go. It ends when the last handle is dropped.
#[derive(Debug, Clone)]
pub(super) struct Handle {
    requests: mpsc::UnboundedSender<Request>,
    instances: Arc<Occupied>,
}

/// Counts a process's instances by the references to it, this handle's own not counted.
#[derive(Debug, Default)]
pub(super) struct Occupied {
    _private: (),
}

#[derive(Debug)]
struct Request {
    frame: Vec<u8>,
    /// Absent: the message is not answered.
    answer: Option<oneshot::Sender<Result<Turn, SandboxError>>>,
    /// CPU time after which the sandbox itself should have stopped.
    cpu_bound: Duration,
}

impl Handle {
    pub(super) fn instances(&self) -> usize {
        Arc::strong_count(&self.instances)
    }

    pub(super) fn occupy(&self) -> Arc<Occupied> {
        Arc::clone(&self.instances)
    }

    pub(super) async fn ask(&self, message: &ToSandbox, cpu_bound: Duration) -> Result<Turn, SandboxError> {
        let frame = frame::encode(message).map_err(|error| SandboxError::TooLarge(error.to_string()))?;
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request { frame, answer: Some(answer), cpu_bound }).map_err(|_| SandboxError::Lost)?;
        answered.await.map_err(|_| SandboxError::Lost)?
    }

    /// Says something that is not answered. Nothing is lost when the process is gone.
    pub(super) fn tell(&self, message: &ToSandbox) {
        if let Ok(frame) = frame::encode(message) {
            let _ = self.requests.send(Request { frame, answer: None, cpu_bound: Duration::ZERO });
        }
    }
}

/// A confined child that waits for its first frame.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pid: u32,
    socket: UnixStream,
    resident_bytes: u64,
    grace: Duration,
    /// The thread that made the child must outlive it.
    _spawner: Spawner,
}

impl Process {
    pub(super) async fn start(config: &PoolConfig, spawner: &Spawner) -> Result<Self, SandboxError> {
        let (mut child, mut socket) = spawner.spawn(config).await.map_err(SandboxError::Spawn)?;
        let pid = child.id().ok_or_else(|| SandboxError::NotConfined("it ended at once".into()))?;
        match timeout(READY_TIMEOUT, frame::read_async(&mut socket)).await {
            Ok(Ok(Some(FromSandbox::Ready { landlock }))) => note(pid, landlock),
            Ok(Ok(Some(_))) => return Err(SandboxError::NotConfined("it answered before it was asked".into())),
            Ok(Ok(None) | Err(_)) => {
                let status = child.wait().await.map_err(SandboxError::Spawn)?;
                return Err(SandboxError::NotConfined(status.to_string()));
            }
            Err(_) => return Err(SandboxError::NotConfined(format!("nothing within {READY_TIMEOUT:?}"))),
        }
        let (resident_bytes, grace) = (config.resident_bytes, config.grace);
        Ok(Self { child, pid, socket, resident_bytes, grace, _spawner: spawner.clone() })
    }

    /// Where requests go, and the work of handling them: it is done when the child has ended and was
    /// reaped.
    pub(super) fn run(self) -> (Handle, impl Future<Output = ()> + Send) {
        let (requests, todo) = mpsc::unbounded_channel();
        let handle = Handle { requests, instances: Arc::default() };
        (handle, self.serve(todo))
    }

    async fn serve(mut self, mut todo: mpsc::UnboundedReceiver<Request>) {
        let mut idle = interval_at(Instant::now() + WATCH_IDLE, WATCH_IDLE);
        idle.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                request = todo.recv() => match request {
                    None => break,
                    Some(request) => if !self.handle(request).await { return },
                },
                status = self.child.wait() => {
                    tracing::warn!(pid = self.pid, ?status, "a sandbox process ended while no script was at work");
                    return;
                }
                _ = idle.tick() => if self.resident() > self.resident_bytes {
                    tracing::warn!(pid = self.pid, limit = self.resident_bytes, "a sandbox process is over its memory while no script is at work: it is replaced");
                    break;
                },
            }
        }
        // Its requests are refused from here on; what it held replays elsewhere.
        drop(todo);
        self.close().await;
    }

    /// Returns whether the process is still there.
    async fn handle(&mut self, request: Request) -> bool {
        let Some(answer) = request.answer else {
            return match self.socket.write_all(&request.frame).await {
                Ok(()) => true,
                Err(_) => {
                    self.kill().await;
                    false
                }
            };
        };
        let result = self.turn(&request.frame, request.cpu_bound + self.grace).await;
        let alive = result.is_ok();
        // A requester that was cancelled does not want it; its instance's drop follows.
        let _ = answer.send(result);
        alive
    }

    /// Sends a frame and awaits its answer, watching the child. After an error it has been reaped.
    async fn turn(&mut self, frame: &[u8], cpu_bound: Duration) -> Result<Turn, SandboxError> {
        // Read at the first look, not before: most turns end sooner, and /proc is not for free.
        let mut began = None;
        let mut watch = interval_at(Instant::now() + WATCH, WATCH);
        let overrun = {
            let exchange = exchange(&mut self.socket, frame);
            tokio::pin!(exchange);
            loop {
                tokio::select! {
                    answered = &mut exchange => match answered {
                        Ok(turn) => return Ok(turn),
                        Err(error) => {
                            tracing::debug!(pid = self.pid, %error, "a sandbox process gave no answer");
                            break None;
                        }
                    },
                    _ = watch.tick() => {
                        let Ok(usage) = Usage::of(self.pid) else { continue };
                        let began = *began.get_or_insert(usage.cpu.saturating_sub(WATCH));
                        if usage.cpu.saturating_sub(began) > cpu_bound {
                            break Some(Limit::Cpu);
                        }
                        if usage.resident > self.resident_bytes {
                            break Some(Limit::Memory);
                        }
                    }
                }
            }
        };
        Err(self.ended(overrun).await)
    }

    async fn ended(&mut self, overrun: Option<Limit>) -> SandboxError {
        // A child that closed its socket is about to end with a status that says why.
        let by_itself = if overrun.is_none() { timeout(END_TIMEOUT, self.child.wait()).await.ok() } else { None };
        let status = match by_itself {
            Some(status) => status,
            None => {
                self.kill().await;
                self.child.wait().await
            }
        };
        let error = match (overrun, status) {
            (Some(limit), _) => SandboxError::Blamed(limit),
            (None, Ok(status)) if status.code() == Some(EXIT_CPU) => SandboxError::Blamed(Limit::Cpu),
            (None, Ok(status)) => SandboxError::Crashed(status),
            (None, Err(_)) => SandboxError::Lost,
        };
        tracing::warn!(pid = self.pid, %error, "a sandbox process ended while a script was at work");
        error
    }

    async fn kill(&mut self) {
        if let Err(error) = self.child.kill().await {
            tracing::error!(pid = self.pid, %error, "a sandbox process cannot be killed");
        }
    }

    async fn close(self) {
        let Self { mut child, socket, pid, .. } = self;
        drop(socket);
        if timeout(END_TIMEOUT, child.wait()).await.is_err()
            && let Err(error) = child.kill().await
        {
            tracing::error!(pid, %error, "a sandbox process cannot be killed");
        }
    }

    fn resident(&self) -> u64 {
        Usage::of(self.pid).map_or(0, |usage| usage.resident)
    }
}

async fn exchange(socket: &mut UnixStream, frame: &[u8]) -> Result<Turn, FrameError> {
    let closed = || FrameError::Io(std::io::ErrorKind::UnexpectedEof.into());
    socket.write_all(frame).await?;
    let mut answer: Option<Turn> = None;
    let mut bytes = 0;
    loop {
        let (turn, last) = match frame::read_async(socket).await?.ok_or_else(closed)? {
            FromSandbox::Part(turn) => (*turn, false),
            FromSandbox::Turn(turn) => (*turn, true),
            FromSandbox::Ready { .. } => return Err(closed()),
        };
        bytes += turn.size();
        if bytes > MAX_ANSWER_BYTES {
            return Err(FrameError::TooLarge(bytes));
        }
        let turn = match answer {
            None => turn,
            Some(before) => before.followed_by(turn),
        };
        if last {
            return Ok(turn);
        }
        answer = Some(turn);
    }
}

fn note(pid: u32, landlock: Landlock) {
    static ABSENT: AtomicUsize = AtomicUsize::new(0);
    match landlock {
        Landlock::Enforced | Landlock::Partial => tracing::debug!(pid, ?landlock, "a sandbox process is ready"),
        Landlock::Absent if ABSENT.fetch_add(1, Ordering::Relaxed) == 0 => {
            tracing::info!("the kernel has no Landlock: seccomp alone keeps sandboxes from files");
        }
        Landlock::Absent => {}
    }
}
