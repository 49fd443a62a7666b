//! Nodes that die, and nodes that come back from the dead.

use std::time::Duration;

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt, future::try_join_all};
use rewind_model::{RunId, RunStatus};
use rewind_tests::{Cluster, ClusterOptions, Peer, effects_of, eventually, one_effect_per_key, pause, resume};
use serde_json::{Value, json};

use crate::support::{Counter, result, start_many};

/// Sequential and parallel calls of both kinds, with sleeps between.
const SCRIPT: &str = r#"
import { shop, host, sleep } from "rewind:tools";
export default async function main(input) {
  const one = await shop.effect({ n: input.n });
  const [two, three, refund] = await Promise.all([
    shop.effect({ n: input.n }),
    shop.effect({ n: input.n }),
    host.refund({ order_id: "o-1001", amount_cents: 100, delay_ms: 20 }),
  ]);
  await sleep(50);
  const order = await host.lookup_order({ order_id: "o-1002" });
  const four = await shop.effect({ n: input.n });
  return { n: input.n, effects: [one, two, three, four].map((each) => each.effects), order: order.order_id, amount: refund.amount_cents };
}
"#;

/// Waits for all of the runs, and holds each against what it must return.
async fn all_right(cluster: &Cluster, runs: &[RunId]) -> anyhow::Result<()> {
    futures::stream::iter(runs.iter().enumerate())
        .map(|(n, run)| async move {
            let ended = cluster.api.ended(run).await?;
            let right = json!({"n": n, "effects": [1, 1, 1, 1], "order": "o-1002", "amount": 100});
            ensure!(result(&ended)? == right, "{run}: {:?}", ended.result);
            anyhow::Ok(())
        })
        .buffer_unordered(32)
        .try_collect()
        .await
}

/// A hash of the round as a moment between 0 and 700 ms: random to the runs, the same each time.
fn moment(round: u64) -> Duration {
    Duration::from_millis(((round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % 700)
}

#[tokio::test]
async fn two_hundred_runs_survive_a_node_that_is_killed_again_and_again() -> anyhow::Result<()> {
    let cluster = Cluster::start_with(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await?;
    let counter = Counter::start(&cluster, json!({"latency_ms": 5})).await?;
    let refunds = cluster.path("refunds.jsonl");
    let _worker = Peer::refunds(&cluster, &refunds, "20ms").await?;
    let toolset = counter.toolset(&cluster).await?;

    let runs = start_many(&cluster, &toolset, SCRIPT, 200);
    let kills = async {
        for round in 0..8 {
            tokio::time::sleep(moment(round)).await;
            cluster.kill_node(usize::try_from(round % 2)?).await?;
        }
        anyhow::Ok(())
    };
    let (runs, ()) = tokio::try_join!(runs, kills)?;
    all_right(&cluster, &runs).await?;

    let counted = counter.counted().await?;
    ensure!(counted.effects.len() == 4 * runs.len(), "{} keys at the server", counted.effects.len());
    ensure!(counted.effects.values().all(|effects| *effects == 1));
    let refunded = one_effect_per_key(&effects_of(&refunds)?)?;
    ensure!(refunded.len() == runs.len(), "{} refunds", refunded.len());
    // Otherwise nothing was killed at work, and the test has shown nothing.
    let adoptions: Vec<usize> =
        try_join_all(runs.iter().map(|run| async { anyhow::Ok(cluster.api.journal(run).await?.adoptions.len()) }))
            .await?;
    ensure!(adoptions.iter().any(|times| *times > 1), "no run was ever taken over");
    Ok(())
}

#[tokio::test]
async fn a_node_that_was_away_longer_than_its_lease_doubles_nothing() -> anyhow::Result<()> {
    let cluster = Cluster::start_with(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await?;
    let counter = Counter::start(&cluster, json!({"latency_ms": 300})).await?;
    let refunds = cluster.path("refunds.jsonl");
    let _worker = Peer::refunds(&cluster, &refunds, "20ms").await?;
    let toolset = counter.toolset(&cluster).await?;
    let frozen = cluster.dev_file()?.pids.nodes[0];

    let runs = start_many(&cluster, &toolset, SCRIPT, 40).await?;
    eventually("calls are under way", || async { (counter.counted().await.ok()?.attempts.len() > 10).then_some(()) })
        .await?;
    pause(frozen);
    // The other node takes all of them over, and finishes them.
    let finished = all_right(&cluster, &runs).await;
    resume(frozen);
    finished?;

    // The one that was away finds out that it is no longer the owner, and takes part again: new runs
    // end wherever their shard is now.
    let more = start_many(&cluster, &toolset, SCRIPT, 40).await?;
    all_right(&cluster, &more).await?;
    let counted = counter.counted().await?;
    ensure!(counted.effects.len() == 4 * 80 && counted.effects.values().all(|effects| *effects == 1));
    ensure!(one_effect_per_key(&effects_of(&refunds)?)?.len() == 80);
    for run in runs.iter().chain(&more) {
        ensure!(cluster.api.run(run).await?.status == RunStatus::Completed, "a late append changed {run}");
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_that_is_lost_after_the_effect_is_asked_for_again() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({"drop_first": 2})).await?;
    let toolset = counter.toolset(&cluster).await?;
    let script = r#"
        import { shop } from "rewind:tools";
        export default async () => (await shop.effect({})).effects;
    "#;
    let run = cluster.api.start(&toolset, script, Value::Null).await?;
    let ended = cluster.api.ended(&run.id).await?;
    ensure!(result(&ended)? == json!(1), "{ended:?}");
    let counted = counter.counted().await?;
    let key = format!("{}/1", run.id);
    ensure!(counted.attempts[&key] == 3 && counted.effects[&key] == 1, "{counted:?}");
    let journal = cluster.api.journal(&run.id).await?;
    ensure!(journal.items[0].attempts == 3, "{:?}", journal.items[0]);
    Ok(())
}
