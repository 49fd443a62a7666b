//! A run is cancelled from whatever state it is in, at once.

use std::{process::Stdio, time::Instant};

use anyhow::ensure;
use rewind_model::{RunId, RunStatus, ToolsetId};
use rewind_tests::{Cluster, Peer, eventually, pause, resume};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Counter, cancel, refund_tools, run_to_end, under_way};

/// Long enough for a command and an append, on a machine that is busy with other tests.
const AT_ONCE: f64 = 2.0;

struct World {
    cluster: Cluster,
    counter: Counter,
    toolset: ToolsetId,
    _questions: Peer,
}

async fn world() -> anyhow::Result<World> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let mut host_tools = refund_tools();
    host_tools["ask"] = json!({"description": "Asks a person.", "input_schema": {"type": "object"}});
    let toolset = json!({
        "mcp_servers": {"shop": {"url": counter.url()?}, "away": {"url": counter.url()?}},
        "host_tools": host_tools,
        "policies": {
            "shop.effect": {"approval": "always"},
            "away.*": {"retry": {"initial_interval": "1h", "max_interval": "1h"}},
        },
        "workflows": {"below": {"script": "import { shop } from \"rewind:tools\";\nexport default async () => shop.hang({});"}},
    });
    let toolset = cluster.api.register(&toolset).await?.id;
    let mut worker = Command::new(cluster.tools().questions());
    worker.arg("work").arg("--questions").arg(cluster.path("questions.jsonl"));
    worker.env("REWIND_NATS", cluster.dev_file()?.nats).stderr(Stdio::null());
    let questions = Peer::spawn(&mut worker).await?;
    Ok(World { cluster, counter, toolset, _questions: questions })
}

impl World {
    /// A run whose first call is at `status`.
    async fn run(&self, phase: &str, body: &str, status: &str) -> anyhow::Result<RunId> {
        let script = format!(
            "import {{ shop, away, host, sleep, workflows }} from \"rewind:tools\";\nexport default async function main() {{ {body} }}"
        );
        let run = self.cluster.api.start(&self.toolset, &script, Value::Null).await?.id;
        eventually(phase, || async {
            let journal = self.cluster.api.journal(&run).await.ok()?;
            journal.items.first().is_some_and(|call| call.status == status || !call.events.is_empty()).then_some(())
        })
        .await?;
        Ok(run)
    }

    async fn is_cancelled_at_once(&self, phase: &str, run: &RunId) -> anyhow::Result<()> {
        let before = Instant::now();
        let cancelled = cancel(&self.cluster, run).await?;
        ensure!(cancelled.status == RunStatus::Cancelled, "{phase}: {}", cancelled.status);
        ensure!(before.elapsed().as_secs_f64() < AT_ONCE, "{phase}: it took {:?}", before.elapsed());
        ensure!(cancel(&self.cluster, run).await?.status == RunStatus::Cancelled, "{phase}: twice is once");
        Ok(())
    }
}

#[tokio::test]
async fn a_run_is_cancelled_from_every_state() -> anyhow::Result<()> {
    let world = world().await?;
    let phases = [
        ("asleep", "await sleep(\"10d\");", "pending"),
        ("parked", "await shop.effect({});", "parked"),
        ("waiting for a worker", "await host.refund({ order_id: \"o\" });", "no_worker"),
        ("deferred", "await host.ask({ question: \"q\" });", "deferred"),
        (
            "over the limit of calls in flight",
            "await Promise.all(Array.from({ length: 150 }, () => host.refund({})));",
            "no_worker",
        ),
    ];
    for (phase, body, status) in phases {
        let run = world.run(phase, body, status).await?;
        world.is_cancelled_at_once(phase, &run).await?;
    }
    // It is journaled before it is sent.
    let run = world.run("calling a server", "await shop.hang({});", "pending").await?;
    under_way(&world.counter).await?;
    world.is_cancelled_at_once("calling a server", &run).await?;
    let abandoned = eventually("the server hears that nobody waits", || async {
        let counted = world.counter.counted().await.ok()?;
        (counted.abandoned > 0).then_some(counted.abandoned)
    })
    .await?;
    ensure!(abandoned == 1, "nobody is told twice: {abandoned}");
    let done = run_to_end(&world.cluster, &world.toolset, "export default async () => 1;").await?;
    ensure!(cancel(&world.cluster, &done.id).await?.status == RunStatus::Completed, "what has ended stays as it ended");
    Ok(())
}

#[tokio::test]
async fn a_run_is_cancelled_while_it_backs_off_and_while_its_child_works() -> anyhow::Result<()> {
    let world = world().await?;
    world.counter.change(&json!({"answer": "close"})).await?;
    let run = world.run("backing off", "await away.effect({});", "never").await?;
    world.is_cancelled_at_once("backing off", &run).await?;
    world.counter.change(&json!({"answer": "mcp"})).await?;
    let parent = world.run("a child works", "await workflows.below({});", "pending").await?;
    under_way(&world.counter).await?;
    world.is_cancelled_at_once("a child works", &parent).await?;
    let child = rewind_model::Key { run: parent, seq: 1 }.workflow_run();
    ensure!(world.cluster.api.ended(&child).await?.status == RunStatus::Cancelled, "the child goes on");
    Ok(())
}

/// No node can hear it: it is taken down, and comes true before the script goes on.
#[tokio::test]
async fn a_run_without_a_node_and_one_that_is_replayed_are_cancelled_as_soon_as_there_is_one() -> anyhow::Result<()> {
    let world = world().await?;
    let busy = "let n = 0; while (n < 300) { await sleep(0); n += 1; } await sleep(\"10d\");";
    let replayed = world.run("a long journal", busy, "ok").await?;
    eventually("it sleeps", || async {
        (world.cluster.api.run(&replayed).await.ok()?.status == RunStatus::Waiting).then_some(())
    })
    .await?;
    let node = world.cluster.dev_file()?.pids.nodes[0];
    pause(node);
    let queued = world.cluster.api.start(&world.toolset, "export default async () => 1;", Value::Null).await?.id;
    let cancels = futures::future::join(cancel(&world.cluster, &queued), cancel(&world.cluster, &replayed));
    let (first, second) = cancels.await;
    ensure!(first?.status == RunStatus::Queued && second?.status == RunStatus::Waiting, "who has cancelled them?");
    resume(node);
    for run in [&replayed, &queued] {
        let ended = world.cluster.api.ended(run).await?;
        ensure!(ended.status == RunStatus::Cancelled || *run == queued, "{:?}", ended.status);
    }
    Ok(())
}
