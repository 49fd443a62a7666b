//! Runs that go on from another run's past: forks, cassettes, plans.

use anyhow::{Context, ensure};
use reqwest::Method;
use rewind_model::{Journal, Run, RunId, RunStatus, ToolsetId};
use rewind_tests::Cluster;
use serde_json::{Value, json};

use crate::support::{Counter, decide, error, parked, result};

async fn fork(cluster: &Cluster, run: &RunId, body: &Value) -> anyhow::Result<Run> {
    let answer = cluster.api.request(Method::POST, &format!("/v1/runs/{run}/fork"), Some(body)).await?;
    answer.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))
}

async fn cassette(cluster: &Cluster, run: &RunId) -> anyhow::Result<Value> {
    let answer = cluster.api.request(Method::GET, &format!("/v1/runs/{run}/cassette"), None).await?;
    answer.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))
}

async fn toolset(cluster: &Cluster, counter: &Counter, policies: Value) -> anyhow::Result<ToolsetId> {
    let toolset = json!({"mcp_servers": {"shop": {"url": counter.url()?}}, "policies": policies});
    Ok(cluster.api.register(&toolset).await?.id)
}

/// What of each call the script can see, and whether it was sent.
fn calls(journal: &Journal) -> Vec<(u32, String, bool)> {
    journal.items.iter().map(|call| (call.seq, call.arguments.text.clone(), call.recorded)).collect()
}

/// Everything that could differ between two runs of it: time, chance, the order of parallel calls, a failure.
const BUSY: &str = r#"
    import { shop, sleep, ToolError } from "rewind:tools";
    export default async function main(input: { title: string }) {
      const first = await shop.effect({ title: input.title, at: Date.now(), id: crypto.randomUUID() });
      await sleep(40);
      const both = await Promise.all([3, 4, 5].map((n) => shop.effect({ n, r: Math.random() })));
      let failed = "no";
      try { await shop.fail({ n: 6 }); } catch (error) { if (error instanceof ToolError) failed = error.code; }
      const last = await shop.effect({ last: true, after: Date.now(), both: both.length });
      if (input.title === "wrong") throw new Error("the title is wrong");
      return { first, both, failed, last, at: new Date().toISOString(), r: Math.random() };
    }
"#;

#[tokio::test]
async fn a_corrected_script_goes_on_where_the_wrong_one_had_failed() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let toolset = toolset(&cluster, &counter, json!({})).await?;
    let wrong = cluster.api.start(&toolset, BUSY, json!({"title": "wrong"})).await?.id;
    let (code, message) = error(&cluster.api.ended(&wrong).await?)?;
    ensure!((code.as_str(), message.contains("title is wrong")) == ("script_error", true), "{code}: {message}");
    let before = counter.counted().await?.attempts;
    let history = cluster.api.journal(&wrong).await?;

    // The script is corrected after the last call that was right.
    let right = BUSY.replace(r#"throw new Error("the title is wrong")"#, r#"await shop.effect({ more: 1 })"#);
    let forked = fork(&cluster, &wrong, &json!({"script": right})).await?;
    ensure!(forked.forked_from.as_ref() == Some(&wrong), "{forked:?}");
    let ended = cluster.api.ended(&forked.id).await?;
    ensure!(result(&ended)?["failed"] == "tool_failed", "{:?}", ended.result);
    let journal = cluster.api.journal(&forked.id).await?;
    let (then, now) = (calls(&history), calls(&journal));
    ensure!(now.len() == then.len() + 1 && !now[then.len()].2, "{now:?}");
    ensure!(now.iter().zip(&then).all(|(now, then)| now.2 && (now.0, &now.1) == (then.0, &then.1)), "{now:?} {then:?}");
    ensure!(journal.diverged.is_none(), "it goes on beyond the other's end: {:?}", journal.diverged);
    let mut after = counter.counted().await?.attempts;
    ensure!(after.remove(&format!("{}/8", forked.id)) == Some(1) && after == before, "{after:?}");

    // A call in the middle is another one: from there on all is live, and said so.
    let other = BUSY.replace("r: Math.random() }))", "r: 1 }))");
    let forked =
        fork(&cluster, &wrong, &json!({"script": other, "input": {"title": "wrong"}, "idempotency_key": "k"})).await?;
    cluster.api.ended(&forked.id).await?;
    let journal = cluster.api.journal(&forked.id).await?;
    ensure!(calls(&journal).iter().all(|(seq, _, recorded)| *recorded == (*seq < 3)), "{:?}", calls(&journal));
    let diverged = journal.diverged.context("a divergence")?;
    ensure!(diverged.seq == 3 && diverged.now.is_some() && diverged.now != diverged.then, "{diverged:?}");
    // The same key is the same fork; the source is as it was.
    let again = json!({"script": other, "input": {"title": "wrong"}, "idempotency_key": "k"});
    ensure!(fork(&cluster, &wrong, &again).await?.id == forked.id);
    ensure!(calls(&cluster.api.journal(&wrong).await?) == then, "the source was touched");
    ensure!(cluster.api.run(&wrong).await?.status == RunStatus::Failed);
    Ok(())
}

