//! The tools that the scripts of the benchmark call: host tools and an MCP server, in one process that
//! does nothing else, so that what they cost can be told from what Rewind costs.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use rewind_model::Key;
use rewind_sdk::{Ctx, ToolError, Worker};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::gaps::{Gaps, Seen};

/// Environment: makes this program the tools of the system whose NATS it names.
pub(crate) const NATS: &str = "REWIND_BENCH_TOOLS_OF";

/// Calls that wait at a time, in the section on memory.
const CONCURRENCY: usize = 2_000;

/// What a toolset says of them.
pub(crate) fn toolset(mcp: &str) -> Value {
    let tool = |name: &str| {
        json!({
            "description": "Answers.",
            "input_schema": {
                "type": "object", "properties": {name: {"type": "integer"}}, "required": [name]
            },
            "output_schema": output_schema(),
        })
    };
    json!({"mcp_servers": {"bench": {"url": mcp}}, "host_tools": {"echo": tool("n"), "hold": tool("ms")}})
}

fn output_schema() -> Value {
    json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
}

/// # Errors
/// When it cannot listen, or NATS refuses the worker.
pub(crate) async fn serve(nats: String) -> anyhow::Result<()> {
    let gaps = Arc::new(Gaps::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let routes = Router::new().route("/mcp", post(mcp)).route("/seen", get(seen)).with_state(gaps.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let watched = gaps.clone();
    let echo = move |ctx: Ctx, _: Value| {
        let (gaps, key) = (watched.clone(), key_of(&ctx));
        async move {
            gaps.call(&key);
            gaps.answer(&key);
            Ok::<_, ToolError>(json!({"ok": true}))
        }
    };
    let hold = move |ctx: Ctx, Hold { ms }: Hold| {
        let (gaps, key) = (gaps.clone(), key_of(&ctx));
        async move {
            gaps.call(&key);
            tokio::time::sleep(Duration::from_millis(ms)).await;
            gaps.answer(&key);
            Ok::<_, ToolError>(json!({"ok": true}))
        }
    };
    let worker =
        Worker::builder(nats).name("rewind-bench").concurrency(CONCURRENCY).tool("echo", echo).tool("hold", hold);
    worker.on_ready(move || println!("{}", json!({"url": url}))).run().await?;
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Hold {
    ms: u64,
}

fn key_of(ctx: &Ctx) -> Key {
    Key { run: ctx.run().clone(), seq: ctx.seq() }
}

async fn seen(State(gaps): State<Arc<Gaps>>) -> Json<Seen> {
    Json(gaps.take())
}

/// The part of MCP 2026-07-28 that a client needs for one tool: no session, one JSON answer a request.
async fn mcp(State(gaps): State<Arc<Gaps>>, Json(request): Json<Value>) -> Response {
    let result = match request["method"].as_str() {
        Some("server/discover") => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "ttlMs": 3_600_000, "cacheScope": "public",
            "serverInfo": {"name": "bench", "version": "1"}
        }),
        Some("tools/list") => json!({
            "resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public",
            "tools": [{
                "name": "echo", "description": "Answers.",
                "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
                "outputSchema": output_schema()
            }]
        }),
        Some("tools/call") => {
            let key: Option<Key> =
                request["params"]["_meta"]["codes.rewind/idempotency-key"].as_str().and_then(|key| key.parse().ok());
            let Some(key) = key else {
                return (StatusCode::BAD_REQUEST, "no idempotency key").into_response();
            };
            gaps.call(&key);
            gaps.answer(&key);
            json!({"resultType": "complete", "content": [], "structuredContent": {"ok": true}})
        }
        Some(method) if method.starts_with("notifications/") => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            return Json(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}
