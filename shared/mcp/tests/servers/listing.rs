//! Listing tools, from real servers of both eras and from one that misbehaves.

use std::time::Duration;

use rewind_mcp::{Client, Endpoint, Era, ListLimits, McpError};
use serde_json::{Value, json};

use crate::peer::{self, Peer};

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

async fn names(peer: &Peer) -> Result<Vec<String>, McpError> {
    let listing = peer.client().list_tools(ListLimits::default()).await?;
    Ok(listing.tools.into_iter().map(|tool| tool.name).collect())
}

#[tokio::test]
async fn the_stateless_era() {
    let effects = tempfile::NamedTempFile::new().expect("a temporary file");
    let peer = Peer::orders(effects.path());
    let listing = peer.client().list_tools(ListLimits::default()).await.expect("listed");
    assert_eq!((listing.era, listing.protocol_version.as_str()), (Era::Stateless, "2026-07-28"));
    assert!(listing.instructions.expect("some").contains("cents"));
    let [list_orders, send_email] = &listing.tools[..] else { panic!("two tools") };
    assert_eq!((list_orders.name.as_str(), send_email.name.as_str()), ("list_orders", "send_email"));
    assert!(list_orders.output_schema.as_ref().expect("declared")["properties"]["orders"].is_object());
    assert_eq!(send_email.input_schema["required"], json!(["to", "subject", "body"]));
}

#[tokio::test]
async fn the_era_of_sessions() {
    let peer = Peer::everything();
    let listing = peer.client().list_tools(ListLimits::default()).await.expect("listed");
    assert_eq!((listing.era, listing.protocol_version.as_str()), (Era::Session, "2025-11-25"));
    assert!(listing.tools.iter().any(|tool| tool.name == "echo"), "{:?}", listing.tools);
    assert_eq!(listing.malformed, []);
}

#[tokio::test]
async fn pages_are_followed_through_an_empty_cursor_and_keep_order_and_duplicates() {
    let peer = Peer::scripted(json!({"pages": [
        {"cursor": null, "tools": [tool("b"), tool("a")], "nextCursor": ""},
        {"cursor": "", "tools": [tool("a"), {"name": "odd", "inputSchema": 5}, {"name": "none"}], "nextCursor": "3"},
        {"cursor": "3", "tools": [tool("c")]},
    ]}));
    let listing = peer.client().list_tools(ListLimits::default()).await.expect("listed");
    let names: Vec<&str> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["b", "a", "a", "odd", "c"]);
    assert_eq!(listing.tools[3].input_schema, 5);
    assert_eq!(listing.malformed[0].name.as_deref(), Some("none"));
    assert_eq!(listing.instructions.as_deref(), Some("Expect the worst."));
}

#[tokio::test]
async fn a_repeated_cursor_is_an_error() {
    let peer = Peer::scripted(json!({"pages": [
        {"cursor": null, "tools": [tool("a")], "nextCursor": "2"},
        {"cursor": "2", "tools": [tool("b")], "nextCursor": "2"},
    ]}));
    let error = names(&peer).await.expect_err("no end");
    assert!(matches!(&error, McpError::UnusableList { reason, .. } if reason.contains("\"2\"")), "{error}");
}

#[tokio::test]
async fn a_list_is_bounded_in_pages_tools_and_bytes() {
    let peer = Peer::scripted(json!({"pages": [
        {"cursor": null, "tools": [tool("a"), tool("b")], "nextCursor": "2"},
        {"cursor": "2", "tools": [tool("c"), tool("d")]},
    ]}));
    let client = peer.client();
    let limits = ListLimits::default();
    let unusable = |listed| matches!(listed, Err(McpError::UnusableList { .. }));
    assert!(unusable(client.list_tools(ListLimits { pages: 1, ..limits }).await));
    assert!(unusable(client.list_tools(ListLimits { tools: 3, ..limits }).await));
    let bytes = client.list_tools(ListLimits { bytes: 150, ..limits }).await.expect_err("over the limit");
    assert!(matches!(bytes, McpError::TooLarge { .. }), "{bytes}");
    assert!(client.list_tools(ListLimits { pages: 2, tools: 4, bytes: 1_000, ..limits }).await.is_ok());
}

#[tokio::test]
async fn a_page_that_fails_fails_the_list() {
    let peer = Peer::scripted(json!({"pages": [
        {"cursor": null, "tools": [tool("a")], "nextCursor": "2"},
        {"cursor": "2", "status": 500},
    ]}));
    let error = names(&peer).await.expect_err("failed").to_string();
    assert!(error.contains("HTTP 500") && error.contains("on fire"), "{error}");
}

#[tokio::test]
async fn what_is_no_mcp_server_is_told_apart_from_what_is_not_there() {
    for answer in ["html", "json"] {
        let error = names(&Peer::scripted(json!({"answer": answer}))).await.expect_err("no MCP server");
        assert!(matches!(error, McpError::NotMcp { .. }), "{answer}: {error}");
    }
    let closes = names(&Peer::scripted(json!({"answer": "close"}))).await.expect_err("no answer");
    assert!(matches!(closes, McpError::Unreachable { .. }), "{closes}");
    let refuses = names(&Peer::scripted(json!({"answer": "401"}))).await.expect_err("refused");
    assert!(matches!(refuses, McpError::Unauthorized { status: 401, .. }), "{refuses}");
    assert!(!refuses.to_string().contains("secret-echo"));
    let url = format!("http://user:s3cret@127.0.0.1:{}/mcp?key=s3cret", peer::free_port());
    let nobody = Client::new(&Endpoint::http(url)).expect("valid");
    let error = nobody.list_tools(ListLimits::default()).await.expect_err("nobody there");
    assert!(matches!(error, McpError::Unreachable { .. }) && !error.may_have_been_sent(), "{error}");
    assert!(!format!("{error} {error:?} {nobody:?}").contains("s3cret"), "{error:?}");
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let peer = Peer::scripted(json!({"answer": "hang"}));
    let limits = ListLimits { timeout: Duration::from_millis(300), ..ListLimits::default() };
    let error = peer.client().list_tools(limits).await.expect_err("no answer");
    assert!(matches!(error, McpError::Timeout { .. }), "{error}");
}
