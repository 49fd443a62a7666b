//! Servers that change while runs wait.

use anyhow::{Context, ensure};
use reqwest::Method;
use rewind_model::{Drift, Page, ParkedCall, Run, RunId, RunStatus, ToolsetId};
use rewind_tests::{Cluster, ClusterOptions, Peer, eventually};
use serde_json::{Value, json};

use crate::support::{Counter, cancel, decide, parked, result};

/// `effect` takes a `title`; with `age`, what a server's tools are is asked again that often.
async fn start(age: &str) -> anyhow::Result<(Cluster, Counter, ToolsetId)> {
    let env = vec![("REWIND_SCHEMA_AGE".to_owned(), age.to_owned())];
    let cluster = Cluster::start_with(ClusterOptions { env, ..ClusterOptions::default() }).await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    counter.change(&tools(&json!({"title": {"type": "string"}}), &["title"])).await?;
    let toolset = json!({"mcp_servers": {"shop": {"url": counter.url()?, "include": ["effect"]}}});
    let id = cluster.api.register(&toolset).await?.id;
    Ok((cluster, counter, id))
}

fn tools(properties: &Value, required: &[&str]) -> Value {
    let schema =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    json!({"pages": [{"cursor": null, "tools": [{"name": "effect", "inputSchema": schema}]}]})
}

const SCRIPT: &str = r#"
    import { shop, sleep, ToolError } from "rewind:tools";
    export default async function main() {
      await sleep("4s");
      try { return await shop.effect({ title: "x" }); }
      catch (error) { if (error instanceof ToolError) return [error.code, error.message]; throw error; }
    }
"#;

/// A run that sleeps while the server changes.
async fn asleep(cluster: &Cluster, toolset: &ToolsetId) -> anyhow::Result<RunId> {
    let run = cluster.api.start(toolset, SCRIPT, Value::Null).await?.id;
    eventually("the run sleeps", || async {
        (cluster.api.run(&run).await.ok()?.status == RunStatus::Waiting).then_some(())
    })
    .await?;
    Ok(run)
}

#[tokio::test]
async fn a_change_that_a_call_still_satisfies_stops_nobody() -> anyhow::Result<()> {
    let (cluster, counter, toolset) = start("0s").await?;
    let run = asleep(&cluster, &toolset).await?;
    let more = json!({"title": {"type": "string"}, "labels": {"type": "array"}});
    counter.change(&tools(&more, &["title"])).await?;
    result(&cluster.api.ended(&run).await?)?;
    ensure!(counter.counted().await?.effects.get(&format!("{run}/2")) == Some(&1));
    Ok(())
}

#[tokio::test]
async fn a_call_that_no_longer_matches_is_parked_and_decided_about() -> anyhow::Result<()> {
    let (cluster, counter, toolset) = start("0s").await?;
    let (first, second) = (asleep(&cluster, &toolset).await?, asleep(&cluster, &toolset).await?);
    let untouched = r#"import { sleep } from "rewind:tools"; export default async () => sleep("10d");"#;
    cluster.api.start(&toolset, untouched, Value::Null).await?;
    counter.change(&tools(&json!({"subject": {"type": "string"}}), &["subject"])).await?;
    for run in [&first, &second] {
        let call = parked(&cluster, run).await?;
        let detail = call.detail.clone().context("a detail")?;
        ensure!(call.reason == "schema_changed" && call.seq == 2, "{call:?}");
        for part in ["added subject", "removed title", "subject is now required"] {
            ensure!(detail.contains(part), "{detail}");
        }
    }
    ensure!(counter.counted().await?.attempts.is_empty(), "it was sent all the same");
    let path = format!("/v1/toolsets/{toolset}/drift");
    let drift = cluster.api.request::<Drift>(Method::GET, &path, None).await?;
    let drift = drift.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    ensure!(drift.changes.len() == 1 && drift.changes[0].change == "changed", "{drift:?}");
    let stopped: Vec<&RunId> = drift.runs.iter().map(|run| &run.id).collect();
    ensure!(stopped == [&second, &first] && drift.unchecked.is_empty(), "{drift:?}");
    let why = &drift.runs[0].diagnostics;
    ensure!(why.len() == 1 && why[0].line == 5 && why[0].message.contains("title"), "{why:?}");
    eventually("the run waits", || async {
        (cluster.api.run(&first).await.ok()?.status == RunStatus::Waiting).then_some(())
    })
    .await?;
    cluster.kill_node(0).await?;
    cluster.kill_coordinator().await?;
    decide(&cluster, &parked(&cluster, &first).await?, "approve").await?;
    decide(&cluster, &parked(&cluster, &second).await?, "reject").await?;
    result(&cluster.api.ended(&first).await?)?;
    let rejected = result(&cluster.api.ended(&second).await?)?;
    ensure!(rejected[0] == "rejected", "{rejected}");
    let counted = counter.counted().await?;
    ensure!(counted.effects.get(&format!("{first}/2")) == Some(&1) && counted.effects.len() == 1, "{counted:?}");
    Ok(())
}

