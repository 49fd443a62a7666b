//! Messages on NATS that no part of Rewind would send, and workers that answer what is no answer.

use std::time::Duration;

use anyhow::{Context, ensure};
use async_nats::{
    HeaderMap,
    jetstream::{
        self,
        consumer::{PullConsumer, pull},
    },
};
use futures::StreamExt;
use rewind_model::{RunId, RunStatus, ToolsetId};
use rewind_tests::{Cluster, eventually};
use serde_json::{Value, json};

use crate::support::{Counter, host_toolset, result, run_to_end};

/// A worker of one tool, by hand.
struct Worker {
    jetstream: jetstream::Context,
    calls: PullConsumer,
}

impl Worker {
    async fn of(cluster: &Cluster, tool: &str) -> anyhow::Result<Self> {
        let url: async_nats::ServerAddr = cluster.dev_file()?.nats.parse()?;
        let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
        let options = async_nats::ConnectOptions::with_user_and_password(text(url.username()), text(url.password()));
        let jetstream = jetstream::new(options.connect(url).await?);
        let config = pull::Config {
            durable_name: Some(format!("tool-{tool}")),
            filter_subject: format!("rewind.host.{tool}.>"),
            ..Default::default()
        };
        let calls = jetstream.create_consumer_on_stream(config, "REWIND_HOST").await?;
        Ok(Self { jetstream, calls })
    }

    /// Takes one call and answers it with what `body` makes of its number, as often as it makes one.
    async fn answer(&self, bodies: impl Fn(&str) -> Vec<String>) -> anyhow::Result<()> {
        let mut batch = self.calls.batch().max_messages(1).expires(Duration::from_secs(30)).messages().await?;
        let call = batch.next().await.context("no call came")?.map_err(|error| anyhow::anyhow!("{error}"))?;
        let headers = call.headers.clone().context("headers")?;
        let header = |name: &str| headers.get(name).map(|value| value.as_str().to_owned()).context("a header");
        let (key, reply) = (header("Rewind-Key")?, header("Rewind-Reply")?);
        let (_, seq) = key.split_once('/').context("a key")?;
        for body in bodies(seq) {
            self.command(&reply, "answer", body).await?;
        }
        call.ack().await.map_err(|error| anyhow::anyhow!("{error}"))
    }

    async fn command(&self, subject: &str, kind: &str, body: String) -> anyhow::Result<()> {
        let mut headers = HeaderMap::new();
        headers.insert("Rewind-Command", kind);
        self.jetstream.publish_with_headers(subject.to_owned(), headers, body.into()).await?.await?;
        Ok(())
    }

    /// Commands that are in the queue or with a node that has not done with them.
    async fn commands_left(&self) -> anyhow::Result<u64> {
        Ok(self.jetstream.get_stream("REWIND_COMMANDS").await?.get_info().await?.state.messages)
    }
}

async fn start(cluster: &Cluster, toolset: &ToolsetId) -> anyhow::Result<RunId> {
    let script = r#"
        import { host } from "rewind:tools";
        export default async function main() {
          try { return ["done", await host.refund({})]; }
          catch (error: any) { return [error.code, error.message.length < 10_000, error.details?.code ?? null]; }
        }
    "#;
    Ok(cluster.api.start(toolset, script, Value::Null).await?.id)
}

