use std::time::Duration;

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt};
use rewind_model::RunStatus;
use rewind_tests::{Cluster, Peer, eventually};
use serde_json::json;

use crate::support::{count, host_toolset, memory_of, result, start_many};

const RUNS: usize = 1_000;

#[tokio::test]
async fn a_thousand_runs_sleep_in_no_memory_and_wake_in_time() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    // Each sleeps until the same absolute moment, which is behind the start of all of them.
    let script = r#"
        import { sleep } from "rewind:tools";
        export default async function main(input) {
          const until = Date.now() + 60_000 - (input.n % 10) * 1000;
          await sleep(until - Date.now());
          return Date.now() - until;
        }
    "#;
    let before = memory_of(&cluster.dev_file()?.pids.nodes)?;
    let runs = start_many(&cluster, &toolset, script, RUNS).await?;
    eventually("all are asleep", || async { (count(&cluster, "waiting").await.ok()? == RUNS).then_some(()) }).await?;
    let asleep = memory_of(&cluster.dev_file()?.pids.nodes)?;
    let each = asleep.saturating_sub(before) / RUNS as u64;
    eprintln!("{RUNS} sleeping runs: {} KiB more in node and sandboxes, {each} bytes a run", (asleep - before) >> 10);
    // A live run has an engine of its own, of some 170 KB; the allocators keep a little of what was freed.
    ensure!(each < 64 << 10, "{each} bytes a sleeping run");

    let late: Vec<i64> = futures::stream::iter(&runs)
        .map(|run| async {
            let ended = cluster.api.ended(run).await?;
            ensure!(ended.status == RunStatus::Completed, "{ended:?}");
            anyhow::Ok(serde_json::from_value::<i64>(result(&ended)?)?)
        })
        .buffer_unordered(32)
        .try_collect()
        .await?;
    ensure!(late.iter().all(|ms| *ms >= 0), "a timer fired early");
    eprintln!("at the latest {} ms late", late.iter().max().unwrap_or(&0));
    ensure!(json!(late.len()) == json!(RUNS));
    Ok(())
}

/// A run that has left memory is woken by each of its timers, not by one of them alone.
#[tokio::test]
async fn no_timer_is_lost_when_the_node_dies_as_runs_fall_asleep() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    // The far one is armed first: with it alone the run would sleep for an hour.
    let script = r#"
        import { sleep } from "rewind:tools";
        export default async function main(input) {
          const near = Array.from({ length: 40 }, async (_, i) => { await sleep(5_000 + input.n * 10 + i); return "near"; });
          return Promise.race([sleep("1h"), ...near]);
        }
    "#;
    for _ in 0..3 {
        let (runs, ()) = tokio::try_join!(start_many(&cluster, &toolset, script, 30), async {
            eventually("some have fallen asleep", || async {
                let asleep = cluster.api.list("?status=waiting&limit=5").await.ok()?;
                (asleep.items.len() == 5).then_some(())
            })
            .await?;
            cluster.kill_node(0).await
        })?;
        for run in &runs {
            ensure!(result(&cluster.api.ended(run).await?)? == json!("near"));
        }
    }
    Ok(())
}

/// The answer that comes just as a run leaves memory finds it all the same.
#[tokio::test]
async fn an_answer_at_the_moment_of_falling_asleep_is_heard() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let _worker = Peer::refunds(&cluster, &cluster.path("refunds.jsonl"), "5ms").await?;
    let toolset = host_toolset(&cluster).await?;
    // Runs leave memory two seconds after they have begun to wait.
    let script = r#"
        import { host } from "rewind:tools";
        export default async function main(input) {
          for (let i = 0; i < 3; i++) {
            await host.refund({ order_id: "o-1001", amount_cents: 1, delay_ms: 1_990 + (input.n + i * 7) % 30 });
          }
          return input.n;
        }
    "#;
    let runs = start_many(&cluster, &toolset, script, 32).await?;
    let all = async {
        for (n, run) in runs.iter().enumerate() {
            ensure!(result(&cluster.api.ended(run).await?)? == json!(n));
        }
        Ok(())
    };
    // The sweep would find a run that was lost: half a minute later, at the earliest.
    tokio::time::timeout(Duration::from_secs(25), all).await?
}
