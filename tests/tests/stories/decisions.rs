//! What people decide while a run waits, and calls that must not be made twice.

use anyhow::{Context, ensure};
use futures::future::join_all;
use reqwest::Method;
use rewind_model::{MadeDecision, Page, ParkedCall, RunStatus, ToolsetId};
use rewind_tests::{Cluster, Peer, eventually};
use serde_json::{Value, json};

use crate::support::{Counter, parked, refund_tools, result, under_way};

/// The scripted server as `shop` and the refunds worker's tools, with these policies.
async fn toolset(cluster: &Cluster, counter: &Counter, policies: Value) -> anyhow::Result<ToolsetId> {
    let toolset =
        json!({"mcp_servers": {"shop": {"url": counter.url()?}}, "host_tools": refund_tools(), "policies": policies});
    Ok(cluster.api.register(&toolset).await?.id)
}

/// The status of the answer, and who has decided.
async fn decide(
    cluster: &Cluster,
    call: &ParkedCall,
    verb: &str,
    body: &Value,
) -> anyhow::Result<(u16, Option<MadeDecision>)> {
    let path = format!("/v1/runs/{}/calls/{}/{verb}", call.run, call.seq);
    match cluster.api.request(Method::POST, &path, Some(body)).await? {
        Ok(made) => Ok((200, Some(made))),
        Err(refusal) => Ok((refusal.status.as_u16(), None)),
    }
}

const PAY: &str = r#"
    import { shop, ToolError } from "rewind:tools";
    export default async function main(input: { n: number }) {
      try { return await shop.effect({ n: input.n }); }
      catch (error) { if (error instanceof ToolError) return [error.code, error.message]; throw error; }
    }
"#;

#[tokio::test]
async fn an_approval_is_waited_for_through_any_crash_and_counts_once() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let toolset = toolset(&cluster, &counter, json!({"shop.effect": {"approval": "always", "timeout": "1s"}})).await?;
    let run = cluster.api.start(&toolset, PAY, json!({"n": 7})).await?.id;
    let call = parked(&cluster, &run).await?;
    ensure!((call.tool.to_string().as_str(), call.reason.as_str()) == ("shop.effect", "approval"), "{call:?}");
    ensure!(call.arguments.text == r#"{"n":7}"#, "{call:?}");
    // It waits outside of memory, longer than an attempt may take, and whatever dies meanwhile.
    eventually("the run waits", || async {
        (cluster.api.run(&run).await.ok()?.status == RunStatus::Waiting).then_some(())
    })
    .await?;
    cluster.kill_node(0).await?;
    cluster.kill_coordinator().await?;
    let call = parked(&cluster, &run).await?;
    ensure!(counter.counted().await?.attempts.is_empty(), "it was sent before anybody said so");

    // Everybody decides at the same time.
    let bodies: Vec<_> =
        (0..10).map(|n| (if n % 2 == 0 { "approve" } else { "reject" }, json!({"by": format!("p{n}")}))).collect();
    let answers = join_all(bodies.iter().map(|(verb, body)| decide(&cluster, &call, verb, body))).await;
    let answers = answers.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let winner = answers.iter().find_map(|(_, made)| made.clone()).context("a winner")?;
    for (n, (status, made)) in answers.iter().enumerate() {
        let agrees = (n % 2 == 0) == winner.approved;
        ensure!(*status == if agrees { 200 } else { 409 }, "{n}: {status}");
        ensure!(made.as_ref().is_none_or(|made| *made == winner), "{made:?} is not {winner:?}");
    }
    let ended = cluster.api.ended(&run).await?;
    let counted = counter.counted().await?;
    if winner.approved {
        result(&ended)?;
        ensure!(counted.effects.get(&format!("{run}/1")) == Some(&1), "{counted:?}");
    } else {
        ensure!(result(&ended)?[0] == "rejected" && counted.effects.is_empty(), "{:?} {counted:?}", ended.result);
    }
    // Later deciders learn who was first.
    let again = if winner.approved { "approve" } else { "reject" };
    ensure!(decide(&cluster, &call, again, &json!({"by": "late"})).await? == (200, Some(winner.clone())));
    let other = if winner.approved { "reject" } else { "approve" };
    ensure!(decide(&cluster, &call, other, &json!({})).await?.0 == 409);
    let mut nobody = call.clone();
    nobody.seq = 99;
    ensure!(decide(&cluster, &nobody, "approve", &json!({})).await?.0 == 404);
    Ok(())
}

#[tokio::test]
async fn a_rejection_tells_the_script_why() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let toolset = toolset(&cluster, &counter, json!({"shop.*": {"approval": "always"}})).await?;
    let run = cluster.api.start(&toolset, PAY, json!({"n": 1})).await?.id;
    let call = parked(&cluster, &run).await?;
    decide(&cluster, &call, "reject", &json!({"by": "ada", "message": "too expensive"})).await?;
    let ended = cluster.api.ended(&run).await?;
    ensure!(result(&ended)? == json!(["rejected", "too expensive"]), "{:?}", ended.result);
    let page = cluster.api.request::<Page<ParkedCall>>(Method::GET, "/v1/parked", None).await?;
    ensure!(page.is_ok_and(|page| page.items.is_empty()), "nothing is left to decide");
    Ok(())
}

#[tokio::test]
async fn what_must_not_be_done_twice_is_not_sent_again() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    // The connection is lost after the effect, once for each key.
    let counter = Counter::start(&cluster, json!({"drop_first": 1})).await?;
    let policies = json!({"shop.*": {"delivery": "at_most_once"}, "host.refund": {"delivery": "at_most_once"}});
    let toolset = toolset(&cluster, &counter, policies).await?;
    let run = cluster.api.start(&toolset, PAY, json!({"n": 1})).await?.id;
    ensure!(result(&cluster.api.ended(&run).await?)?[0] == "outcome_unknown");
    let counted = counter.counted().await?;
    ensure!(counted.attempts.get(&format!("{run}/1")) == Some(&1), "{counted:?}");

    // The node dies while the call is under way.
    let hang = PAY.replace("shop.effect({ n: input.n })", "shop.hang({})");
    let run = cluster.api.start(&toolset, &hang, json!({"n": 2})).await?.id;
    under_way(&counter).await?;
    cluster.kill_node(0).await?;
    ensure!(result(&cluster.api.ended(&run).await?)?[0] == "outcome_unknown");
    let hung =
        counter.counted().await?.requests.into_iter().filter(|request| request["message"]["params"]["name"] == "hang");
    ensure!(hung.count() == 1, "it was sent twice");

    // A host call that is in its queue is not touched by the death of the node that put it there.
    let pay = PAY
        .replace("shop.effect({ n: input.n })", "host.refund({ order_id: \"o-1001\", amount_cents: 5 })")
        .replace("{ shop,", "{ host,");
    let run = cluster.api.start(&toolset, &pay, json!({"n": 3})).await?.id;
    eventually("the call is queued", || async { cluster.api.journal(&run).await.ok()?.items.first().map(drop) })
        .await?;
    cluster.kill_node(0).await?;
    let effects = cluster.path("refunds.jsonl");
    let _worker = Peer::refunds(&cluster, &effects, "5ms").await?;
    let ended = cluster.api.ended(&run).await?;
    ensure!(result(&ended)?["order_id"] == "o-1001", "{:?}", ended.result);
    let refunded = rewind_tests::one_effect_per_key(&rewind_tests::effects_of(&effects)?)?;
    ensure!(refunded.len() == 1, "{refunded:?}");
    Ok(())
}
