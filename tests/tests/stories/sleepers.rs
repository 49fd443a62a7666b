use anyhow::ensure;
use futures::{StreamExt, TryStreamExt};
use rewind_model::RunStatus;
use rewind_tests::{Cluster, eventually};
use serde_json::json;

use crate::support::{host_toolset, result, start_many};

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
    let before = memory_of_nodes(&cluster)?;
    let runs = start_many(&cluster, &toolset, script, RUNS).await?;
    eventually("all are asleep", || async {
        let mut waiting = 0;
        let mut query = "?status=waiting&limit=200".to_owned();
        loop {
            let page = cluster.api.list(&query).await.ok()?;
            waiting += page.items.len();
            let Some(cursor) = page.next_cursor else { break };
            query = format!("?status=waiting&limit=200&cursor={cursor}");
        }
        (waiting == RUNS).then_some(())
    })
    .await?;
    let asleep = memory_of_nodes(&cluster)?;
    let each = asleep.saturating_sub(before) / RUNS as u64;
    println!("{RUNS} sleeping runs: {} KiB more in node and sandboxes, {each} bytes a run", (asleep - before) >> 10);
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
    println!("at the latest {} ms late", late.iter().max().unwrap_or(&0));
    ensure!(json!(late.len()) == json!(RUNS));
    Ok(())
}

/// Resident bytes of the node and its sandboxes.
fn memory_of_nodes(cluster: &Cluster) -> anyhow::Result<u64> {
    let nodes = cluster.dev_file()?.pids.nodes;
    let mut bytes = 0;
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let parent = field("PPid:").and_then(|pid| u32::try_from(pid).ok());
        if nodes.contains(&pid) || parent.is_some_and(|parent| nodes.contains(&parent)) {
            bytes += field("VmRSS:").unwrap_or(0) << 10;
        }
    }
    Ok(bytes)
}
