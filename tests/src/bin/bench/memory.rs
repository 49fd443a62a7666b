//! What a run takes of memory: while it is in a node's, and while it sleeps.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt};
use rewind_model::RunId;
use rewind_tests::eventually_within;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    options::Options,
    say,
    stage::{Stage, Sync},
    usage::{COORDINATOR, NODE, SANDBOXES, Usages},
};

/// Runs that are started at a time.
const STARTING: usize = 16;
/// Before anything is compared with, so that what exists once is there.
const WARM_UP: u32 = 16;
/// Less than a run without mail stays in memory.
const HOLD: Duration = Duration::from_millis(1_500);
const PATIENCE: Duration = Duration::from_secs(60);

/// Resident bytes a run, by part.
#[derive(Debug, Serialize)]
pub(crate) struct Memory {
    pub(crate) runs: u32,
    /// In memory, each with a call open; `false`: asleep.
    pub(crate) live: bool,
    pub(crate) node: f64,
    pub(crate) sandboxes: f64,
    pub(crate) coordinator: f64,
}

/// # Errors
/// When a run fails.
pub(crate) async fn measure(options: &Options) -> anyhow::Result<Vec<Memory>> {
    Ok(vec![live(options.pick(500, 100)).await?, asleep(options.pick(1_000, 200)).await?])
}

async fn live(count: u32) -> anyhow::Result<Memory> {
    say(&format!("memory of {count} runs with a call open"));
    let mut stage = Stage::start(Sync::Default).await?;
    let begin =
        |count, calls| start(&stage, count, include_str!("hold.ts"), json!({"calls": calls, "hold": HOLD.as_millis()}));
    for run in begin(WARM_UP, 1).await? {
        stage.runs.completed(&run).await?;
    }
    let before = stage.usage()?;
    stage.seen().await?;
    let runs = begin(count, 6).await?;
    // All of them are there once there have been two calls of each: none can make a third before its second is over.
    let mut calls = 0;
    while calls < 2 * u64::from(count) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        calls += stage.seen().await?.calls;
    }
    let after = stage.usage()?;
    for run in &runs {
        stage.runs.completed(run).await?;
    }
    stage.stop().await?;
    Memory::of(count, true, &before, &after)
}

async fn asleep(count: u32) -> anyhow::Result<Memory> {
    say(&format!("memory of {count} sleeping runs"));
    let mut stage = Stage::start(Sync::Default).await?;
    let script =
        "import { sleep } from \"rewind:tools\";\nexport default async function main() { await sleep(\"1h\") }\n";
    start(&stage, WARM_UP, script, Value::Null).await?;
    waiting(&stage, WARM_UP).await?;
    let before = stage.usage()?;
    start(&stage, count, script, Value::Null).await?;
    waiting(&stage, WARM_UP + count).await?;
    let after = stage.usage()?;
    stage.stop().await?;
    Memory::of(count, false, &before, &after)
}

async fn start(stage: &Stage, count: u32, script: &str, input: Value) -> anyhow::Result<Vec<RunId>> {
    let starts = (0..count).map(|_| stage.runs.begin(script, input.clone()));
    futures::stream::iter(starts).buffer_unordered(STARTING).try_collect().await
}

/// Until so many runs wait.
async fn waiting(stage: &Stage, count: u32) -> anyhow::Result<()> {
    eventually_within(PATIENCE, "all runs wait", || async {
        let (mut found, mut cursor) = (0, String::new());
        loop {
            let page = stage.runs.api.list(&format!("?status=waiting&limit=200{cursor}")).await.ok()?;
            found += page.items.len();
            match page.next_cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return (found >= count as usize).then_some(()),
            }
        }
    })
    .await
}

impl Memory {
    fn of(runs: u32, live: bool, before: &Usages, after: &Usages) -> anyhow::Result<Self> {
        let grown = |part: &str| {
            let (before, after) = (before.get(part).context("a part")?, after.get(part).context("a part")?);
            anyhow::Ok(after.resident.saturating_sub(before.resident) as f64 / f64::from(runs))
        };
        let memory =
            Self { runs, live, node: grown(NODE)?, sandboxes: grown(SANDBOXES)?, coordinator: grown(COORDINATOR)? };
        ensure!(memory.worker() + memory.coordinator > 0.0, "no memory was used: this measured nothing");
        Ok(memory)
    }

    /// Node and sandboxes.
    pub(crate) fn worker(&self) -> f64 {
        self.node + self.sandboxes
    }
}
