//! What a script is given, and what of it is seen from outside.

use anyhow::{Context, ensure};
use rewind_tests::{Cluster, Peer, eventually};
use serde_json::{Value, json};

use crate::support::{Counter, host_toolset, result, run_to_end};

#[tokio::test]
async fn every_failure_of_a_tool_is_a_tool_error_that_the_script_decides_on() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let _worker = Peer::refunds(&cluster, &cluster.path("refunds.jsonl"), "5ms").await?;
    let toolset = counter.toolset(&cluster).await?;
    let script = r#"
        import { shop, host, ToolError } from "rewind:tools";
        export default async function main() {
          const seen: unknown[] = [];
          const calls: [string, () => Promise<unknown>][] = [
            ["isError", () => shop.fail({})],
            ["JSON-RPC error", () => shop.error({})],
            ["typed", () => host.lookup_order({ order_id: "nowhere" })],
            ["bad arguments", () => host.lookup_order({ order_id: 7 as any })],
          ];
          for (const [name, call] of calls) {
            try { await call(); seen.push(name); }
            catch (error) {
              if (!(error instanceof ToolError) || !(error instanceof Error)) throw error;
              seen.push([name, error.code, error.tool, error.retryable, error.key.endsWith("/" + (seen.length + 1)), error.details?.code]);
            }
          }
          return seen;
        }
    "#;
    let ended = run_to_end(&cluster, &toolset, script).await?;
    let right = json!([
        ["isError", "tool_failed", "shop.fail", false, true, null],
        ["JSON-RPC error", "tool_failed", "shop.error", false, true, null],
        ["typed", "tool_failed", "host.lookup_order", false, true, "order_not_found"],
        ["bad arguments", "invalid_arguments", "host.lookup_order", false, true, null],
    ]);
    ensure!(result(&ended)? == right, "{:?}", ended.result);
    Ok(())
}

#[tokio::test]
async fn an_uncaught_error_points_into_the_typescript() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    let script = "interface Order { id: string }\n\nfunction fail(order: Order): never {\n  throw new TypeError(`no ${order.id}`);\n}\n\nexport default async function main() {\n  fail({ id: \"o-1\" });\n}\n";
    let ended = run_to_end(&cluster, &toolset, script).await?;
    let error = ended.error.context("an error")?;
    ensure!(error.code == "script_error" && error.message == "TypeError: no o-1", "{error:?}");
    let stack = error.stack.context("a stack")?;
    ensure!(stack.contains("script.ts:4:") && stack.contains("script.ts:8:"), "{stack}");
    Ok(())
}

#[tokio::test]
async fn console_is_kept_once_and_the_script_sees_the_same_world_again() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    let script = r#"
        import { sleep } from "rewind:tools";
        export default async function main() {
          const before = [Math.random(), crypto.randomUUID(), Date.now()];
          console.log("before", before);
          await sleep("4s");
          console.warn("after");
          return before;
        }
    "#;
    let run = cluster.api.start(&toolset, script, Value::Null).await?;
    let first = eventually("the first line", || async {
        cluster.api.journal(&run.id).await.ok()?.logs.first().map(|line| line.text.clone())
    })
    .await?;
    cluster.kill_node(0).await?;
    let ended = cluster.api.ended(&run.id).await?;
    let journal = cluster.api.journal(&run.id).await?;
    let lines: Vec<_> = journal.logs.iter().map(|line| (line.level.as_str(), line.text.as_str())).collect();
    ensure!(lines == [("log", first.as_str()), ("warn", "after")], "{lines:?}");
    // What the script drew after the crash is what it had written before it.
    for drawn in result(&ended)?.as_array().context("an array")? {
        let drawn = drawn.as_str().map_or_else(|| drawn.to_string(), ToOwned::to_owned);
        ensure!(first.contains(&drawn), "{drawn} is not in {first:?}");
    }
    Ok(())
}

#[tokio::test]
async fn every_call_carries_its_key_and_the_trace_of_its_run() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let toolset = counter.toolset(&cluster).await?;
    let script = r#"
        import { shop } from "rewind:tools";
        export default async () => Promise.all([shop.echo({}), shop.echo({}), shop.echo.raw({})]);
    "#;
    let ended = run_to_end(&cluster, &toolset, script).await?;
    let mut seen = result(&ended)?;
    // `.raw` is the whole result; the others are unwrapped.
    let raw = seen[2]["structuredContent"].take();
    seen[2] = raw;
    let mut spans = Vec::new();
    for (n, call) in seen.as_array().context("an array")?.iter().enumerate() {
        let meta = &call["meta"];
        ensure!(meta["codes.rewind/idempotency-key"] == json!(format!("{}/{}", ended.id, n + 1)), "{meta}");
        let parent = meta["traceparent"].as_str().context("a traceparent")?;
        let [_, trace, span, _] = parent.split('-').collect::<Vec<_>>()[..] else { anyhow::bail!("{parent}") };
        spans.push((trace.to_owned(), span.to_owned()));
    }
    ensure!(spans.iter().all(|(trace, _)| *trace == spans[0].0), "{spans:?}");
    ensure!(spans[0].1 != spans[1].1, "two calls in one span: {spans:?}");
    Ok(())
}
