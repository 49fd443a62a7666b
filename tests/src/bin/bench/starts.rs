//! Runs that do nothing, from the request that starts them to the answer with their result.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use crate::{options::Options, say, spread::Spread, stage::Stage};

const SCRIPT: &str = "export default async function main() { return 1 }\n";

#[derive(Debug, Serialize)]
pub(crate) struct Start {
    /// `false`: each run has a script that was never seen before, and has to be type-checked.
    pub(crate) cached: bool,
    pub(crate) to_result: Spread,
}

/// # Errors
/// When a run fails.
pub(crate) async fn measure(stage: &Stage, options: &Options) -> anyhow::Result<Vec<Start>> {
    let mut starts = Vec::new();
    for (cached, count) in [(true, options.pick(300, 50)), (false, options.pick(50, 10))] {
        say(&format!(
            "{count} runs that do nothing, {}",
            if cached { "with one script" } else { "each with a new script" }
        ));
        let mut samples = Vec::new();
        for n in 0..count {
            let script = if cached { SCRIPT.to_owned() } else { format!("{SCRIPT}// {n}\n") };
            let took = start_to_result(stage, &script).await?;
            // The first one is checked in either case.
            if n > 0 {
                samples.push(took);
            }
        }
        starts.push(Start { cached, to_result: Spread::of(samples)? });
    }
    Ok(starts)
}

async fn start_to_result(stage: &Stage, script: &str) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let run = stage.runs.begin(script, Value::Null).await?;
    stage.runs.completed(&run).await?;
    Ok(begun.elapsed())
}
