//! Very many runs that wait for a decision.

use std::time::{Duration, Instant};

use anyhow::ensure;
use futures::{StreamExt, TryStreamExt};
use reqwest::Method;
use rewind_model::{Page, ParkedCall};
use rewind_tests::{Cluster, eventually_within};
use serde_json::{Value, json};

use crate::support::{count, decide, memory_of, start_many};

const RUNS: usize = 5_000;
/// Resident bytes of a parked run in the node, and in the coordinator; both keep what the allocator does not
/// give back.
const IN_NODE: u64 = 48 << 10;
const IN_COORDINATOR: u64 = 16 << 10;

#[tokio::test]
async fn five_thousand_parked_runs_take_no_memory_and_are_approved_at_once() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let tool = json!({"description": "Pays.", "input_schema": {"type": "object"}});
    let policies = json!({"host.refund": {"approval": "always"}});
    let toolset = cluster.api.register(&json!({"host_tools": {"refund": tool}, "policies": policies})).await?.id;
    let script = r#"
        import { host } from "rewind:tools";
        export default async function main(input: { n: number }) { return host.refund({ order_id: "o", amount_cents: input.n }); }
    "#;
    let pids = cluster.dev_file()?.pids;
    let before = (memory_of(&pids.nodes)?, memory_of(&[pids.coordinator])?);
    let runs = start_many(&cluster, &toolset, script, RUNS).await?;
    let patience = Duration::from_secs(120);
    eventually_within(patience, "all are parked", || async {
        (count(&cluster, "waiting").await.ok()? == RUNS).then_some(())
    })
    .await?;
    let each = |now: u64, before: u64| now.saturating_sub(before) / RUNS as u64;
    let node = each(memory_of(&pids.nodes)?, before.0);
    let coordinator = each(memory_of(&[pids.coordinator])?, before.1);
    eprintln!("{RUNS} parked runs: {node} bytes each in the node, {coordinator} in the coordinator");
    ensure!(node < IN_NODE && coordinator < IN_COORDINATOR, "{node}, {coordinator}");

    // As a person's program would: page by page.
    let mut calls: Vec<ParkedCall> = Vec::new();
    let mut cursor = String::new();
    let listing = Instant::now();
    loop {
        let path = format!("/v1/parked?limit=200{cursor}");
        let page = cluster.api.request::<Page<ParkedCall>>(Method::GET, &path, None).await?;
        let page = page.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
        calls.extend(page.items);
        let Some(next) = page.next_cursor else { break };
        cursor = format!("&cursor={next}");
    }
    ensure!(calls.len() == RUNS, "{} are listed", calls.len());
    let listed = listing.elapsed();
    let approving = Instant::now();
    futures::stream::iter(&calls)
        .map(|call| decide(&cluster, call, "approve"))
        .buffer_unordered(64)
        .try_collect::<()>()
        .await?;
    eprintln!("listed in {listed:?}, approved in {:?}", approving.elapsed());
    let left = cluster.api.request::<Page<Value>>(Method::GET, "/v1/parked", None).await?;
    ensure!(left.is_ok_and(|page| page.items.is_empty()), "some are still parked");
    let some = cluster.api.journal(&runs[RUNS / 2]).await?;
    ensure!(some.items[0].status == "no_worker" && some.items[0].events.len() == 1, "{some:?}");
    Ok(())
}
