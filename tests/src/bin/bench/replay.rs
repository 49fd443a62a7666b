//! A run that left memory is woken: how fast is its script where it was?

use std::time::Duration;

use anyhow::{Context, ensure};
use rewind_model::RunStatus;
use rewind_tests::eventually;
use serde::Serialize;
use serde_json::json;

use crate::{options::Options, say, stage::Stage};

/// Longer than a run without mail stays in memory.
const HOLD: Duration = Duration::from_secs(6);

#[derive(Debug, Serialize)]
pub(crate) struct Replay {
    /// In the journal when the run is woken, each an entry of its own.
    pub(crate) calls: u32,
    /// From the answer that wakes the run to its next call, as the tool saw it: the journal is read, the
    /// script run from its start, and an entry appended. The fastest of some.
    pub(crate) ms: f64,
    pub(crate) calls_per_s: f64,
}

/// # Errors
/// When a run fails, or does not leave memory.
pub(crate) async fn measure(stage: &Stage, options: &Options) -> anyhow::Result<Vec<Replay>> {
    let mut replays = Vec::new();
    // A run may make 10,000 calls.
    for (calls, times) in options.pick(vec![(1_000, 3), (9_990, 2)], vec![(1_000, 1)]) {
        say(&format!("replay of {calls} recorded calls"));
        let mut fastest = Duration::MAX;
        for _ in 0..times {
            fastest = fastest.min(replay(stage, calls).await?);
        }
        let seconds = fastest.as_secs_f64();
        replays.push(Replay { calls, ms: seconds * 1e3, calls_per_s: f64::from(calls) / seconds });
    }
    Ok(replays)
}

async fn replay(stage: &Stage, calls: u32) -> anyhow::Result<Duration> {
    let input = json!({"calls": calls, "hold": HOLD.as_millis()});
    let run = stage.runs.begin(include_str!("replay.ts"), input).await?;
    let read = || async { stage.runs.api.run(&run).await.ok() };
    let left = eventually("the run leaves memory", || async {
        read().await.filter(|run| run.status == RunStatus::Waiting || run.status.ended())
    });
    let left = left.await?;
    ensure!(left.status == RunStatus::Waiting, "the run never left memory: {:?}", left.error);
    stage.runs.completed(&run).await?;
    let last = calls + 2;
    let seen = stage.seen().await?;
    let gap = seen.gaps.iter().find(|gap| gap.seq == last).context("the tools did not see the last call")?;
    Ok(Duration::from_nanos(gap.ns))
}
