//! What is left of a run after its time: its id.

use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::Method;
use rewind_bus::BusError;
use rewind_model::{Digest, Run, RunId};
use rewind_tests::{Cluster, ClusterOptions, Peer, eventually, eventually_within};
use serde_json::{Value, json};

use crate::support::{Counter, decide, parked, result};

/// Uses everything that keeps something: a timer, a worker's call that must not be made twice, blobs.
const SCRIPT: &str = r#"
    import { shop, host, sleep } from "rewind:tools";
    export default async function main(input: { keep: string }) {
      await sleep("4s");
      await host.refund({ order_id: "o-1001", amount_cents: 1 });
      const big = await shop.big({ bytes: 400000 });
      return { big, keep: input.keep };
    }
"#;

async fn status(cluster: &Cluster, path: &str) -> anyhow::Result<u16> {
    Ok(cluster.api.send(Method::GET, path, None).await?.status().as_u16())
}

async fn gone(cluster: &Cluster, run: &RunId) -> anyhow::Result<()> {
    eventually_within(Duration::from_secs(60), "the run is purged", || async {
        (status(cluster, &format!("/v1/runs/{run}")).await.ok()? == 410).then_some(())
    })
    .await?;
    let bus = cluster.bus().await?;
    eventually("nothing of it is left", || async {
        let traces = bus.traces_of(run).await.ok()?;
        (traces == [format!("$KV.REWIND_PURGED.{run}")]).then_some(())
    })
    .await
}

