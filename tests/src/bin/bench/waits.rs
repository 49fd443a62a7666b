//! Runs that wait for somebody, for a run of their own, or go on from another one's past.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use reqwest::Method;
use rewind_model::{Run, RunId, ToolsetId};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{options::Options, say, spread::Spread, stage::Stage};

/// Recorded calls of the run that is forked.
const PAST: u32 = 1_000;

#[derive(Debug, Serialize)]
pub(crate) struct Wait {
    pub(crate) what: String,
    pub(crate) took: Spread,
}

/// # Errors
/// When a run fails.
pub(crate) async fn measure(stage: &Stage, options: &Options) -> anyhow::Result<Vec<Wait>> {
    let toolset = register(stage).await?;
    let count = options.pick(200, 20);
    say(&format!("{count} calls that are approved, as many workflows"));
    let mut waits = Vec::new();
    let approve = "import { host } from \"rewind:tools\";\nexport default async () => host.echo({ n: 1 });";
    let mut approved = Vec::new();
    for _ in 0..count {
        approved.push(approval(stage, &toolset, approve).await?);
    }
    waits.push(Wait { what: "parked call: approval to result".into(), took: Spread::of(approved)? });
    let parent = "import { workflows } from \"rewind:tools\";\nexport default async () => workflows.nothing(null);";
    let mut children = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        let run = stage.runs.api.start(&toolset, parent, Value::Null).await?.id;
        stage.runs.completed(&run).await?;
        children.push(begun.elapsed());
    }
    waits.push(Wait { what: "run that calls a workflow: start to result".into(), took: Spread::of(children)? });
    waits.push(forks(stage, options).await?);
    Ok(waits)
}

async fn register(stage: &Stage) -> anyhow::Result<ToolsetId> {
    let tool = json!({"description": "Answers.", "input_schema": {"type": "object"}});
    let toolset = json!({
        "host_tools": {"echo": tool},
        "policies": {"host.echo": {"approval": "always"}},
        "workflows": {"nothing": {"script": "export default async () => 1;"}},
    });
    Ok(stage.runs.api.register(&toolset).await?.id)
}

/// From the request that approves to the run's result.
async fn approval(stage: &Stage, toolset: &ToolsetId, script: &str) -> anyhow::Result<Duration> {
    let api = &stage.runs.api;
    let run = api.start(toolset, script, Value::Null).await?.id;
    rewind_tests::eventually("the call is parked", || async { (api.run(&run).await.ok()?.parked == 1).then_some(()) })
        .await?;
    let begun = Instant::now();
    let path = format!("/v1/runs/{run}/calls/1/approve");
    let nobody = json!({});
    let (decided, ended) =
        tokio::join!(api.request::<Value>(Method::POST, &path, Some(&nobody)), stage.runs.completed(&run));
    decided?.map_err(|refusal| anyhow!("{refusal:?}"))?;
    ended?;
    Ok(begun.elapsed())
}

/// A fork that takes over all of a long run, and makes one call more: from the request to its result.
async fn forks(stage: &Stage, options: &Options) -> anyhow::Result<Wait> {
    let times = options.pick(10, 2);
    say(&format!("{times} forks of a run of {PAST} calls"));
    let script = include_str!("fork.ts");
    let source = stage.runs.begin(script, json!({"calls": PAST, "more": 0})).await?;
    stage.runs.completed(&source).await?;
    let mut samples = Vec::new();
    for _ in 0..times {
        samples.push(fork(stage, &source).await?);
    }
    Ok(Wait { what: format!("fork of a run of {PAST} calls: request to result"), took: Spread::of(samples)? })
}

async fn fork(stage: &Stage, source: &RunId) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let body = json!({"input": {"calls": PAST, "more": 1}});
    let path = format!("/v1/runs/{source}/fork");
    let run = stage.runs.api.request::<Run>(Method::POST, &path, Some(&body)).await?;
    stage.runs.completed(&run.map_err(|refusal| anyhow!("{refusal:?}"))?.id).await?;
    Ok(begun.elapsed())
}
