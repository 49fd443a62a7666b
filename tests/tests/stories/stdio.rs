//! MCP servers that are processes of the node's own.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use reqwest::Method;
use rewind_model::{ProblemCode, ToolsetId};
use rewind_tests::{Cluster, ClusterOptions, eventually, kill};
use serde_json::{Value, json};

use crate::support::{error, result, run_to_end};

/// The variable by which this story's servers are told from those of others.
const MARK: &str = "REWIND_STORY";

async fn allowing() -> anyhow::Result<Cluster> {
    Cluster::start_with(ClusterOptions { allow_stdio: true, ..ClusterOptions::default() }).await
}

/// The MCP project's own server, as `every`.
fn everything(cluster: &Cluster) -> Value {
    let args = json!([cluster.tools().server_everything(), "stdio"]);
    json!({"mcp_servers": {"every": {"command": "node", "args": args, "env": {MARK: cluster.data()}}}})
}

/// `peers/pipes.py`, as `shop`.
async fn pipes(cluster: &Cluster) -> anyhow::Result<ToolsetId> {
    let tools = cluster.tools();
    let args = json!([tools.peer("pipes.py"), "--diary", cluster.path("diary.jsonl"), "--stays"]);
    let shop = json!({"command": tools.python(), "args": args, "env": {MARK: cluster.data()}});
    Ok(cluster.api.register(&json!({"mcp_servers": {"shop": shop}})).await?.id)
}

/// The servers of this cluster that run, by their environment.
fn servers(cluster: &Cluster) -> Vec<u32> {
    let mark = format!("{MARK}={}", cluster.data().display());
    let is_ours = |folder: &Path| {
        // One that has ended and is not reaped yet has none.
        let environment = fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = processes.filter(|folder| is_ours(folder));
    ours.filter_map(|folder| folder.file_name()?.to_str()?.parse().ok()).collect()
}

async fn gone(cluster: &Cluster, pid: u32) -> anyhow::Result<()> {
    eventually("the server is gone", || async { (!servers(cluster).contains(&pid)).then_some(()) }).await
}

const TWO_CALLS: &str = r#"
    import { every, sleep } from "rewind:tools";
    export default async function main() {
      const first = await every.echo({ message: "one" });
      await sleep("1500ms");
      const second = await every["get-sum"]({ a: 40, b: 2 });
      return [first, second];
    }
"#;

#[tokio::test]
async fn a_script_calls_a_server_over_stdio_that_is_killed_and_no_server_outlives_its_node() -> anyhow::Result<()> {
    let mut cluster = allowing().await?;
    let registered = cluster.api.register(&everything(&cluster)).await?;
    ensure!(registered.tools["every"] > 3, "{registered:?}");
    ensure!(servers(&cluster).is_empty(), "the one that was asked for its tools has ended");

    let run = cluster.api.start(&registered.id, TWO_CALLS, Value::Null).await?;
    let [first] = eventually("a server", || async { <[u32; 1]>::try_from(servers(&cluster)).ok() }).await?;
    eventually("the first call is answered", || async {
        (cluster.api.journal(&run.id).await.ok()?.items.first()?.status == "ok").then_some(())
    })
    .await?;
    kill(first);
    let ended = cluster.api.ended(&run.id).await?;
    let right = json!(["Echo: one", "The sum of 40 and 2 is 42."]);
    ensure!(result(&ended)? == right, "{:?}", ended.result);
    let [second] = servers(&cluster)[..] else { anyhow::bail!("one server for all calls: {:?}", servers(&cluster)) };
    ensure!(second != first);

    // Nothing in the node can do anything about it.
    cluster.kill_node(0).await?;
    gone(&cluster, second).await?;
    let again = run_to_end(&cluster, &registered.id, TWO_CALLS).await?;
    ensure!(result(&again)? == right, "{:?}", again.result);
    ensure!(servers(&cluster).len() == 1);
    cluster.stop().await?;
    ensure!(servers(&cluster).is_empty(), "a node that ends takes its servers with it");
    Ok(())
}

#[tokio::test]
async fn a_call_in_which_the_server_dies_is_sent_again_with_the_same_key() -> anyhow::Result<()> {
    let cluster = allowing().await?;
    let toolset = pipes(&cluster).await?;
    let script = r#"
        import { shop } from "rewind:tools";
        export default async () => shop.die_once({ n: 1 });
    "#;
    let ended = run_to_end(&cluster, &toolset, script).await?;
    ensure!(result(&ended)? == json!({"attempts": 2}), "{:?}", ended.result);
    let journal = cluster.api.journal(&ended.id).await?;
    ensure!(journal.items[0].attempts == 2, "{:?}", journal.items[0]);
    Ok(())
}

/// This server does not end when its stdin is closed, and what it starts ignores whatever can be ignored.
#[tokio::test]
async fn what_a_server_has_started_ends_with_the_node_however_that_ends() -> anyhow::Result<()> {
    let mut cluster = allowing().await?;
    let toolset = pipes(&cluster).await?;
    let script = r#"
        import { shop } from "rewind:tools";
        export default async () => { await shop.grandchild({}); };
    "#;
    result(&run_to_end(&cluster, &toolset, script).await?)?;
    ensure!(servers(&cluster).len() == 2, "the server and its child: {:?}", servers(&cluster));
    cluster.kill_node(0).await?;
    eventually("both are gone", || async { servers(&cluster).is_empty().then_some(()) }).await?;

    result(&run_to_end(&cluster, &toolset, script).await?)?;
    ensure!(servers(&cluster).len() == 2);
    cluster.stop().await?;
    eventually("both are gone", || async { servers(&cluster).is_empty().then_some(()) }).await?;
    Ok(())
}

#[tokio::test]
async fn where_it_is_not_allowed_no_command_is_started_and_the_reason_is_told() -> anyhow::Result<()> {
    let mut cluster = allowing().await?;
    let toolset = pipes(&cluster).await?;
    cluster.options_mut().allow_stdio = false;
    cluster.restart().await?;

    let answer = cluster.api.request::<Value>(Method::POST, "/v1/toolsets", Some(&everything(&cluster))).await?;
    let problem = answer.err().context("it was registered")?.problem;
    ensure!(problem.kind == format!("/problems/{}", ProblemCode::InvalidToolset.slug()), "{problem:?}");
    let detail = problem.detail.context("a detail")?;
    ensure!(detail.contains("mcp_servers.every") && detail.contains("--allow-stdio"), "{detail}");

    // A toolset from the time when it was allowed: its calls do not wait for better times.
    let script = r#"
        import { shop } from "rewind:tools";
        export default async () => shop.echo({});
    "#;
    let ended = run_to_end(&cluster, &toolset, script).await?;
    let (code, message) = error(&ended)?;
    ensure!(
        code == "refused" && message.contains("shop.echo") && message.contains("--allow-stdio"),
        "{code}: {message}"
    );
    ensure!(servers(&cluster).is_empty());
    Ok(())
}
