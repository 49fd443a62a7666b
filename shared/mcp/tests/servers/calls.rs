//! Calling tools of real servers, and of one that misbehaves.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use rewind_mcp::{Call, CallResult, Client, Endpoint, McpError, Unwrapped, unwrap};
use rewind_model::{Json, TraceContext};
use serde_json::{Value, json};

use crate::peer::Peer;

async fn call(client: &Client, tool: &str, arguments: Value) -> Result<CallResult, McpError> {
    client.call(Call::new(tool, &Json::from(arguments), "run_1/7")).await
}

fn value(result: &CallResult) -> Value {
    match unwrap(result) {
        Unwrapped::Value(json) => json.to().expect("JSON"),
        Unwrapped::Failed(message) => panic!("the tool failed: {message}"),
    }
}

#[tokio::test]
async fn key_and_trace_context_arrive_with_the_arguments_as_they_were_given() {
    let peer = Peer::scripted(json!({}));
    let arguments = Json::parse(r#"{"n": 12345678901234567890123, "x": 1.00}"#).expect("JSON");
    let trace = TraceContext {
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        tracestate: Some("rewind=1".into()),
    };
    let result = peer
        .client()
        .call(Call { trace: Some(&trace), ..Call::new("echo", &arguments, "run_1/7") })
        .await
        .expect("called");
    let echoed = value(&result);
    assert_eq!(echoed["meta"]["codes.rewind/idempotency-key"], "run_1/7");
    assert_eq!(echoed["meta"]["traceparent"], trace.traceparent.as_str());
    assert_eq!(echoed["meta"]["tracestate"], "rewind=1");
    // Python keeps integers of any size; what came back is what was sent, digit for digit.
    assert!(result.structured_content().expect("structured").contains("12345678901234567890123"), "{result:?}");
}

#[tokio::test]
async fn headers_of_the_endpoint_go_with_every_request() {
    let peer = Peer::scripted(json!({}));
    let headers = BTreeMap::from([("Authorization".to_owned(), "Bearer t0ken".to_owned())]);
    let client = Client::new(&Endpoint::Http { url: peer.url.clone(), headers }).expect("valid");
    call(&client, "echo", json!({})).await.expect("called");
    let seen = peer.seen().await;
    let requests = seen["requests"].as_array().expect("a list");
    let methods: Vec<_> =
        requests.iter().map(|request| request["message"]["method"].as_str().expect("a method")).collect();
    assert_eq!(methods, ["server/discover", "initialize", "notifications/initialized", "tools/call"]);
    assert!(requests.iter().all(|request| request["headers"]["authorization"] == "Bearer t0ken"), "{seen}");
}

#[tokio::test]
async fn the_stateless_era() {
    let effects = tempfile::NamedTempFile::new().expect("a temporary file");
    let client = Peer::orders(effects.path());
    let (peer, client) = (&client, client.client());
    let orders = value(&call(&client, "list_orders", json!({"status": "shipped"})).await.expect("called"));
    assert_eq!(orders["orders"].as_array().expect("a list").len(), 1);
    let email = json!({"to": "ada@example.com", "subject": "Hello", "body": "World"});
    let first = value(&call(&client, "send_email", email.clone()).await.expect("called"));
    let again = value(&call(&peer.client(), "send_email", email).await.expect("called"));
    assert_eq!(first, again);
    let attempts = std::fs::read_to_string(effects.path()).expect("readable");
    let attempts: Vec<Value> = attempts.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(attempts.iter().map(|attempt| &attempt["effect"]).collect::<Vec<_>>(), [true, false]);
    assert!(attempts.iter().all(|attempt| attempt["key"] == "run_1/7"), "{attempts:?}");
    let refused = call(&client, "list_orders", json!({"status": "lost"})).await;
    assert!(matches!(refused, Ok(ref result) if result.is_error()), "{refused:?}");
}

#[tokio::test]
async fn the_era_of_sessions() {
    let peer = Peer::everything();
    let client = peer.client();
    let echo = value(&call(&client, "echo", json!({"message": "hi"})).await.expect("called"));
    assert_eq!(echo, "Echo: hi");
    let structured =
        value(&call(&client, "get-structured-content", json!({"location": "Chicago"})).await.expect("called"));
    assert!(structured["temperature"].is_number(), "{structured}");
    let long = Json::from(json!({"duration": 2, "steps": 4}));
    let call = Call {
        idle_timeout: Some(Duration::from_millis(1_500)),
        ..Call::new("trigger-long-running-operation", &long, "k")
    };
    assert!(!client.call(call).await.expect("progress keeps it alive").is_error());
}

#[tokio::test]
async fn a_real_server_that_was_restarted_gets_a_new_session() {
    let mut peer = Peer::everything();
    let client = peer.client();
    call(&client, "echo", json!({"message": "hi"})).await.expect("called");
    peer.kill();
    let _back = Peer::everything_on(peer.port());
    // The connection that was kept alive may take one call down with it.
    let mut answer = call(&client, "echo", json!({"message": "hi"})).await;
    if matches!(answer, Err(McpError::Interrupted { .. })) {
        answer = call(&client, "echo", json!({"message": "hi"})).await;
    }
    assert_eq!(value(&answer.expect("called in a new session")), "Echo: hi");
}

#[tokio::test]
async fn fifty_calls_at_once() {
    let effects = tempfile::NamedTempFile::new().expect("a temporary file");
    for peer in [
        Peer::orders(effects.path()),
        Peer::scripted(json!({"latency_ms": 50})),
        Peer::scripted(json!({"stream": "sse"})),
    ] {
        let client = peer.client();
        let keys: Vec<String> = (0..50).map(|number| format!("run_1/{number}")).collect();
        let arguments = Json::from(json!({"to": "a@example.com", "subject": "s", "body": "b"}));
        let tool = tool_of(&peer).await;
        let results = join_all(keys.iter().map(|key| client.call(Call::new(tool, &arguments, key)))).await;
        let distinct: std::collections::BTreeSet<String> =
            results.iter().map(|result| value(result.as_ref().expect("called")).to_string()).collect();
        assert_eq!(distinct.len(), 50, "each call has its own answer");
    }
}

/// Which tool of the peer gives another answer for another key.
async fn tool_of(peer: &Peer) -> &'static str {
    let listing = peer.client().list_tools(Default::default()).await.expect("listed");
    if listing.tools.iter().any(|tool| tool.name == "send_email") { "send_email" } else { "echo" }
}

