//! A whole system that is stopped and started again on its data.

use anyhow::{Context, ensure};
use rewind_model::{Digest, Payload, RunId, RunStatus};
use rewind_tests::{Cluster, Peer};
use serde_json::{Value, json};

use crate::support::{host_toolset, result, run_to_end};

#[tokio::test]
async fn a_second_start_finds_all_earlier_runs() -> anyhow::Result<()> {
    let mut cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    let done = run_to_end(&cluster, &toolset, "export default async () => 42").await?;
    let script = r#"
        import { sleep } from "rewind:tools";
        export default async () => { const before = Date.now(); await sleep("5s"); return Date.now() - before >= 5000; }
    "#;
    let sleeping = cluster.api.start(&toolset, script, Value::Null).await?;
    cluster.restart().await?;

    ensure!(host_toolset(&cluster).await? == toolset, "the same toolset has another id");
    let listed = cluster.api.list("").await?;
    let ids: Vec<_> = listed.items.iter().map(|run| run.id.clone()).collect();
    ensure!(ids.contains(&done.id) && ids.contains(&sleeping.id), "{ids:?}");
    ensure!(result(&cluster.api.run(&done.id).await?)? == json!(42));
    ensure!(result(&cluster.api.ended(&sleeping.id).await?)? == json!(true));
    let completed = cluster.api.list("?status=completed").await?;
    ensure!(completed.items.len() == 2 && completed.items.iter().all(|run| run.status == RunStatus::Completed));
    Ok(())
}

#[tokio::test]
async fn a_run_of_which_a_part_is_gone_ends_and_says_so() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let _worker = Peer::refunds(&cluster, &cluster.path("refunds.jsonl"), "1ms").await?;
    let toolset = host_toolset(&cluster).await?;
    let script = r#"
        import { host, sleep } from "rewind:tools";
        export default async () => { const order = await host.lookup_order({ order_id: "o-1001" }); await sleep("2s"); return order; };
    "#;
    let whole = cluster.api.start(&toolset, script, json!(null)).await?.id;
    result(&cluster.api.ended(&whole).await?)?;
    // The same journal up to the sleep, but for a result that no store holds.
    let bus = cluster.bus().await?;
    let stored = bus.read(&whole).await?;
    let mut entry = stored[0].entry.clone();
    entry.records = stored.into_iter().flat_map(|stored| stored.entry.records).collect();
    let asleep = entry.records.iter().position(|record| record.name() == "fired").context("it slept")?;
    entry.records.truncate(asleep);
    let gone = Digest::of("gone");
    for record in &mut entry.records {
        if record.name() == "completed"
            && let Some(payload) = record.payload_mut()
        {
            *payload = Payload::Blob { digest: gone, size: 300_000 };
        }
    }
    let mut summary = bus.ends(&whole).await?.context("a journal")?.summary;
    (summary.status, summary.ended_at) = (RunStatus::Running, None);
    let broken = RunId::of_bytes(b"broken");
    bus.append(&broken, &summary, &entry, 0).await?;
    cluster.kill_node(0).await?;
    let ended = cluster.api.ended(&broken).await?;
    let error = ended.error.context("an error")?;
    ensure!(ended.status == RunStatus::Failed && error.message.contains(&gone.to_string()), "{error:?}");
    let after = cluster.api.start(&toolset, script, json!(null)).await?.id;
    result(&cluster.api.ended(&after).await?)?;
    Ok(())
}
