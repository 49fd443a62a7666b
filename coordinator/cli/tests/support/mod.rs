//! What the tests of the executable share.

#![allow(dead_code, unreachable_pub, reason = "each test executable uses a part of it")]
#![allow(missing_debug_implementations, reason = "nothing here is printed")]

use std::{
    process::{Output, Stdio},
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use tokio::{net::TcpListener, process::Command};

pub const KEY: &str = "rk_the-key-of-the-tests";

/// A request as the API got it.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// With its query.
    pub target: String,
    pub authorization: Option<String>,
    pub body: String,
}

/// Status, content type and body.
pub type Reply = (u16, &'static str, String);

pub fn json(status: u16, body: impl Into<String>) -> Reply {
    (status, "application/json", body.into())
}

type Handler = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

/// An HTTP server on this machine that answers as the test says, and remembers what it was asked.
pub struct Api {
    pub url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    handler: Handler,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Api {
    pub async fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen("127.0.0.1:0", handler).await
    }

    pub async fn listen(address: &str, handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).await.expect("the address is free");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let shared = Shared { handler: Arc::new(handler), requests: Arc::clone(&requests) };
        let app = Router::new().fallback(answer).with_state(shared);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.expect("serves") });
        Self { url, requests, task }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no test panicked").clone()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(State(shared): State<Shared>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let request = Request {
        method: method.to_string(),
        target: uri.to_string(),
        authorization: headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(Into::into),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let (status, content_type, body) = (shared.handler)(&request);
    shared.requests.lock().expect("no test panicked").push(request);
    (StatusCode::from_u16(status).expect("a status"), [(header::CONTENT_TYPE, content_type)], body).into_response()
}

/// The executable under test, with nothing of the caller's environment that changes what it does.
pub fn rewind_at(executable: &std::path::Path) -> Command {
    let mut command = Command::new(executable);
    for name in ["REWIND_API", "REWIND_KEY", "REWIND_DATA", "REWIND_NATS_SERVER", "REWIND_TSC"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What `rewind` does with these arguments, as text.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self {
            code: output.status.code().expect("not ended by a signal"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

pub async fn rewind(api: &str, args: &[&str]) -> Done {
    let mut command = rewind_at(env!("CARGO_BIN_EXE_rewind").as_ref());
    command.env("REWIND_API", api).env("REWIND_KEY", KEY).args(args);
    command.output().await.expect("rewind starts").into()
}