#[tokio::test]
async fn nothing_of_a_run_stays_when_its_time_is_over() -> anyhow::Result<()> {
    let env = vec![("REWIND_RETAIN_COMPLETED".to_owned(), "3s".to_owned())];
    let cluster = Cluster::start_with(ClusterOptions { env, ..ClusterOptions::default() }).await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let _worker = Peer::refunds(&cluster, &cluster.path("refunds.jsonl"), "5ms").await?;
    let toolset = json!({
        "mcp_servers": {"shop": {"url": counter.url()?}}, "host_tools": crate::support::refund_tools(),
        "policies": {"host.refund": {"delivery": "at_most_once"}},
    });
    let toolset = cluster.api.register(&toolset).await?.id;
    let keep = "k".repeat(300_000);
    let body = json!({"toolset": toolset, "script": SCRIPT, "input": {"keep": keep}, "idempotency_key": "once"});
    let run = cluster.api.start_with(&body).await?.id;
    let ended = cluster.api.ended(&run).await?;
    result(&ended)?;
    let bus = cluster.bus().await?;
    ensure!(bus.traces_of(&run).await?.len() > 1, "there is something to be purged");
    let blob = |json: &Value| Digest::of(json.to_string());
    let whole = Digest::of(ended.result.as_ref().context("a result")?.as_str());
    ensure!(bus.blob_size(whole).await.is_ok(), "the result is a blob");

    // A fork that waits keeps what it has of the other run, and fails the way it likes.
    let waits = SCRIPT.replace("return { big", r#"await sleep("10d"); return { big"#);
    let path = format!("/v1/runs/{run}/fork");
    let forked = cluster.api.request::<Run>(Method::POST, &path, Some(&json!({"script": waits}))).await?;
    let forked = forked.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?.id;
    eventually("the fork waits", || async {
        let journal = cluster.api.journal(&forked).await.ok()?;
        journal.items.get(3).map(drop)
    })
    .await?;

    gone(&cluster, &run).await?;
    for path in ["", "/journal", "/cassette"] {
        ensure!(status(&cluster, &format!("/v1/runs/{run}{path}")).await? == 410, "{path}");
    }
    ensure!(cluster.api.list("").await?.items.iter().all(|listed| listed.id != run), "it is listed");
    ensure!(matches!(bus.blob_size(whole).await, Err(BusError::BlobMissing(_))), "its result is still there");
    // The key would be the same, and with it the keys of all calls.
    let again = cluster.api.request::<Run>(Method::POST, "/v1/runs", Some(&body)).await?;
    ensure!(again.is_err_and(|refusal| refusal.status == 410));

    // What it shared with the fork is the fork's now, through a restart of everything.
    ensure!(bus.blob_size(blob(&json!({"keep": keep}))).await.is_ok(), "the fork's input is gone");
    cluster.kill_node(0).await?;
    let path = format!("/v1/runs/{forked}/cassette");
    ensure!(status(&cluster, &path).await? == 200, "the fork's results are gone");
    let cancelled = cluster.api.send(Method::POST, &format!("/v1/runs/{forked}/cancel"), None).await?;
    ensure!(cancelled.status() == 200, "{cancelled:?}");
    ensure!(status(&cluster, &format!("/v1/runs/{forked}")).await? == 200, "cancelled runs are kept longer");
    Ok(())
}

#[tokio::test]
async fn a_script_that_nobody_has_goes_too() -> anyhow::Result<()> {
    let env = [("REWIND_RETAIN_COMPLETED", "1s"), ("REWIND_RETAIN_SCRIPTS", "4s")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let cluster = Cluster::start_with(ClusterOptions { env, ..ClusterOptions::default() }).await?;
    let script = |body: &str| {
        // Long enough for its compiled form to be a blob.
        let long = "x".repeat(200_000);
        format!(
            r#"import {{ workflows }} from "rewind:tools";
            export default async () => {{ {body} return "{long}".length; }};"#
        )
    };
    let toolset = async |description: &str, approval: &str| {
        let one = json!({"script": "export default async () => 1;", "description": description});
        let policies = json!({"workflows.one": {"approval": approval}});
        anyhow::Ok(cluster.api.register(&json!({"workflows": {"one": one}, "policies": policies})).await?.id)
    };
    let (toolset, other) = (toolset("With care.", "always").await?, toolset("At once.", "never").await?);
    let script = script("await workflows.one({});");
    let waits = cluster.api.start(&toolset, &script, json!(null)).await?.id;
    let bus = cluster.bus().await?;
    ensure!(bus.scripts().await?.len() == 3, "two workflows, one run");
    for _ in 0..2 {
        // Of another toolset it is another script, whose compiled form is in the same blob.
        let run = cluster.api.start(&other, &script, json!(null)).await?.id;
        ensure!(bus.scripts().await?.len() == 4, "it was compiled");
        result(&cluster.api.ended(&run).await?)?;
        eventually_within(Duration::from_secs(60), "its script goes", || async {
            (bus.scripts().await.ok()?.len() == 3).then_some(())
        })
        .await?;
    }
    // Those of the run that waits and of the workflow that it calls are there, also for another node process.
    let call = parked(&cluster, &waits).await?;
    cluster.kill_node(0).await?;
    decide(&cluster, &call, "approve").await?;
    let waited = cluster.api.ended(&waits).await?;
    ensure!(result(&waited)? == json!(200_000), "{waited:?}");
    Ok(())
}

#[tokio::test]
async fn a_coordinator_that_is_killed_purges_on() -> anyhow::Result<()> {
    let env = vec![("REWIND_RETAIN_COMPLETED".to_owned(), "1s".to_owned())];
    let cluster = Cluster::start_with(ClusterOptions { env, ..ClusterOptions::default() }).await?;
    let toolset = crate::support::host_toolset(&cluster).await?;
    let runs = crate::support::start_many(&cluster, &toolset, "export default async () => 1;", 300).await?;
    cluster.kill_coordinator().await?;
    let bus = cluster.bus().await?;
    eventually_within(Duration::from_secs(60), "all are purged", || async {
        for run in &runs {
            if !bus.is_purged(run).await.ok()? || bus.ends(run).await.ok()?.is_some() {
                return None;
            }
        }
        Some(())
    })
    .await?;
    eventually("none is listed", || async { cluster.api.list("").await.ok()?.items.is_empty().then_some(()) }).await
}

#[tokio::test]
async fn a_run_is_kept_until_its_parent_knows_how_it_ended() -> anyhow::Result<()> {
    let env = vec![("REWIND_RETAIN_COMPLETED".to_owned(), "1s".to_owned())];
    let cluster = Cluster::start_with(ClusterOptions { env, ..ClusterOptions::default() }).await?;
    let workflows = json!({"one": {"script": "export default async () => 1;"}});
    let toolset = cluster.api.register(&json!({"workflows": workflows})).await?.id;
    let script = r#"
        import { workflows, sleep } from "rewind:tools";
        export default async () => { const one = await workflows.one({}); await sleep("7s"); return one; };
    "#;
    let parent = cluster.api.start(&toolset, script, json!(null)).await?.id;
    let alone = cluster.api.start(&toolset, "export default async () => 1;", json!(null)).await?.id;
    gone(&cluster, &alone).await?;
    let children = cluster.api.list(&format!("?parent={parent}")).await?.items;
    let child = &children.first().context("the child is kept")?.id;
    ensure!(cluster.api.run(&parent).await?.ended_at.is_none(), "the parent has not ended");
    gone(&cluster, &parent).await?;
    gone(&cluster, child).await
}