#[tokio::test]
async fn a_fork_of_a_parked_run_leaves_it_parked_and_repeats_nothing() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let policies = json!({"shop.effect": {"delivery": "at_most_once"}, "shop.echo": {"approval": "always"}});
    let toolset = toolset(&cluster, &counter, policies).await?;
    let script = r#"
        import { shop } from "rewind:tools";
        export default async function main(input: { n: number }) {
          const paid = await shop.effect({ pay: 1 });
          return [paid, await shop.echo({ n: input.n })];
        }
    "#;
    let run = cluster.api.start(&toolset, script, json!({"n": 1})).await?.id;
    parked(&cluster, &run).await?;
    // While the node that has the source dies, and the coordinator.
    cluster.kill_node(0).await?;
    let forked = fork(&cluster, &run, &json!({"input": {"n": 2}})).await?.id;
    let call = parked(&cluster, &forked).await?;
    ensure!(call.seq == 2 && call.arguments.text == r#"{"n":2}"#, "{call:?}");
    decide(&cluster, &call, "approve").await?;
    ensure!(result(&cluster.api.ended(&forked).await?)?[1]["arguments"]["n"] == 2);
    let source = cluster.api.run(&run).await?;
    ensure!((source.status, source.parked) == (RunStatus::Waiting, 1), "{source:?}");
    let counted = counter.counted().await?;
    ensure!(counted.attempts.len() == 1 && counted.attempts.get(&format!("{run}/1")) == Some(&1), "{counted:?}");
    Ok(())
}

