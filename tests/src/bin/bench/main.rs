//! `make bench`: what a durable call costs here, against the limits of the same machine.
//!
//! Absolute figures belong to the machine and to what else it does. The ratios are what to look at:
//! every call is held against one publish of the same nats-server, measured in the same seconds.

#![expect(clippy::print_stdout, reason = "a benchmark is what it prints")]

mod chains;
mod gaps;
mod limits;
mod load;
mod memory;
mod options;
mod replay;
mod report;
mod spread;
mod stage;
mod starts;
mod table;
mod targets;
mod tools;
mod usage;
mod waits;

use std::time::Instant;

use anyhow::Context;
use clap::Parser;

use options::{Options, Section};
use report::Report;
use stage::{Stage, Sync};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // This program again, in a process of its own: see `stage`.
    if let Ok(nats) = std::env::var(tools::NATS) {
        return tools::serve(nats).await;
    }
    let options = Options::parse();
    let begun = Instant::now();
    let mut report = Report::default();
    let outcome = measure(&options, &mut report).await;
    report.seconds = begun.elapsed().as_secs();
    report.targets = targets::of(&report);
    // What was measured before something failed is worth seeing, too.
    println!("{report}");
    let path = options.json();
    std::fs::write(&path, serde_json::to_vec_pretty(&report)?)
        .with_context(|| format!("writing {}", path.display()))?;
    println!("{} s; written to {}", report.seconds, path.display());
    outcome
}

async fn measure(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for sync in options.syncs() {
        if !(options.wants(Section::Limits) || options.wants(Section::Chains)) {
            continue;
        }
        let mut stage = Stage::start(sync).await?;
        if options.wants(Section::Limits) {
            say(&format!("limits of nats-server, sync {sync}"));
            report.limits.push(limits::measure(&stage, options).await?);
        }
        if options.wants(Section::Chains) {
            chains::measure(&stage, options, &mut report.chains).await?;
        }
        stage.stop().await?;
    }
    // Memory is measured on systems that have done nothing before: what an allocator keeps would hide it.
    if options.wants(Section::Memory) {
        report.memory = memory::measure(options).await?;
    }
    if [Section::Starts, Section::Replay, Section::Waits].into_iter().any(|section| options.wants(section)) {
        let mut stage = Stage::start(Sync::Default).await?;
        if options.wants(Section::Starts) {
            report.starts = starts::measure(&stage, options).await?;
        }
        if options.wants(Section::Replay) {
            report.replays = replay::measure(&stage, options).await?;
        }
        if options.wants(Section::Waits) {
            report.waits = waits::measure(&stage, options).await?;
        }
        stage.stop().await?;
    }
    Ok(())
}

/// What is being measured now, for whoever waits.
fn say(what: &str) {
    println!("… {what}");
}
