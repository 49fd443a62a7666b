//! Calls that must not be made twice, while everything that makes them is killed.

use std::{collections::BTreeMap, time::Duration};

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt};
use rewind_tests::{Cluster, ClusterOptions, Peer, effects_of, eventually, kill};
use serde_json::{Value, json};

use crate::support::{Counter, refund_tools, result};

const RUNS: usize = 500;
const KILLS: u64 = 12;

/// Of each call, what the script has in its hands: a result, or that nobody knows.
const SCRIPT: &str = r#"
    import { shop, host, sleep, ToolError } from "rewind:tools";
    async function once(call: () => Promise<unknown>): Promise<string> {
      try { await call(); return "done"; }
      catch (error) { if (error instanceof ToolError) return error.code; throw error; }
    }
    export default async function main(input: { n: number }) {
      const first = await once(() => shop.effect({ n: input.n }));
      const both = await Promise.all([
        once(() => shop.effect({ n: input.n })),
        once(() => host.refund({ order_id: "o-1001", amount_cents: 1, delay_ms: 10 })),
      ]);
      await sleep(20);
      return [first, ...both, await once(() => shop.effect({ n: input.n }))];
    }
"#;

/// A hash of the round as a moment of up to 600 ms: random to the runs, the same each time.
fn moment(round: u64) -> Duration {
    Duration::from_millis(((round + 7).wrapping_mul(0xD1B5_4A32_D192_ED03) >> 32) % 600)
}

#[tokio::test]
async fn no_key_is_seen_twice_by_a_tool_that_must_not_whoever_is_killed() -> anyhow::Result<()> {
    let cluster = Cluster::start_with(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await?;
    let counter = Counter::start(&cluster, json!({"latency_ms": 5})).await?;
    let refunds = cluster.path("refunds.jsonl");
    let policies = json!({"shop.*": {"delivery": "at_most_once"}, "host.*": {"delivery": "at_most_once"}});
    let toolset = json!({
        "mcp_servers": {"shop": {"url": counter.url()?}}, "host_tools": refund_tools(), "policies": policies,
    });
    let toolset = cluster.api.register(&toolset).await?.id;
    // A start whose answer is lost with the coordinator is made again, and is the same run.
    let start = |n: usize| {
        let body = json!({"toolset": toolset, "script": SCRIPT, "input": {"n": n}, "idempotency_key": n.to_string()});
        let api = &cluster.api;
        async move { eventually("it is started", || async { Some(api.start_with(&body).await.ok()?.id) }).await }
    };
    let runs = futures::stream::iter((0..RUNS).map(start)).buffered(16).try_collect::<Vec<_>>();
    let kills = async {
        let mut worker = Peer::refunds(&cluster, &refunds, "10ms").await?;
        for round in 0..KILLS {
            tokio::time::sleep(moment(round)).await;
            match round % 4 {
                // The worker that had begun a call is gone; another one must not begin it again.
                0 => {
                    worker.pid().into_iter().for_each(kill);
                    worker = Peer::refunds(&cluster, &refunds, "10ms").await?;
                }
                3 => cluster.kill_coordinator().await?,
                other => cluster.kill_node(usize::try_from(other)? - 1).await?,
            }
        }
        anyhow::Ok(worker)
    };
    let (runs, _worker) = tokio::try_join!(runs, kills)?;
    let ends: Vec<Value> = futures::stream::iter(&runs)
        .map(|run| async { result(&cluster.api.ended(run).await?) })
        .buffer_unordered(32)
        .try_collect()
        .await?;

    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for outcome in ends.iter().flat_map(|end| end.as_array().into_iter().flatten()) {
        *outcomes.entry(outcome.to_string()).or_default() += 1;
    }
    eprintln!("{outcomes:?}");
    ensure!(outcomes.keys().all(|outcome| outcome == "\"done\"" || outcome == "\"outcome_unknown\""), "{outcomes:?}");
    ensure!(outcomes.values().sum::<usize>() == 4 * RUNS, "{outcomes:?}");
    // Otherwise nothing was killed at work, and the test has shown nothing.
    ensure!(outcomes.contains_key("\"outcome_unknown\""), "{outcomes:?}");
    let counted = counter.counted().await?;
    let twice = counted.attempts.iter().find(|(_, attempts)| **attempts > 1);
    ensure!(twice.is_none(), "the server got a call twice: {twice:?}");
    let mut refunded: BTreeMap<String, usize> = BTreeMap::new();
    effects_of(&refunds)?.into_iter().for_each(|effect| *refunded.entry(effect.key).or_default() += 1);
    let twice = refunded.iter().find(|(_, attempts)| **attempts > 1);
    ensure!(twice.is_none(), "a worker got a call twice: {twice:?}");
    Ok(())
}
