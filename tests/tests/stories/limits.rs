//! What goes over a limit fails that call or that run, and nothing else.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::support::{Counter, error, host_toolset, result, run_to_end};
use rewind_tests::Cluster;

#[tokio::test]
async fn a_bad_script_fails_alone_and_says_why() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    // A neighbour in the same sandbox processes, from before the bad ones until after.
    let neighbour = r#"
        import { sleep } from "rewind:tools";
        export default async function main() {
          let sum = 0;
          for (let i = 0; i < 40; i++) { await sleep(200); sum += i; }
          return sum;
        }
    "#;
    let neighbour = cluster.api.start(&toolset, neighbour, Value::Null).await?;

    let bad = [
        ("export default async () => { for (;;) {} }", "limit_cpu"),
        ("export default async () => { for (;;) { try { for (;;) {} } catch {} } }", "limit_cpu"),
        // A loop of the engine's own, which nothing inside can interrupt.
        ("export default async () => Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1)", "limit_cpu"),
        (
            "export default async () => { const all: unknown[] = []; for (;;) all.push(new Array(100_000).fill(1)); }",
            "limit_memory",
        ),
        ("export default async () => { const f = (): number => 1 + f(); return f(); }", "limit_stack"),
        ("export default async () => new Promise(() => {})", "stalled"),
        ("export default async () => () => 1", "bad_result"),
        ("export default async () => 'x'.repeat(17 * 2 ** 20)", "limit_result"),
        ("export default async () => { (null as any).x }", "script_error"),
    ];
    for (script, code) in bad {
        let ended = run_to_end(&cluster, &toolset, script).await?;
        ensure!(error(&ended)?.0 == code, "{script}: {:?}", ended.error);
    }
    ensure!(result(&cluster.api.ended(&neighbour.id).await?)? == json!(780));
    Ok(())
}

#[tokio::test]
async fn large_arguments_and_results_go_through_and_over_large_ones_fail_their_call() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let toolset = counter.toolset(&cluster).await?;
    let script = r#"
        import { shop, ToolError, sleep } from "rewind:tools";
        export default async function main() {
          // Several at once: more than one NATS message can hold.
          const three = await Promise.all([1, 2, 3].map((n) => shop.big({ bytes: 200_000 + n })));
          const large = await shop.big({ bytes: 5_000_000 });
          const echoed = await shop.echo({ text: "y".repeat(900_000) });
          const refused = async (call: () => Promise<unknown>) => {
            try { await call(); return "done"; } catch (error) { return error instanceof ToolError ? error.code : String(error); }
          };
          const result = await refused(() => shop.big({ bytes: 17 * 2 ** 20 }));
          const args = await refused(() => shop.echo({ text: "y".repeat(1_100_000) }));
          await sleep(10);
          return [three.map((text) => text.length), large.length, echoed.arguments.text.length, result, args];
        }
    "#;
    let ended = run_to_end(&cluster, &toolset, script).await?;
    let right = json!([[200_001, 200_002, 200_003], 5_000_000, 900_000, "too_large", "too_large"]);
    ensure!(result(&ended)? == right, "{ended:?}");
    Ok(())
}

#[tokio::test]
async fn a_run_with_large_results_is_replayed_after_a_kill() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let toolset = counter.toolset(&cluster).await?;
    let script = r#"
        import { shop, sleep } from "rewind:tools";
        export default async function main() {
          const [large, small] = await Promise.all([shop.big({ bytes: 3_000_000 }), shop.big({ bytes: 3 })]);
          await sleep("4s");
          return [large.length, small];
        }
    "#;
    let run = cluster.api.start(&toolset, script, Value::Null).await?;
    rewind_tests::eventually("the script sleeps", || async {
        let journal = cluster.api.journal(&run.id).await.ok()?;
        journal.items.iter().any(|call| call.tool == "sleep").then_some(())
    })
    .await?;
    cluster.kill_node(0).await?;
    let ended = cluster.api.ended(&run.id).await?;
    ensure!(result(&ended)? == json!([3_000_000, "xxx"]), "{ended:?}");
    Ok(())
}