/// Nobody has listed since: the server's own refusal is what tells.
#[tokio::test]
async fn a_tool_that_is_gone_parks_the_call_when_the_server_refuses_it() -> anyhow::Result<()> {
    let (cluster, counter, toolset) = start("1h").await?;
    let before = cluster.api.start(&toolset, &SCRIPT.replace("4s", "1ms"), Value::Null).await?.id;
    result(&cluster.api.ended(&before).await?)?;
    let run = asleep(&cluster, &toolset).await?;
    counter.change(&json!({"pages": [{"cursor": null, "tools": []}], "refuse": ["effect"]})).await?;
    let call = parked(&cluster, &run).await?;
    ensure!(call.detail.as_ref().is_some_and(|detail| detail.contains("gone")), "{call:?}");
    counter.change(&json!({"refuse": []})).await?;
    decide(&cluster, &call, "approve").await?;
    result(&cluster.api.ended(&run).await?)?;
    Ok(())
}

/// Runs that each call `effect` with a title, until one of them is parked: nobody knows how long a word is on its way.
async fn until_parked(cluster: &Cluster, toolset: &ToolsetId) -> anyhow::Result<()> {
    let script = r#"
        import { shop } from "rewind:tools";
        export default async () => shop.effect({ title: "x" });
    "#;
    eventually("a parked call", || async {
        let run = cluster.api.start(toolset, script, Value::Null).await.ok()?.id;
        let settled = eventually("the call is decided", || async {
            let run = cluster.api.run(&run).await.ok()?;
            (run.status.ended() || run.parked > 0).then_some(run)
        });
        (settled.await.ok()?.parked > 0).then_some(())
    })
    .await
}

/// What a server says of changes is heard, long before the age of its list would tell.
#[tokio::test]
async fn a_server_that_tells_of_its_change_is_heard() -> anyhow::Result<()> {
    let (cluster, counter, toolset) = start("1h").await?;
    counter.change(&json!({"announce": true})).await?;
    let first = cluster.api.start(&toolset, &SCRIPT.replace("4s", "1ms"), Value::Null).await?.id;
    result(&cluster.api.ended(&first).await?)?;
    let mut changed = tools(&json!({"subject": {"type": "string"}}), &["subject"]);
    changed["tell"] = json!(true);
    counter.change(&changed).await?;
    until_parked(&cluster, &toolset).await
}

#[tokio::test]
async fn a_server_without_sessions_that_tells_of_its_change_is_heard() -> anyhow::Result<()> {
    let env = vec![("REWIND_SCHEMA_AGE".to_owned(), "1h".to_owned())];
    let cluster = Cluster::start_with(ClusterOptions { env, ..ClusterOptions::default() }).await?;
    let moving = Peer::moving(&cluster).await?;
    let toolset = json!({"mcp_servers": {"shop": {"url": moving.said("url")?}}});
    let toolset = cluster.api.register(&toolset).await?.id;
    let script = r#"
        import { shop } from "rewind:tools";
        export default async () => [await shop.effect({ title: "x" }), await shop.move({})];
    "#;
    let run = cluster.api.start(&toolset, script, Value::Null).await?.id;
    ensure!(result(&cluster.api.ended(&run).await?)?[0]["done"] == "x");
    until_parked(&cluster, &toolset).await
}

