//! Host calls that are answered after their worker has let go of them.

use std::{path::Path, process::Stdio};

use anyhow::{Context, ensure};
use rewind_model::RunStatus;
use rewind_tests::{Cluster, Peer, eventually};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::result;

const ASK: &str = r#"
    import { host, ToolError } from "rewind:tools";
    export default async function main(input: { question: string }) {
      try { return await host.ask({ question: input.question }); }
      catch (error) { if (error instanceof ToolError) return [error.code, error.message]; throw error; }
    }
"#;

async fn worker(cluster: &Cluster, questions: &Path) -> anyhow::Result<Peer> {
    let mut command = Command::new(cluster.tools().questions());
    command.arg("work").arg("--questions").arg(questions);
    command.env("REWIND_NATS", cluster.dev_file()?.nats).stderr(Stdio::null());
    Peer::spawn(&mut command).await
}

async fn answer(cluster: &Cluster, how: &str, token: &str, text: &str) -> anyhow::Result<()> {
    let mut command = Command::new(cluster.tools().questions());
    let status = command.args([how, token, text]).env("REWIND_NATS", cluster.dev_file()?.nats).status().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// The token of the question, once it is written down.
async fn token(questions: &Path, question: &str) -> anyhow::Result<String> {
    let asked = eventually("a question", || async {
        let text = std::fs::read_to_string(questions).ok()?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.into_iter().find(|line| line["question"] == question)
    })
    .await?;
    Ok(asked["token"].as_str().context("a token")?.to_owned())
}

#[tokio::test]
async fn a_call_is_answered_once_by_any_process_whoever_died_meanwhile() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let questions = cluster.path("questions.jsonl");
    let peer = worker(&cluster, &questions).await?;
    let tool = json!({"description": "Asks a person.", "input_schema": {"type": "object"}});
    // An attempt may take half a second: waiting for the answer is no part of it.
    let toolset = json!({"host_tools": {"ask": tool}, "policies": {"host.ask": {"timeout": "500ms"}}});
    let toolset = cluster.api.register(&toolset).await?.id;
    let ask = async |question: &str| cluster.api.start(&toolset, ASK, json!({"question": question})).await;
    let (yes, no, never) = (ask("yes").await?.id, ask("no").await?.id, ask("never").await?.id);
    for run in [&yes, &no, &never] {
        eventually("the call is deferred, and its run waits outside of memory", || async {
            let deferred = cluster.api.journal(run).await.ok()?.items.first()?.status == "deferred";
            (deferred && cluster.api.run(run).await.ok()?.status == RunStatus::Waiting).then_some(())
        })
        .await?;
    }
    drop(peer);
    cluster.kill_node(0).await?;
    cluster.kill_nats().await?;
    cluster.kill_coordinator().await?;
    // Nobody takes them for forgotten: the worker that comes back is asked nothing.
    let peer = worker(&cluster, &questions).await?;
    answer(&cluster, "answer", &token(&questions, "yes").await?, r#"{"yes": true}"#).await?;
    answer(&cluster, "answer", &token(&questions, "yes").await?, r#"{"yes": false}"#).await?;
    answer(&cluster, "decline", &token(&questions, "no").await?, "nobody knows").await?;
    ensure!(result(&cluster.api.ended(&yes).await?)? == json!({"yes": true}));
    ensure!(result(&cluster.api.ended(&no).await?)? == json!(["tool_failed", "nobody knows"]));
    // One that nobody waits for any more.
    let cancelled = cluster.api.send(reqwest::Method::POST, &format!("/v1/runs/{never}/cancel"), None).await?;
    ensure!(cancelled.status() == 200, "{cancelled:?}");
    answer(&cluster, "answer", &token(&questions, "never").await?, "1").await?;
    ensure!(cluster.api.run(&never).await?.status == RunStatus::Cancelled);
    let asked = std::fs::read_to_string(&questions)?.lines().count();
    ensure!(asked == 3, "{asked} questions were asked");
    let journal = cluster.api.journal(&yes).await?;
    let events: Vec<_> = journal.items[0].events.iter().map(|event| event.event.as_str()).collect();
    ensure!(events == ["deferred"] && journal.items[0].attempts == 1, "{:?}", journal.items[0]);
    drop(peer);
    Ok(())
}
