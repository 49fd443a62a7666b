//! A real NATS server, and what a run's node would do with a host call.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use futures::StreamExt;
use rewind_bus::{
    Bus,
    command::{Answer, Command as RunCommand, Delivered},
    host::HostCall,
};
use rewind_model::{Json, Key, Outcome, Payload, RunId, Seq, ToolFailure, TraceContext};
use rewind_sdk::{Stopped, WorkerBuilder, WorkerError};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle};

/// What takes longer has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks whether the connection is a new one.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(done) => done,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// Asks again until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// `nats-server` with JetStream on a free port, gone with its files when dropped.
pub(crate) struct Nats {
    directory: TempDir,
    server: Child,
    port: String,
}

impl Nats {
    pub(crate) async fn start() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let server = serve(directory.path(), "-1");
        let ports = directory.path().join(format!("nats-server_{}.ports", server.id()));
        let port = until("the server's port", async || {
            let ports: Value = serde_json::from_slice(&std::fs::read(&ports).ok()?).ok()?;
            Some(ports["nats"][0].as_str()?.rsplit_once(':')?.1.to_owned())
        })
        .await;
        Self { directory, server, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) async fn bus(&self) -> Bus {
        let url = self.url().parse().expect("a URL");
        within("connecting", Bus::connect(&url, "test")).await.expect("connected")
    }

    pub(crate) fn stop(&mut self) {
        self.server.kill().expect("the server runs");
        self.server.wait().expect("the server ended");
    }

    pub(crate) fn start_again(&mut self) {
        self.server = serve(self.directory.path(), &self.port);
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn serve(directory: &Path, port: &str) -> Child {
    Command::new(repository().join(".tools/py/bin/nats-server"))
        .args(["-a", "127.0.0.1", "-p", port, "-js", "-sd"])
        .arg(directory.join("store"))
        .arg("--ports_file_dir")
        .arg(directory)
        .stderr(Stdio::null())
        .spawn()
        .expect("`make tools` installs nats-server")
}

/// A run as its node sees it: queues calls, hears answers.
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) bus: Bus,
    commands: Pin<Box<dyn futures::Stream<Item = Result<Delivered, String>> + Send>>,
    /// Of the connection on which the consumer was made.
    connects: u64,
}

impl Run {
    pub(crate) async fn new(bus: &Bus) -> Self {
        Self::of(bus.clone(), RunId::random()).await
    }

    async fn of(bus: Bus, id: RunId) -> Self {
        let connects = bus.connects();
        let take = || bus.take_commands(id.shard());
        let commands = bus.retry("take commands", take).await.expect("a consumer");
        Self { id, commands: Box::pin(commands), connects, bus }
    }

    pub(crate) fn key(&self, seq: Seq) -> Key {
        Key { run: self.id.clone(), seq }
    }

    pub(crate) fn call(&self, tool: &str, seq: Seq, arguments: Value) -> HostCall {
        let key = self.key(seq);
        HostCall {
            tool: tool.into(),
            trace: TraceContext::of_run(&key.run).of_call(&key, 1),
            key,
            attempt: 1,
            arguments: Payload::Inline(Json::from(arguments)),
            timeout: PATIENCE,
            namespace: Some("ada".into()),
            at_most_once: false,
        }
    }

    pub(crate) async fn queue(&self, tool: &str, seq: Seq, arguments: Value) {
        self.bus.queue_host_call(&self.call(tool, seq, arguments)).await.expect("queued");
    }

    /// The next answer to one of this run's calls.
    pub(crate) async fn answer(&mut self) -> Answer {
        within("an answer", async {
            loop {
                // The consumer is in the server's memory: after a restart it is made anew, as a node does.
                let next = tokio::time::timeout(LOOK, self.commands.next()).await;
                let Ok(Some(Ok(delivered))) = next else {
                    if self.connects != self.bus.connects() {
                        *self = Self::of(self.bus.clone(), self.id.clone()).await;
                    }
                    continue;
                };
                delivered.ack.done().await;
                match delivered.command {
                    Ok(RunCommand::Answer(answer)) if delivered.run == self.id => return answer,
                    Ok(_) => {}
                    Err(why) => panic!("a worker sent what is no command: {why}"),
                }
            }
        })
        .await
    }

    pub(crate) async fn ask(&mut self, tool: &str, seq: Seq, arguments: Value) -> Answer {
        self.queue(tool, seq, arguments).await;
        let answer = self.answer().await;
        assert_eq!(answer.seq, seq);
        answer
    }
}

pub(crate) fn value(answer: &Answer) -> Value {
    match &answer.outcome {
        Outcome::Ok(Payload::Inline(json)) => json.to().expect("JSON"),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn failure(answer: &Answer) -> &ToolFailure {
    match &answer.outcome {
        Outcome::Err(failure) => failure,
        Outcome::Ok(_) => panic!("{answer:?}"),
    }
}

/// A worker in this process, ready.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<Stopped, WorkerError>>,
}

pub(crate) async fn start(worker: WorkerBuilder) -> Running {
    let (ready, is_ready) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let worker = worker.on_ready(move || ready.send(()).expect("the test waits"));
    let task = tokio::spawn(worker.run_until(async move { stopped.await.expect("the test stops it") }));
    within("a ready worker", is_ready).await.expect("ready");
    Running { stop, task }
}

impl Running {
    /// Tells the worker to stop, and goes on.
    pub(crate) fn stopping(self) -> JoinHandle<Result<Stopped, WorkerError>> {
        self.stop.send(()).expect("the worker runs");
        self.task
    }

    pub(crate) async fn stop(self) -> Stopped {
        within("the end of a worker", self.stopping()).await.expect("no panic").expect("a worker's end")
    }
}
