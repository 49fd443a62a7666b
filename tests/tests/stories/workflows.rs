//! Scripts that call scripts: each call is a run of its own.

use anyhow::{Context, ensure};
use reqwest::Method;
use rewind_model::{RunId, RunStatus, ToolsetId};
use rewind_tests::{Cluster, Peer, effects_of, eventually, one_effect_per_key};
use serde_json::{Value, json};

use crate::support::{decide, parked, refund_tools, result, run_to_end};

const REFUND: &str = r#"
    import { host, sleep } from "rewind:tools";
    export default async function main(input: { order_id: string; rest?: string }) {
      const refund = await host.refund({ order_id: input.order_id, amount_cents: 5 });
      if (input.rest) await sleep(input.rest);
      return refund.order_id;
    }
"#;

async fn toolset(cluster: &Cluster) -> anyhow::Result<ToolsetId> {
    let input = json!({"type": "object", "properties": {"order_id": {"type": "string"}, "rest": {"type": "string"}}, "required": ["order_id"]});
    let toolset = json!({"host_tools": refund_tools(), "workflows": {
        "refund": {"script": REFUND, "input_schema": input, "output_schema": {"type": "string"}},
        "fail": {"script": "export default async function main() { throw new Error('no money'); }"},
        "wrong": {"script": "export default async () => 7;", "output_schema": {"type": "string"}},
    }});
    Ok(cluster.api.register(&toolset).await?.id)
}

async fn children(cluster: &Cluster, parent: &RunId) -> anyhow::Result<Vec<rewind_model::Run>> {
    Ok(cluster.api.list(&format!("?parent={parent}")).await?.items)
}

#[tokio::test]
async fn a_workflow_s_run_is_started_once_whoever_dies() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let effects = cluster.path("refunds.jsonl");
    let _worker = Peer::refunds(&cluster, &effects, "300ms").await?;
    let toolset = toolset(&cluster).await?;
    let script = r#"
        import { workflows } from "rewind:tools";
        export default async function main() {
          const both = await Promise.all([
            workflows.refund({ order_id: "o-1001" }), workflows.refund({ order_id: "o-1002", rest: "12s" }),
          ]);
          return [...both, await workflows.refund({ order_id: "o-1003" })];
        }
    "#;
    let parent = cluster.api.start(&toolset, script, Value::Null).await?.id;
    eventually("both children", || async { (children(&cluster, &parent).await.ok()?.len() == 2).then_some(()) })
        .await?;
    cluster.kill_node(0).await?;
    // While one child sleeps, parent and child are in no memory.
    eventually("the parent waits", || async {
        (cluster.api.run(&parent).await.ok()?.status == RunStatus::Waiting).then_some(())
    })
    .await?;
    cluster.kill_node(0).await?;
    let ended = cluster.api.ended(&parent).await?;
    ensure!(result(&ended)? == json!(["o-1001", "o-1002", "o-1003"]), "{:?} {:?}", ended.result, ended.error);
    let refunds = one_effect_per_key(&effects_of(&effects)?)?;
    ensure!(refunds.len() == 3, "{refunds:?}");
    // Parent and children know each other.
    let journal = cluster.api.journal(&parent).await?;
    let mut called: Vec<RunId> = journal.items.iter().filter_map(|call| call.child.clone()).collect();
    let mut listed: Vec<RunId> = children(&cluster, &parent).await?.into_iter().map(|run| run.id).collect();
    called.sort();
    listed.sort();
    ensure!(called.len() == 3 && called == listed, "{called:?} {listed:?}");
    let child = cluster.api.run(&called[0]).await?;
    ensure!(child.parent.as_ref().is_some_and(|key| key.run == parent), "{child:?}");
    Ok(())
}

#[tokio::test]
async fn what_becomes_of_a_child_is_its_call_s_outcome() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = toolset(&cluster).await?;
    let script = r#"
        import { workflows, ToolError } from "rewind:tools";
        export default async function main() {
          const seen: unknown[] = [];
          for (const call of [() => workflows.fail(), () => workflows.wrong(), () => workflows.refund({ order_id: 7 as any })]) {
            try { seen.push(await call()); }
            catch (error) {
              if (!(error instanceof ToolError)) throw error;
              seen.push([error.code, error.tool, error.details?.code ?? null]);
            }
          }
          return seen;
        }
    "#;
    let ended = run_to_end(&cluster, &toolset, script).await?;
    let expected = json!([
        ["tool_failed", "workflows.fail", "script_error"],
        ["invalid_result", "workflows.wrong", null],
        ["invalid_arguments", "workflows.refund", null],
    ]);
    ensure!(result(&ended)? == expected, "{:?} {:?}", ended.result, ended.error);
    Ok(())
}

