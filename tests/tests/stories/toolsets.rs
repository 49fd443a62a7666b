//! What servers list, and what becomes of it.

use anyhow::{Context, ensure};
use rewind_tests::{Cluster, Peer};
use serde_json::{Value, json};

use crate::support::{result, run_to_end};

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object", "properties": {"n": {"type": "number"}}}})
}

#[tokio::test]
async fn tools_are_called_by_the_names_that_their_server_gave_them() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let names = [
        "delete",
        "a-b",
        "a_b",
        "__proto__",
        "constructor",
        "then",
        "toString",
        "hasOwnProperty",
        "größe",
        "a.b",
        "1st",
        "with space",
        "\"quoted\"",
    ];
    let results: Value = names
        .iter()
        .map(|name| (name.to_string(), json!({"content": [{"type": "text", "text": format!("called {name}")}]})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let tools: Vec<Value> = names.iter().map(|name| tool(name)).collect();
    let server =
        Peer::scripted(&cluster, &json!({"pages": [{"cursor": null, "tools": tools}], "results": results})).await?;
    let registered = cluster.api.register(&json!({"mcp_servers": {"odd": {"url": server.said("url")?}}})).await?;
    ensure!(registered.warnings.is_empty(), "{:?}", registered.warnings);
    let script = r#"
        import { odd } from "rewind:tools";
        export default async function main() {
          return [
            await odd.delete({ n: 1 }), await odd["a-b"](), await odd.a_b(), await odd["__proto__"](), await odd.constructor(), await odd.then(),
            await odd.toString(), await odd.hasOwnProperty(), await odd["größe"](), await odd["a.b"](), await odd["1st"](), await odd["with space"](),
            await odd["\"quoted\""](),
          ];
        }
    "#;
    let ended = run_to_end(&cluster, &registered.id, script).await?;
    let expected: Vec<String> = names.iter().map(|name| format!("called {name}")).collect();
    ensure!(result(&ended)? == json!(expected), "{:?} {:?}", ended.result, ended.error);
    Ok(())
}

#[tokio::test]
async fn every_page_is_pinned_and_a_list_that_cannot_end_is_refused() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    // An empty cursor is a cursor like any other.
    let pages = json!([
        {"cursor": null, "tools": [tool("one")], "nextCursor": ""},
        {"cursor": "", "tools": [tool("two"), {"name": "bad", "inputSchema": {"type": "objekt"}}], "nextCursor": "c"},
        {"cursor": "c", "tools": [tool("three"), {"inputSchema": {}}, tool("two")]},
    ]);
    let server = Peer::scripted(&cluster, &json!({"pages": pages})).await?;
    let toolset = json!({"mcp_servers": {"shop": {"url": server.said("url")?}}});
    let registered = cluster.api.register(&toolset).await?;
    ensure!(registered.tools["shop"] == 2, "{:?}", registered.tools);
    let warned: Vec<_> = registered.warnings.iter().map(|warning| warning.tool.as_str()).collect();
    ensure!(warned == ["shop.(entry 4)", "shop.bad", "shop.two"], "{warned:?}");

    let endless = json!([{"cursor": null, "tools": [tool("one")], "nextCursor": "a"}, {"cursor": "a", "tools": [], "nextCursor": "a"}]);
    let half = json!([{"cursor": null, "tools": [tool("one")], "nextCursor": "a"}, {"cursor": "a", "tools": [], "status": 500}]);
    for (pages, said) in [(endless, "cursor"), (half, "shop")] {
        let server = Peer::scripted(&cluster, &json!({"pages": pages})).await?;
        let toolset = json!({"mcp_servers": {"shop": {"url": server.said("url")?}}});
        let refused = cluster.api.request::<Value>(reqwest::Method::POST, "/v1/toolsets", Some(&toolset)).await?;
        let refusal = refused.err().context("refused")?;
        let detail = refusal.problem.detail.clone().unwrap_or_default();
        ensure!(refusal.status == 502 && detail.contains("shop") && detail.contains(said), "{refusal:?}");
    }
    Ok(())
}
