//! Scripts that make one call after the other, many of them at a time.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::json;

use crate::{
    limits,
    load::{Ended, Load},
    options::Options,
    say,
    spread::Spread,
    stage::{Stage, Sync},
    usage::Usages,
};

/// Runs whose journals are looked at.
const SAMPLED: usize = 20;
const LONGEST_WINDOW: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tool {
    Host,
    Mcp,
}

impl Tool {
    fn script(self) -> &'static str {
        match self {
            Tool::Host => include_str!("chain_host.ts"),
            Tool::Mcp => include_str!("chain_mcp.ts"),
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tool::Host => "host",
            Tool::Mcp => "MCP",
        })
    }
}

/// What was measured of one kind of chain.
#[derive(Debug, Serialize)]
pub(crate) struct Chain {
    pub(crate) sync: Sync,
    pub(crate) tool: Tool,
    /// Runs at a time.
    pub(crate) runs: usize,
    /// Of one run.
    pub(crate) calls: u32,
    pub(crate) runs_per_s: f64,
    pub(crate) calls_per_s: f64,
    /// From a tool's answer to the next call, as the tool saw it: its own time is not in it.
    pub(crate) call: Spread,
    /// From the request that started the run to the answer that it has ended, as its client saw it.
    pub(crate) run: Spread,
    /// Journal messages of a run, by its calls.
    pub(crate) appends_per_call: f64,
    /// CPU seconds of 1,000 calls, by part.
    pub(crate) cpu: BTreeMap<&'static str, f64>,
    /// One acknowledged publish in the same seconds, without Rewind; for single runs only.
    pub(crate) publish: Option<Spread>,
}

/// # Errors
/// When a run fails, or a part of the system is gone.
pub(crate) async fn measure(stage: &Stage, options: &Options, chains: &mut Vec<Chain>) -> anyhow::Result<()> {
    for tool in [Tool::Host, Tool::Mcp] {
        for runs in options.pick(vec![1, 50, 200], vec![1, 50]) {
            chains.push(chain(stage, options, tool, runs, 10).await?);
        }
    }
    // The same with less starting of runs in it. Where every append waits for the disk, such a run takes
    // longer than a window.
    if !options.quick && stage.sync == Sync::Default {
        for tool in [Tool::Host, Tool::Mcp] {
            chains.push(chain(stage, options, tool, 200, 100).await?);
        }
    }
    Ok(())
}

async fn chain(stage: &Stage, options: &Options, tool: Tool, runs: usize, calls: u32) -> anyhow::Result<Chain> {
    say(&format!("{runs} runs at a time of {calls} {tool} calls, sync {}", stage.sync));
    let before = if runs == 1 { Some(limits::one_publish(stage, options.window() / 8).await?) } else { None };
    let input = json!({"calls": calls});
    // The first run of a script is type-checked.
    stage.runs.completed(&stage.runs.begin(tool.script(), input.clone()).await?).await?;
    let load = Load::begin(&stage.runs, runs, tool.script(), &input);
    tokio::time::sleep(options.warm_up()).await;
    let window = Window::open(stage, &load).await?;
    tokio::time::sleep(options.window()).await;
    // On a slow machine a window may be shorter than a run.
    while !load.any_ended() && window.begun.elapsed() < LONGEST_WINDOW {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let seen = window.close(stage, &load).await?;
    load.finish().await?;
    let publish = match before {
        Some(before) => Some(mean(before, limits::one_publish(stage, options.window() / 8).await?)),
        None => None,
    };
    let per_1000 = |seconds: f64| seconds / seen.calls as f64 * 1_000.0;
    Ok(Chain {
        sync: stage.sync,
        tool,
        runs,
        calls,
        runs_per_s: seen.ended.len() as f64 / seen.seconds,
        calls_per_s: seen.calls as f64 / seen.seconds,
        call: Spread::of(seen.gaps)?,
        appends_per_call: appends(stage, &seen.ended).await? / f64::from(calls),
        run: Spread::of(seen.ended.iter().map(|ended| ended.took))?,
        cpu: seen.cpu.into_iter().map(|(part, seconds)| (part, per_1000(seconds))).collect(),
        publish,
    })
}

/// Mean number of journal messages of some of these runs.
async fn appends(stage: &Stage, ended: &[Ended]) -> anyhow::Result<f64> {
    let sampled = &ended[..ended.len().min(SAMPLED)];
    let mut appends = 0;
    for ended in sampled {
        appends += stage.runs.api.journal(&ended.run).await?.appends;
    }
    Ok(appends as f64 / sampled.len().max(1) as f64)
}

fn mean(one: Spread, other: Spread) -> Spread {
    Spread {
        samples: one.samples + other.samples,
        p50_us: f64::midpoint(one.p50_us, other.p50_us),
        p99_us: f64::midpoint(one.p99_us, other.p99_us),
    }
}

/// A time during which a load that is under way is watched.
struct Window {
    begun: Instant,
    usage: Usages,
}

struct Seen {
    seconds: f64,
    calls: u64,
    gaps: Vec<Duration>,
    ended: Vec<Ended>,
    cpu: BTreeMap<&'static str, f64>,
}

impl Window {
    async fn open(stage: &Stage, load: &Load) -> anyhow::Result<Self> {
        stage.seen().await?;
        load.ended();
        Ok(Self { begun: Instant::now(), usage: stage.usage()? })
    }

    async fn close(self, stage: &Stage, load: &Load) -> anyhow::Result<Seen> {
        let usage = stage.usage()?;
        let ended = load.ended();
        let seconds = self.begun.elapsed().as_secs_f64();
        let seen = stage.seen().await?;
        let used = |part: &str| usage.get(part).map_or(0.0, |usage| usage.cpu);
        let cpu = self.usage.iter().map(|(part, before)| (*part, used(part) - before.cpu)).collect();
        let gaps = seen.gaps.iter().map(|gap| Duration::from_nanos(gap.ns)).collect();
        Ok(Seen { seconds, calls: seen.calls, gaps, ended, cpu })
    }
}
