//! What the figures are to be. Each is met when its ratio to the goal is 1 or better.

use serde::Serialize;

use crate::{
    chains::{Chain, Tool},
    report::Report,
    spread::time,
    stage::Sync,
};

/// Publishes that one durable call may take as long as.
const PUBLISHES_A_CALL: f64 = 3.0;
const APPENDS_A_CALL: f64 = 1.2;
const HOST_CALLS_PER_S: f64 = 5_000.0;
const CACHED_START_US: f64 = 10_000.0;
const REPLAYED_PER_S: f64 = 20_000.0;
const LIVE_RUN_BYTES: f64 = 400.0 * 1024.0;

#[derive(Debug, Serialize)]
pub(crate) struct Target {
    pub(crate) what: String,
    pub(crate) measured: String,
    /// Of the figure to its goal, such that more than 1 misses it.
    pub(crate) ratio: f64,
    pub(crate) met: bool,
}

/// Those that something was measured of.
pub(crate) fn of(report: &Report) -> Vec<Target> {
    let mut targets = Vec::new();
    for sync in [Sync::Default, Sync::Always] {
        let single = find(report, sync, Tool::Mcp, 1);
        if let Some((chain, publish)) = single.and_then(|chain| Some((chain, chain.publish?))) {
            let measured = format!("{} by {}", time(chain.call.p50_us), time(publish.p50_us));
            let ratio = chain.call.p50_us / (PUBLISHES_A_CALL * publish.p50_us);
            targets.push(target(
                format!("a durable MCP call takes ≤ {PUBLISHES_A_CALL} publishes (p50, sync {sync})"),
                measured,
                ratio,
            ));
        }
    }
    if let Some(most) = report.chains.iter().map(|chain| chain.appends_per_call).reduce(f64::max) {
        let what = format!("a sequential call costs ≤ {APPENDS_A_CALL} appends");
        targets.push(target(what, format!("{most:.2}"), most / APPENDS_A_CALL));
    }
    if let Some(chain) = find(report, Sync::Default, Tool::Host, 200) {
        let what = format!("200 runs make ≥ {HOST_CALLS_PER_S} host calls/s (sync default)");
        targets.push(target(what, format!("{:.0}/s", chain.calls_per_s), HOST_CALLS_PER_S / chain.calls_per_s));
    }
    if let Some(start) = report.starts.iter().find(|start| start.cached) {
        let what = format!("a cached run takes < {} to its result (p50)", time(CACHED_START_US));
        targets.push(target(what, time(start.to_result.p50_us), start.to_result.p50_us / CACHED_START_US));
    }
    for replay in &report.replays {
        let what = format!("replay of {} calls runs at ≥ {REPLAYED_PER_S} calls/s", replay.calls);
        targets.push(target(what, format!("{:.0}/s", replay.calls_per_s), REPLAYED_PER_S / replay.calls_per_s));
    }
    if let Some(memory) = report.memory.iter().find(|memory| memory.live) {
        let what = format!("a run in memory takes ≤ {} KiB", LIVE_RUN_BYTES / 1024.0);
        targets.push(target(what, format!("{:.0} KiB", memory.worker() / 1024.0), memory.worker() / LIVE_RUN_BYTES));
    }
    targets
}

fn find(report: &Report, sync: Sync, tool: Tool, runs: usize) -> Option<&Chain> {
    report.chains.iter().find(|chain| (chain.sync, chain.tool, chain.runs) == (sync, tool, runs))
}

fn target(what: String, measured: String, ratio: f64) -> Target {
    // Ratios of counts such as 12 / 10 are exact in decimal only.
    Target { what, measured, ratio, met: ratio <= 1.0 + 1e-9 }
}
