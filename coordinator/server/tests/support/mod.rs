//! A NATS server and coordinators of this build, each test with its own.
#![allow(dead_code, reason = "each test file uses its part")]

use std::{
    future::Future,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use reqwest::{Method, RequestBuilder, StatusCode};
use rewind_bus::Bus;
use serde_json::{Value, json};

pub(crate) const KEY: &str = "rw_0123456789abcdef0123456789abcdef";
/// For a fact to become true. Generous: the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(30);

fn tool(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.tools").join(path)
}

pub(crate) fn tsc() -> PathBuf {
    tool("npm/node_modules/@typescript/typescript-linux-x64/lib/tsc")
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

/// Asks again and again until `probe` has an answer.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(fact: &str, mut probe: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "never became true: {fact}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) struct Nats {
    port: u16,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl Nats {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut nats = Self { port: free_port(), folder, child: None };
        nats.restart();
        nats
    }

    pub(crate) fn restart(&mut self) {
        let child = Command::new(tool("py/bin/nats-server"))
            .args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-js", "-sd"])
            .arg(self.folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("nats-server starts"));
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) async fn bus(&self) -> Bus {
        Bus::connect(&self.url().parse().expect("a URL"), "test").await.expect("connected")
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) struct Coordinator {
    pub(crate) api: String,
    child: Child,
    http: reqwest::Client,
}

impl Coordinator {
    /// Started, and ready.
    pub(crate) async fn start(nats: &Nats) -> Self {
        let coordinator = Self::spawn(&nats.url());
        coordinator.ready().await;
        coordinator
    }

    pub(crate) fn spawn(nats: &str) -> Self {
        Self::spawn_with(nats, &tsc())
    }

    pub(crate) fn spawn_with(nats: &str, tsc: &Path) -> Self {
        let listen = format!("127.0.0.1:{}", free_port());
        let child = Command::new(env!("CARGO_BIN_EXE_rewind-coordinator"))
            .args(["--nats", nats, "--listen", &listen, "--tsc"])
            .arg(tsc)
            .env("REWIND_BOOTSTRAP_KEY", KEY)
            .spawn();
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(90)).build();
        Self {
            api: format!("http://{listen}"),
            child: child.expect("the coordinator starts"),
            http: http.expect("a client"),
        }
    }

    pub(crate) async fn ready(&self) {
        eventually("the coordinator is ready", || async {
            let (status, body) = self.try_get("/readyz").await?;
            (status == 200 && body["status"] == "ready").then_some(())
        })
        .await;
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }

    /// Asks it to stop, and waits until it has: its exit code.
    pub(crate) async fn terminate(&mut self) -> Option<i32> {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a pid");
        // SAFETY: kill(2) takes no pointer; the child has not been reaped, so the pid is its own.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        let child = std::cell::RefCell::new(&mut self.child);
        eventually("the coordinator stops", || async { child.borrow_mut().try_wait().expect("waited") }).await.code()
    }

    /// A request with the key.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.api)).bearer_auth(KEY)
    }

    /// A request without one.
    pub(crate) fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.api))
    }

    async fn try_get(&self, path: &str) -> Option<(StatusCode, Value)> {
        let answer = self.request(Method::GET, path).send().await.ok()?;
        Some((answer.status(), answer.json().await.ok()?))
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        send(self.request(Method::POST, path).json(body)).await
    }

    /// The id of a toolset with one host tool.
    pub(crate) async fn toolset(&self) -> String {
        let (status, body) = self.post("/v1/toolsets", &host_toolset()).await;
        assert!(status == 200 || status == 201, "{body}");
        body["id"].as_str().expect("an id").to_owned()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body; a problem must call itself one.
pub(crate) async fn send(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.expect("an answer");
    let status = answer.status().as_u16();
    let kind =
        answer.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let body: Value = answer.json().await.expect("JSON");
    if body.get("type").is_some_and(|kind| kind.as_str().is_some_and(|kind| kind.starts_with("/problems/"))) {
        assert_eq!(kind, "application/problem+json");
        assert_eq!(body["status"], status);
    }
    (status, body)
}

pub(crate) fn host_toolset() -> Value {
    json!({"host_tools": {"lookup_order": {
        "description": "Looks an order up.",
        "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"], "additionalProperties": false},
        "output_schema": {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]},
    }}})
}

pub(crate) const SCRIPT: &str = r#"import { host } from "rewind:tools";
export default async function main(input: { id: string }) {
  const order = await host.lookup_order({ id: input.id });
  return order.total;
}
"#;

/// An MCP server of the 2025 era, as small as one can be: `look` is a good tool, `bad` has a schema
/// that is none, `twice` is there twice. Its URL.
pub(crate) async fn mcp_server() -> String {
    stoppable_mcp_server().await.0
}

/// As [`mcp_server`], and the task that answers.
pub(crate) async fn stoppable_mcp_server() -> (String, tokio::task::JoinHandle<std::io::Result<()>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
    let schema = json!({"type": "object"});
    let tools = json!([
        {"name": "look", "description": "Looks.", "inputSchema": schema},
        {"name": "bad", "inputSchema": {"type": "objekt"}},
        {"name": "twice", "inputSchema": schema}, {"name": "twice", "inputSchema": schema},
    ]);
    let answer = move |axum::Json(request): axum::Json<Value>| async move {
        let result = match request["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "orders", "version": "1"}}),
            Some("tools/list") => json!({"tools": tools}),
            Some(method) if method.starts_with("notifications/") => {
                return (axum::http::StatusCode::ACCEPTED, String::new());
            }
            _ => {
                let error = json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no such method"}});
                return (axum::http::StatusCode::OK, error.to_string());
            }
        };
        (axum::http::StatusCode::OK, json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string())
    };
    let with_type = axum::middleware::map_response(|mut response: axum::response::Response| async move {
        response.headers_mut().insert("content-type", axum::http::HeaderValue::from_static("application/json"));
        response
    });
    let router = axum::Router::new().route("/mcp", axum::routing::post(answer)).layer(with_type);
    let task = tokio::spawn(async move { axum::serve(listener, router).await });
    (url, task)
}
