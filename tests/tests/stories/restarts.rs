//! A whole system that is stopped and started again on its data.

use anyhow::ensure;
use rewind_model::RunStatus;
use rewind_tests::Cluster;
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