#[tokio::test]
async fn a_cassette_gives_the_same_result_with_no_server_running() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let toolset = toolset(&cluster, &counter, json!({})).await?;
    let script = BUSY.replace("sleep(40)", r#"sleep("4s")"#);
    let run = cluster.api.start(&toolset, &script, json!({"title": "a"})).await?.id;
    let ended = cluster.api.ended(&run).await?;
    let recorded = cassette(&cluster, &run).await?;
    ensure!(recorded["rewind_cassette"] == 1 && recorded["calls"].as_array().is_some_and(|calls| calls.len() == 7));
    drop(counter);

    let body =
        |script: &str| json!({"toolset": toolset, "script": script, "input": {"title": "a"}, "cassette": recorded});
    let before = std::time::Instant::now();
    let replayed = cluster.api.start_with(&body(&script)).await?.id;
    let replayed = cluster.api.ended(&replayed).await?;
    ensure!(replayed.result == ended.result, "{:?} {:?} is not {:?}", replayed.error, replayed.result, ended.result);
    ensure!(before.elapsed().as_secs() < 4, "it slept: {:?}", before.elapsed());
    ensure!(cassette(&cluster, &replayed.id).await?["calls"] == recorded["calls"], "its own cassette is the same");

    // One argument is another one: the call says so, and which one is the nearest.
    let changed = script.replace("last: true", "last: false");
    let failed = cluster.api.start_with(&body(&changed)).await?.id;
    let failed = cluster.api.ended(&failed).await?;
    let (code, message) = error(&failed)?;
    ensure!(code == "not_recorded", "{code}: {message}");
    for part in ["shop.effect", "call 7", "arguments.last is true and not false"] {
        ensure!(message.contains(part), "{message}");
    }
    // What is no cassette is refused with its place.
    for (bad, said) in [
        (json!({"rewind_cassette": 2}), "cassette"),
        (json!({"rewind_cassette": 1, "calls": [{"seq": 1}]}), "cassette"),
        (json!(7), "cassette"),
    ] {
        let mut body = body(&script);
        body["cassette"] = bad;
        let refused = cluster.api.request::<Run>(Method::POST, "/v1/runs", Some(&body)).await?;
        let refusal = refused.err().context("refused")?;
        ensure!(refusal.status == 422 && format!("{:?}", refusal.problem).contains(said), "{refusal:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_plan_is_the_calls_up_to_the_first_result_that_is_needed() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let toolset = toolset(&cluster, &counter, json!({"shop.echo": {"approval": "always"}})).await?;
    let script = r#"
        import { shop, sleep } from "rewind:tools";
        export default async function main(input: { n: number }) {
          await sleep("10d");
          if (input.n === 0) return "nothing to do";
          const [a] = await Promise.all([shop.effect({ n: input.n }), shop.echo({ m: 2 })]);
          return shop.effect(a);
        }
    "#;
    let plan = |n: u32| json!({"toolset": toolset, "script": script, "input": {"n": n}, "plan": true});
    let run = cluster.api.start_with(&plan(1)).await?.id;
    let planned = result(&cluster.api.ended(&run).await?)?;
    let wanted = json!({"calls": [
        {"seq": 2, "tool": "shop.effect", "arguments": {"n": 1}, "approval": false},
        {"seq": 3, "tool": "shop.echo", "arguments": {"m": 2}, "approval": true},
    ]});
    ensure!(planned == wanted, "{planned}");
    let run = cluster.api.start_with(&plan(0)).await?.id;
    let planned = result(&cluster.api.ended(&run).await?)?;
    ensure!(planned == json!({"calls": [], "returned": "nothing to do"}), "{planned}");
    ensure!(counter.counted().await?.requests.iter().all(|request| request["message"]["method"] != "tools/call"));
    Ok(())
}

/// A node that dies while it takes a past over goes on with it.
#[tokio::test]
async fn a_long_past_is_taken_over_once_whoever_dies() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let toolset = toolset(&cluster, &counter, json!({})).await?;
    let script = r#"
        import { shop } from "rewind:tools";
        export default async function main(input: { more: boolean }) {
          let sum = 0;
          for (let n = 0; n < 1500; n += 100) {
            const many = await Promise.all(Array.from({ length: 100 }, (_, m) => shop.effect({ n: n + m })));
            sum += many.length;
          }
          if (input.more) await shop.effect({ more: true });
          return sum;
        }
    "#;
    let run = cluster.api.start(&toolset, script, json!({"more": false})).await?.id;
    ensure!(result(&cluster.api.ended(&run).await?)? == 1500);
    let before = counter.counted().await?.attempts;
    let forked = fork(&cluster, &run, &json!({"input": {"more": true}})).await?.id;
    cluster.kill_node(0).await?;
    ensure!(result(&cluster.api.ended(&forked).await?)? == 1500);
    let mut after = counter.counted().await?.attempts;
    ensure!(after.remove(&format!("{forked}/1501")).is_some() && after == before, "a call of the past was sent again");
    Ok(())
}
