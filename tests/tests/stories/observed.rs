//! Result types that are learned from results.

use anyhow::{Context, ensure};
use rewind_model::ToolsetId;
use rewind_tests::{Cluster, ClusterOptions, eventually};
use serde_json::{Value, json};

use crate::support::{Counter, result, run_to_end};

/// A server with the tool `report`, whose result is `first`.
async fn reporting(cluster: &Cluster, first: &Value) -> anyhow::Result<(Counter, ToolsetId)> {
    let counter = Counter::start(cluster, json!({"results": {"status": answer(first)}})).await?;
    let toolset = json!({"mcp_servers": {"shop": {"url": counter.url()?, "include": ["status"]}}});
    let id = cluster.api.register(&toolset).await?.id;
    Ok((counter, id))
}

fn answer(result: &Value) -> Value {
    json!({"content": [{"type": "text", "text": result.to_string()}]})
}

const READ: &str = r#"
    import { shop } from "rewind:tools";
    export default async function main() { return await shop.status({}); }
"#;

#[tokio::test]
async fn results_teach_their_types_and_never_their_values() -> anyhow::Result<()> {
    // Two nodes, so that two write what they have seen.
    let cluster = Cluster::start_with(ClusterOptions { nodes: 2, ..ClusterOptions::default() }).await?;
    let report = json!({"total": 3, "note": "kept secret", "customers": {"ada@example.com": {"orders": 1}}});
    let (counter, toolset) = reporting(&cluster, &report).await?;
    let before =
        [cluster.api.declarations(&toolset, "full").await?, cluster.api.declarations(&toolset, "compact").await?];
    ensure!(before[0].contains("@observed 0 results"), "{}", before[0]);
    result(&run_to_end(&cluster, &toolset, READ).await?)?;

    let learned = eventually("the first observation", || async {
        let full = cluster.api.declarations(&toolset, "full").await.ok()?;
        full.contains("@observed 1 result,").then_some(full)
    })
    .await?;
    ensure!(learned.contains("total: number") && learned.contains("note: string"), "{learned}");
    let compact = cluster.api.declarations(&toolset, "compact").await?;
    let unchanged = before[1].trim_end().strip_suffix('}').context("a module")?;
    ensure!(compact.starts_with(unchanged), "what came before has changed:\n{compact}");
    ensure!(compact.contains("\"shop.status\":{customers:{[k:string]:{orders:number"), "{compact}");
    for text in [&learned, &compact] {
        ensure!(!text.contains("secret") && !text.contains("ada"), "{text}");
    }

    // What later results have besides, or do not have, is merged in, by whichever node saw it.
    let later =
        json!({"total": 4, "customers": {"bob@example.com": {"orders": 2}}, "rows": [{"id": null}, {"id": "x"}]});
    counter.change(&json!({"results": {"status": answer(&later)}})).await?;
    for _ in 0..8 {
        result(&run_to_end(&cluster, &toolset, READ).await?)?;
    }
    let merged = eventually("the merged observation", || async {
        let full = cluster.api.declarations(&toolset, "full").await.ok()?;
        full.contains("note?: string").then_some(full)
    })
    .await?;
    ensure!(merged.contains("id: string | null") && merged.contains("total: number"), "{merged}");
    Ok(())
}

#[tokio::test]
async fn what_was_only_observed_warns_and_refuses_nothing() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let (counter, toolset) = reporting(&cluster, &json!({"total": 3, "note": "x"})).await?;
    result(&run_to_end(&cluster, &toolset, READ).await?)?;
    eventually("the observation", || async {
        cluster.api.declarations(&toolset, "full").await.ok()?.contains("@observed 1 result,").then_some(())
    })
    .await?;
    // The field was seen once, and is gone by the time that the script reads it.
    counter.change(&json!({"results": {"status": answer(&json!({"total": "three"}))}})).await?;
    let script = r#"
        import { shop } from "rewind:tools";
        export default async function main() {
          const report = await shop.status({});
          const total: string = report.total;
          return [total, report.note ?? "none", report.neverSeen ?? "none"];
        }
    "#;
    let ended = run_to_end(&cluster, &toolset, script).await?;
    ensure!(result(&ended)? == json!(["three", "none", "none"]), "{:?}", ended.result);
    let warning = ended.warnings.first().context("a warning")?;
    ensure!((warning.code.as_str(), warning.line) == ("TS2322", 5), "{warning:?}");
    ensure!(warning.hint.as_ref().is_some_and(|hint| hint.contains("@observed")), "{warning:?}");

    // What is wrong by what is promised refuses the script, and nothing of it is only a warning.
    let path = format!("/v1/toolsets/{toolset}/check");
    let wrong = script.replace("shop.status({})", "shop.status(7)");
    let checked: Value = cluster
        .api
        .request(reqwest::Method::POST, &path, Some(&json!({"script": wrong})))
        .await?
        .map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    ensure!(checked["ok"] == false && checked["diagnostics"][0]["code"] == "TS2345", "{checked}");
    let warned = checked["warnings"].to_string();
    ensure!(
        warned.contains("neverSeen") && warned.contains("TS2322"),
        "a name that was never seen is most likely a slip: {checked}"
    );
    Ok(())
}