#[tokio::test]
async fn no_answer_of_a_worker_wedges_its_run() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    let worker = Worker::of(&cluster, "refund").await?;
    let body = |seq: &str, rest: &str| format!(r#"{{"v":1,"seq":{seq},"attempt":1,{rest}}}"#);
    // As much as a NATS message can hold beside the rest.
    let most = "x".repeat((1 << 20) - 400);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: [(String, Value); 7] = [
        (format!(r#""blob":{{"sha256":"{}","bytes":3}}"#, "0".repeat(64)), json!(["invalid_result", true, null])),
        (format!(r#""error":{{"code":"c","message":"{most}"}}"#), json!(["tool_failed", true, "c"])),
        (format!(r#""error":{{"code":"c","message":"m","details":"{most}"}}"#), json!(["tool_failed", true, null])),
        (format!(r#""error":{{"code":"c","message":"m","details":{deep}}}"#), json!(["tool_failed", true, null])),
        (format!(r#""ok":{deep}"#), json!(["too_large", true, null])),
        (r#""ok":1,"blob":7"#.to_owned(), json!(["invalid_result", true, null])),
        (r#""ok":7"#.to_owned(), json!(["done", 7])),
    ];
    for (rest, right) in cases {
        let run = start(&cluster, &toolset).await?;
        // Before the answer, what is none; after it, another one.
        worker
            .answer(|seq| vec!["no JSON".into(), body("99", r#""ok":1"#), body(seq, &rest), body(seq, r#""ok":2"#)])
            .await?;
        let ended = cluster.api.ended(&run).await?;
        let shown: String = rest.chars().take(60).collect();
        ensure!(result(&ended)? == right, "{shown}: {:?}", ended.result);
    }
    Ok(())
}

#[tokio::test]
async fn a_timeout_that_is_told_twice_spends_one_attempt() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    let worker = Worker::of(&cluster, "refund").await?;
    let run = start(&cluster, &toolset).await?;
    let timeout =
        |seq: &str| format!(r#"{{"v":1,"seq":{seq},"attempt":1,"error":{{"code":"timeout","message":"slow"}}}}"#);
    // More often than there are attempts.
    worker.answer(|seq| vec![timeout(seq); 8]).await?;
    worker.answer(|seq| vec![format!(r#"{{"v":1,"seq":{seq},"attempt":2,"ok":5}}"#)]).await?;
    ensure!(result(&cluster.api.ended(&run).await?)? == json!(["done", 5]));
    ensure!(cluster.api.journal(&run).await?.items[0].attempts == 2);
    Ok(())
}

#[tokio::test]
async fn a_worker_cannot_answer_for_an_mcp_server() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({"latency_ms": 1_500})).await?;
    let toolset = counter.toolset(&cluster).await?;
    let worker = Worker::of(&cluster, "refund").await?;
    let script = r#"
        import { shop } from "rewind:tools";
        export default async () => (await shop.effect({})).effects;
    "#;
    let run = cluster.api.start(&toolset, script, Value::Null).await?.id;
    eventually("the call is made", || async {
        let journal = cluster.api.journal(&run).await.ok()?;
        (!journal.items.is_empty()).then_some(())
    })
    .await?;
    let subject = rewind_bus::names::command(&run);
    worker.command(&subject, "answer", r#"{"v":1,"seq":1,"attempt":1,"ok":"forged"}"#.into()).await?;
    ensure!(result(&cluster.api.ended(&run).await?)? == json!(1));
    Ok(())
}

#[tokio::test]
async fn commands_for_no_run_and_of_no_kind_leave_nothing_behind() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    let worker = Worker::of(&cluster, "refund").await?;
    let done = run_to_end(&cluster, &toolset, "export default async () => 1").await?.id;
    for run in [RunId::new(1), RunId::new(2), done] {
        let subject = rewind_bus::names::command(&run);
        for _ in 0..3 {
            for (kind, body) in
                [("wake", r#"{"v":1}"#), ("wake", r#"{"v":1,"seq":7}"#), ("start", "no entry"), ("dance", "")]
            {
                worker.command(&subject, kind, body.into()).await?;
            }
            worker.command(&subject, "answer", r#"{"v":1,"seq":1,"attempt":1,"ok":1}"#.into()).await?;
        }
    }
    eventually("every command is dealt with", || async { (worker.commands_left().await.ok()? == 0).then_some(()) })
        .await?;
    Ok(())
}

/// Garbage in one journal is that run's end of the road, and nobody else's.
#[tokio::test]
async fn a_poisoned_journal_stops_no_other_run() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    let worker = Worker::of(&cluster, "refund").await?;
    let poisoned = start(&cluster, &toolset).await?;
    eventually("it waits", || async {
        let run = cluster.api.run(&poisoned).await.ok()?;
        (run.status == RunStatus::Waiting).then_some(())
    })
    .await?;
    let journal = rewind_bus::names::journal(&poisoned);
    worker.jetstream.publish(journal, "garbage".into()).await?.await?;
    worker.answer(|seq| vec![format!(r#"{{"v":1,"seq":{seq},"attempt":1,"ok":1}}"#)]).await?;
    // Others of the same shard, too: there are 64.
    for _ in 0..100 {
        let ended = run_to_end(&cluster, &toolset, "export default async () => 1").await?;
        ensure!(result(&ended)? == json!(1));
    }
    ensure!(cluster.api.list("?limit=200").await?.items.len() == 101);
    cluster.kill_node(0).await?;
    ensure!(result(&run_to_end(&cluster, &toolset, "export default async () => 2").await?)? == json!(2));
    Ok(())
}