/// A script that relies on a result that is another one now would go wrong after the effect.
#[tokio::test]
async fn a_call_whose_declared_result_has_lost_something_is_parked_before_it_is_sent() -> anyhow::Result<()> {
    let (cluster, counter, _) = start("0s").await?;
    let tools = |output: &Value| {
        let tool = json!({"name": "effect", "inputSchema": {"type": "object"}, "outputSchema": output});
        json!({"pages": [{"cursor": null, "tools": [tool]}]})
    };
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let declared = object(json!({"effects": {"type": "integer"}, "note": {"type": "string"}}));
    counter.change(&tools(&declared)).await?;
    let toolset = json!({"mcp_servers": {"shop": {"url": counter.url()?, "include": ["effect"]}}});
    let toolset = cluster.api.register(&toolset).await?.id;
    // More is no loss.
    counter
        .change(&tools(&object(json!({"effects": {"type": "integer"}, "note": {"type": "string"}, "n": {}}))))
        .await?;
    let run = cluster.api.start(&toolset, &SCRIPT.replace("4s", "1ms"), Value::Null).await?.id;
    result(&cluster.api.ended(&run).await?)?;
    // What the server gives from here on is not what was declared: `effects` is a number still.
    counter.change(&tools(&object(json!({"effects": {"type": "string"}})))).await?;
    let run = cluster.api.start(&toolset, &SCRIPT.replace("4s", "1ms"), Value::Null).await?.id;
    let call = parked(&cluster, &run).await?;
    let detail = call.detail.clone().context("a detail")?;
    for part in ["the result of shop.effect", "effects: integer is now string", "removed note"] {
        ensure!(detail.contains(part), "{detail}");
    }
    ensure!(!counter.counted().await?.effects.contains_key(&format!("{run}/2")), "it was sent all the same");
    decide(&cluster, &call, "approve").await?;
    result(&cluster.api.ended(&run).await?)?;
    Ok(())
}

/// The other two ways out: the run ends, or goes on elsewhere with a script that fits.
#[tokio::test]
async fn a_run_that_a_change_stops_is_cancelled_or_forked() -> anyhow::Result<()> {
    let (cluster, counter, toolset) = start("0s").await?;
    let run = asleep(&cluster, &toolset).await?;
    counter.change(&tools(&json!({"subject": {"type": "string"}}), &["subject"])).await?;
    parked(&cluster, &run).await?;
    let again = json!({"mcp_servers": {"shop": {"url": counter.url()?, "include": ["effect"]}}});
    let newer = cluster.api.register(&again).await?.id;
    ensure!(newer != toolset);
    let body = json!({"toolset": newer, "script": SCRIPT.replace("title:", "subject:")});
    let forked = cluster.api.request::<Run>(Method::POST, &format!("/v1/runs/{run}/fork"), Some(&body)).await?;
    let forked = forked.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?.id;
    result(&cluster.api.ended(&forked).await?)?;
    let journal = cluster.api.journal(&forked).await?;
    ensure!(journal.items[0].recorded && journal.diverged.is_some_and(|diverged| diverged.seq == 2), "it slept again");
    ensure!(cluster.api.run(&run).await?.parked == 1, "the parked call is as it was");
    cancel(&cluster, &run).await?;
    let left = cluster.api.request::<Page<ParkedCall>>(Method::GET, "/v1/parked", None).await?;
    ensure!(left.is_ok_and(|page| page.items.is_empty()));
    ensure!(counter.counted().await?.attempts.len() == 1, "only the fork's call was sent");
    Ok(())
}