#[tokio::test]
async fn a_cancelled_run_takes_its_children_along() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = toolset(&cluster).await?;
    let script = r#"
        import { workflows } from "rewind:tools";
        export default async () => await workflows.refund({ order_id: "o-1001" });
    "#;
    // No worker is there: the child waits for one.
    let parent = cluster.api.start(&toolset, script, Value::Null).await?.id;
    let child = eventually("the child", || async { children(&cluster, &parent).await.ok()?.pop() }).await?.id;
    cluster
        .api
        .request::<Value>(Method::POST, &format!("/v1/runs/{parent}/cancel"), None)
        .await?
        .map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    ensure!(cluster.api.ended(&parent).await?.status == RunStatus::Cancelled);
    ensure!(cluster.api.ended(&child).await?.status == RunStatus::Cancelled);
    Ok(())
}

#[tokio::test]
async fn a_workflow_is_run_by_its_name() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let _worker = Peer::refunds(&cluster, &cluster.path("refunds.jsonl"), "1ms").await?;
    let toolset = toolset(&cluster).await?;
    let start = async |body: Value| {
        let mut request = json!({"toolset": toolset});
        request.as_object_mut().context("an object")?.extend(body.as_object().context("an object")?.clone());
        cluster.api.request::<rewind_model::Run>(Method::POST, "/v1/runs", Some(&request)).await
    };
    let run = start(json!({"workflow": "refund", "input": {"order_id": "o-1004"}})).await?;
    let run = run.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
    ensure!(result(&cluster.api.ended(&run.id).await?)? == "o-1004");
    for (body, said) in [
        (json!({"workflow": "refund", "input": {"order_id": 7}}), "order_id"),
        (json!({"workflow": "nothing"}), "it has: "),
        (json!({"workflow": "refund", "script": "x"}), "either"),
        (json!({}), "either"),
    ] {
        let refusal = start(body).await?.err().context("refused")?;
        ensure!(refusal.problem.detail.as_ref().is_some_and(|detail| detail.contains(said)), "{said}: {refusal:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_deadline_ends_a_run_and_its_children_wherever_they_are() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = toolset(&cluster).await?;
    let script = r#"
        import { workflows } from "rewind:tools";
        export default async () => await workflows.refund({ order_id: "o-1001" });
    "#;
    let start = async |deadline: &str| {
        let body = json!({"toolset": toolset, "script": script, "deadline": deadline});
        cluster.api.request::<rewind_model::Run>(Method::POST, "/v1/runs", Some(&body)).await
    };
    // No worker is there: parent and child leave memory before.
    let parent = start("6s").await?.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?.id;
    let child = eventually("the child", || async { children(&cluster, &parent).await.ok()?.pop() }).await?.id;
    for run in [&parent, &child] {
        let ended = cluster.api.ended(run).await?;
        ensure!(ended.error.as_ref().is_some_and(|error| error.code == "deadline"), "{ended:?}");
    }
    for wrong in ["soon", "0s", "2020-01-01T00:00:00Z"] {
        let refusal = start(wrong).await?.err().context("refused")?;
        ensure!(refusal.problem.detail.as_ref().is_some_and(|detail| detail.contains("deadline")), "{refusal:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_workflow_with_an_approval_is_started_when_it_is_approved() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let base = cluster.api.register(&json!({"host_tools": refund_tools()})).await?.id;
    let toolset = json!({
        "base": base,
        "workflows": {"pay": {"script": "export default async (input: { n: number }) => input.n;"}},
        "policies": {"workflows.pay": {"approval": "always"}},
    });
    let toolset = cluster.api.register(&toolset).await?.id;
    let script = r#"
        import { workflows, ToolError } from "rewind:tools";
        export default async (n: number) => {
          try { return await workflows.pay({ n }); }
          catch (error) { if (error instanceof ToolError) return error.code; throw error; }
        };
    "#;
    for (n, verb, expected) in [(1, "approve", json!(1)), (2, "reject", json!("rejected")), (3, "cancel", json!(null))]
    {
        let parent = cluster.api.start(&toolset, script, json!(n)).await?.id;
        let call = parked(&cluster, &parent).await?;
        ensure!(call.tool.to_string() == "workflows.pay", "{call:?}");
        cluster.kill_node(0).await?;
        ensure!(children(&cluster, &parent).await?.is_empty(), "it is started");
        ensure!(cluster.api.journal(&parent).await?.items[0].child.is_none(), "it has a run");
        if verb == "cancel" {
            cluster.api.send(Method::POST, &format!("/v1/runs/{parent}/cancel"), None).await?;
            let ended = cluster.api.ended(&parent).await?;
            ensure!(ended.status == RunStatus::Cancelled, "{ended:?}");
        } else {
            decide(&cluster, &call, verb).await?;
            ensure!(result(&cluster.api.ended(&parent).await?)? == expected, "{verb}");
        }
        let started = children(&cluster, &parent).await?.len();
        ensure!(started == usize::from(verb == "approve"), "{verb}: {started} runs");
    }
    Ok(())
}