#[tokio::test]
async fn a_connection_that_is_lost_after_the_effect_is_interrupted_and_the_same_key_has_one_effect() {
    for stream in ["json", "sse"] {
        let peer = Peer::scripted(json!({"drop_first": 1, "stream": stream}));
        let client = peer.client();
        let lost = call(&client, "effect", json!({})).await.expect_err("no answer");
        assert!(
            matches!(lost, McpError::Interrupted { .. }) && lost.may_have_been_sent() && lost.retryable(),
            "{lost}"
        );
        assert_eq!(peer.seen().await["attempts"]["run_1/7"], 1, "nothing here sends it again");
        assert_eq!(value(&call(&client, "effect", json!({})).await.expect("called")), json!({"effects": 1}));
    }
}

#[tokio::test]
async fn every_way_to_lose_an_answer_is_interrupted() {
    let peer = Peer::scripted(json!({}));
    let client = peer.client();
    for (tool, arguments) in [
        ("cut", json!({})),
        ("half", json!({})),
        ("html", json!({})),
        ("status", json!({"status": 502})),
        ("raw", json!({"result": []})),
    ] {
        let error = call(&client, tool, arguments).await.expect_err("no answer");
        assert!(matches!(error, McpError::Interrupted { .. }), "{tool}: {error}");
    }
    for (status, sent) in [(429, false), (415, false), (401, false), (503, true)] {
        let error = call(&client, "status", json!({"status": status})).await.expect_err("no answer");
        assert_eq!(error.may_have_been_sent(), sent, "{status}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_is_gone_is_unreachable_and_used_again_when_it_is_back() {
    let mut peer = Peer::scripted(json!({}));
    let client = peer.client();
    call(&client, "echo", json!({})).await.expect("called");
    peer.kill();
    // On a connection that was kept alive it cannot be known whether the server took the call.
    let lost = call(&client, "echo", json!({})).await.expect_err("nobody there");
    assert!(matches!(lost, McpError::Interrupted { .. } | McpError::Unreachable { .. }), "{lost}");
    let gone = call(&client, "echo", json!({})).await.expect_err("nobody there");
    assert!(matches!(gone, McpError::Unreachable { .. }) && !gone.may_have_been_sent(), "{gone}");
    let back = Peer::scripted_on(peer.port(), json!({}));
    assert_eq!(back.url, peer.url);
    call(&client, "echo", json!({})).await.expect("a session of the new server");
}

#[tokio::test]
async fn an_expired_session_is_opened_again_and_the_call_sent_once_more() {
    for status in [404, 400] {
        let peer = Peer::scripted(json!({"calls_per_session": 2, "expired_status": status}));
        let client = peer.client();
        for _ in 0..5 {
            call(&client, "effect", json!({})).await.expect("called");
        }
        let seen = peer.seen().await;
        assert_eq!((&seen["opened"], &seen["attempts"]["run_1/7"]), (&json!(3), &json!(5)), "{status}");
    }
}

#[tokio::test]
async fn many_calls_in_an_expired_session_open_one() {
    let peer = Peer::scripted(json!({}));
    let client = peer.client();
    call(&client, "echo", json!({})).await.expect("called");
    peer.change(json!({"forget": true})).await;
    let results = join_all((0..30).map(|_| call(&client, "echo", json!({})))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(peer.seen().await["opened"], 2);
}

#[tokio::test]
async fn timeouts_end_a_call_and_cancel_it_at_the_server() {
    let peer = Peer::scripted(json!({}));
    let client = peer.client();
    let arguments = Json::from(json!({}));
    let total = Call { timeout: Duration::from_millis(200), ..Call::new("hang", &arguments, "k") };
    let error = client.call(total).await.expect_err("no answer");
    assert!(matches!(error, McpError::Timeout { sent: true, .. }) && error.may_have_been_sent(), "{error}");
    peer.until(|seen| seen["abandoned"] == 1).await;
    let idle = Call { idle_timeout: Some(Duration::from_millis(200)), ..Call::new("hang", &arguments, "k") };
    let error = client.call(idle).await.expect_err("no answer");
    assert!(matches!(error, McpError::Timeout { sent: true, .. }), "{error}");
    peer.until(|seen| seen["abandoned"] == 2).await;
    // Progress breaks the silence, and the total still holds.
    let slow = Json::from(json!({"steps": 5, "step_ms": 100}));
    let alive = Call { idle_timeout: Some(Duration::from_millis(300)), ..Call::new("slow", &slow, "k") };
    assert_eq!(value(&client.call(alive).await.expect("alive")), "done");
    let total = client.call(Call { timeout: Duration::from_millis(250), ..alive }).await.expect_err("too long");
    assert!(matches!(total, McpError::Timeout { after, .. } if after == Duration::from_millis(250)), "{total}");
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_server() {
    let peer = Peer::scripted(json!({}));
    let client = peer.client();
    let hanging = tokio::spawn(async move { call(&client, "hang", json!({})).await });
    let called = |seen: &Value| {
        seen["requests"].as_array().is_some_and(|all| all.iter().any(|r| r["message"]["method"] == "tools/call"))
    };
    peer.until(called).await;
    hanging.abort();
    peer.until(|seen| seen["abandoned"] == 1).await;
}

#[tokio::test]
async fn a_result_over_the_limit_is_a_typed_error() {
    for stream in ["json", "sse"] {
        let peer = Peer::scripted(json!({"stream": stream}));
        let client = peer.client();
        let arguments = Json::from(json!({"bytes": 1 << 20}));
        let result = client.call(Call::new("big", &arguments, "k")).await.expect("under the limit");
        assert_eq!(value(&result).as_str().map(str::len), Some(1 << 20));
        // Well over it, which stops the reading, and by a little, which is found at the end.
        for max_result_bytes in [1 << 16, 1 << 20] {
            let error =
                client.call(Call { max_result_bytes, ..Call::new("big", &arguments, "k") }).await.expect_err("over it");
            assert!(
                matches!(error, McpError::TooLarge { limit, .. } if limit == max_result_bytes),
                "{stream}: {error}"
            );
            assert!(error.may_have_been_sent() && !error.retryable());
        }
        call(&client, "echo", json!({})).await.expect("the connection is still good");
    }
}

#[tokio::test]
async fn answers_of_other_kinds() {
    let peer = Peer::scripted(json!({}));
    let client = peer.client();
    let failed = call(&client, "fail", json!({})).await.expect("answered");
    assert_eq!(unwrap(&failed), Unwrapped::Failed("the order is locked".into()));
    let error = call(&client, "error", json!({})).await.expect_err("an error");
    assert!(
        matches!(&error, McpError::Protocol { code: -32042, message, .. } if message == "nobody expects this"),
        "{error}"
    );
    for kind in ["input_required", "task"] {
        let error = call(&client, "raw", json!({"result": {"resultType": kind}})).await.expect_err("unsupported");
        assert!(matches!(&error, McpError::Unsupported { what, .. } if what == kind), "{error}");
    }
    let resumed = call(&client, "resume", json!({})).await.expect("resumed by its event id");
    assert_eq!(value(&resumed), "resumed");
    let arguments = Json::parse("[1]").expect("JSON");
    let error = client.call(Call::new("echo", &arguments, "k")).await.expect_err("no object");
    assert!(matches!(error, McpError::InvalidArguments { .. }), "{error}");
}
