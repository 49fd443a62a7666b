//! Calls that wait for somebody: for how long, and for what.

use anyhow::{Context, ensure};
use rewind_model::RunStatus;
use rewind_tests::{Cluster, eventually};
use serde_json::json;

use crate::support::{Counter, decide, parked, result};

const PAY: &str = r#"
    import { shop, ToolError } from "rewind:tools";
    export default async function main() {
      try { return await shop.effect({ n: 1 }); }
      catch (error) { if (error instanceof ToolError) return [error.code, error.message]; throw error; }
    }
"#;

#[tokio::test]
async fn a_call_that_nobody_decides_about_is_rejected_when_its_time_is_over() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let of = async |limit: &str| {
        let policies = json!({"shop.effect": {"approval": "always", "park_limit": limit}});
        let toolset = json!({"mcp_servers": {"shop": {"url": counter.url()?}}, "policies": policies});
        anyhow::Ok(cluster.api.register(&toolset).await?.id)
    };
    let (short, long) = (of("4s").await?, of("2d").await?);
    let overdue = cluster.api.start(&short, PAY, json!(null)).await?.id;
    let decided = cluster.api.start(&long, PAY, json!(null)).await?.id;
    eventually("both wait outside of memory", || async {
        let waits = async |run| Some(cluster.api.run(run).await.ok()?.status == RunStatus::Waiting);
        (waits(&overdue).await? && waits(&decided).await?).then_some(())
    })
    .await?;
    cluster.kill_node(0).await?;
    let ended = cluster.api.ended(&overdue).await?;
    let told = result(&ended)?;
    ensure!(
        told[0] == "rejected" && told[1].as_str().is_some_and(|text| text.contains("nobody had decided")),
        "{told}"
    );
    let waited = ended.ended_at.context("an end")?.since(ended.created_at);
    ensure!(waited.as_secs_f64() >= 4.0, "it was rejected early, after {waited:?}");
    let journal = cluster.api.journal(&overdue).await?;
    ensure!(journal.items[0].events.iter().any(|event| event.event == "rejected"), "{:?}", journal.items[0]);
    decide(&cluster, &parked(&cluster, &decided).await?, "approve").await?;
    result(&cluster.api.ended(&decided).await?)?;
    ensure!(counter.counted().await?.attempts.len() == 1, "the rejected call was sent");
    Ok(())
}

#[tokio::test]
async fn refused_credentials_park_the_call_until_it_is_let_go_again() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let policies = json!({"shop.effect": {"delivery": "at_most_once"}});
    let toolset = json!({"mcp_servers": {"shop": {"url": counter.url()?}}, "policies": policies});
    let toolset = cluster.api.register(&toolset).await?.id;
    counter.change(&json!({"answer": "401"})).await?;
    let run = cluster.api.start(&toolset, PAY, json!(null)).await?.id;
    let call = parked(&cluster, &run).await?;
    ensure!(call.reason == "credentials", "{call:?}");
    // What the server said with its refusal may hold anything.
    ensure!(!format!("{call:?}").contains("secret-echo"), "{call:?}");
    // Let go while they are refused still: it waits once more.
    decide(&cluster, &call, "approve").await?;
    eventually("it is parked again", || async {
        let events = cluster.api.journal(&run).await.ok()?.items.into_iter().next()?.events;
        (events.iter().filter(|event| event.event == "parked").count() == 2).then_some(())
    })
    .await?;
    counter.change(&json!({"answer": "mcp"})).await?;
    decide(&cluster, &parked(&cluster, &run).await?, "approve").await?;
    result(&cluster.api.ended(&run).await?)?;
    ensure!(counter.counted().await?.effects.get(&format!("{run}/1")) == Some(&1), "with the same key, once");
    Ok(())
}
