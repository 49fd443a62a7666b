//! Parts that go away and come back while runs are under way.

use anyhow::{Context, ensure};
use reqwest::{Method, StatusCode};
use rewind_model::{ProblemCode, Run, RunId};
use rewind_tests::{Cluster, Peer, effects_of, eventually, one_effect_per_key, pause, resume};
use serde_json::{Value, json};

use crate::support::{Counter, host_toolset, result, start_many};

const SCRIPT: &str = r#"
import { shop, host } from "rewind:tools";
export default async function main(input) {
  let effects = 0;
  for (let i = 0; i < 5; i++) {
    effects += (await shop.effect({ i })).effects;
    await host.refund({ order_id: "o-1001", amount_cents: 1 + i, delay_ms: 5 });
  }
  return [input.n, effects];
}
"#;

async fn all_right(cluster: &Cluster, runs: &[RunId]) -> anyhow::Result<()> {
    for (n, run) in runs.iter().enumerate() {
        let ended = cluster.api.ended(run).await?;
        ensure!(result(&ended)? == json!([n, 5]), "{ended:?}");
    }
    Ok(())
}

#[tokio::test]
async fn nats_is_killed_under_load_and_nothing_is_lost_or_doubled() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({"latency_ms": 20})).await?;
    let refunds = cluster.path("refunds.jsonl");
    let _worker = Peer::refunds(&cluster, &refunds, "5ms").await?;
    let toolset = counter.toolset(&cluster).await?;
    let runs = start_many(&cluster, &toolset, SCRIPT, 100).await?;
    for _ in 0..3 {
        let before = counter.counted().await?.attempts.len();
        cluster.kill_nats().await?;
        eventually("calls go on", || async {
            let counted = counter.counted().await.ok()?.attempts.len();
            (counted > before || counted == 500).then_some(())
        })
        .await?;
    }
    all_right(&cluster, &runs).await?;
    let counted = counter.counted().await?;
    ensure!(counted.effects.len() == 500 && counted.effects.values().all(|effects| *effects == 1));
    ensure!(one_effect_per_key(&effects_of(&refunds)?)?.len() == 500);
    Ok(())
}

#[tokio::test]
async fn while_nats_is_away_the_api_says_so_and_calls_wait() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let refunds = cluster.path("refunds.jsonl");
    let worker = Peer::refunds(&cluster, &refunds, "300ms").await?;
    let toolset = host_toolset(&cluster).await?;
    let script = r#"
        import { host } from "rewind:tools";
        export default async () => (await host.refund({ order_id: "o-1001", amount_cents: 7 })).amount_cents;
    "#;
    let run = cluster.api.start(&toolset, script, Value::Null).await?;
    eventually("the refund has begun", || async { (!effects_of(&refunds).ok()?.is_empty()).then_some(()) }).await?;

    let nats = cluster.dev_file()?.pids.nats;
    pause(nats);
    let body = json!({"toolset": toolset, "script": script});
    let refused = cluster.api.request::<Run>(Method::POST, "/v1/runs", Some(&body)).await;
    resume(nats);
    let refusal = refused?.err().context("the API took a run that it cannot have stored")?;
    ensure!(refusal.status == StatusCode::SERVICE_UNAVAILABLE, "{refusal:?}");
    ensure!(refusal.problem.kind.ends_with(ProblemCode::StoreUnavailable.slug()), "{refusal:?}");
    ensure!(refusal.retry_after.is_some(), "{refusal:?}");

    ensure!(result(&cluster.api.ended(&run.id).await?)? == json!(7));
    drop(worker);
    Ok(())
}

#[tokio::test]
async fn the_coordinator_is_killed_and_started_runs_go_on() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({"latency_ms": 30})).await?;
    let refunds = cluster.path("refunds.jsonl");
    let _worker = Peer::refunds(&cluster, &refunds, "5ms").await?;
    let toolset = counter.toolset(&cluster).await?;
    let runs = start_many(&cluster, &toolset, SCRIPT, 20).await?;
    cluster.kill_coordinator().await?;
    all_right(&cluster, &runs).await?;
    let again = start_many(&cluster, &toolset, SCRIPT, 5).await?;
    all_right(&cluster, &again).await?;
    Ok(())
}

#[tokio::test]
async fn a_call_waits_in_its_queue_until_a_worker_is_there() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    let script = r#"
        import { host } from "rewind:tools";
        export default async () => (await host.lookup_order({ order_id: "o-1003" })).customer;
    "#;
    let run = cluster.api.start(&toolset, script, Value::Null).await?;
    eventually("the run has left memory", || async {
        let found = cluster.api.run(&run.id).await.ok()?;
        (found.status == rewind_model::RunStatus::Waiting).then_some(())
    })
    .await?;
    let _worker = Peer::refunds(&cluster, &cluster.path("refunds.jsonl"), "5ms").await?;
    ensure!(result(&cluster.api.ended(&run.id).await?)? == json!("Grace Hopper"));
    Ok(())
}

#[tokio::test]
async fn what_was_on_its_way_when_nats_died_comes_again_at_once() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    let mut begun = Vec::new();
    for round in 0..3 {
        let starts = futures::future::join_all((0..100).map(|n| {
            let key = format!("{round}/{n}");
            let body = json!({"toolset": toolset, "script": "export default async () => 1", "idempotency_key": key});
            let api = cluster.api.clone();
            async move {
                // While NATS is away it is refused, and asked for again.
                eventually("the run is started", || async { api.start_with(&body).await.ok() }).await
            }
        }));
        let (started, killed) = tokio::join!(starts, cluster.kill_nats());
        killed?;
        begun.extend(started.into_iter().collect::<anyhow::Result<Vec<Run>>>()?);
    }
    let all = futures::future::try_join_all(begun.iter().map(|run| cluster.api.ended(&run.id)));
    // By itself a queue would bring again after half a minute what a broken connection swallowed.
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), all).await??;
    for run in &ended {
        ensure!(result(run)? == json!(1));
    }
    Ok(())
}
