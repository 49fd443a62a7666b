use std::{path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

use crate::stage::Sync;

/// Measures Rewind on this machine. Runs `rewind dev` in a folder of its own, on loopback.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// What to measure; everything by default.
    #[arg(value_enum)]
    sections: Vec<Section>,
    /// Less of everything, in under a minute: shows that it works, not how fast.
    #[arg(long)]
    pub(crate) quick: bool,
    /// When appends reach the disk: measures both by default.
    #[arg(long, value_enum)]
    sync: Option<Sync>,
    /// Where the figures go, as JSON. Default `target/bench.json`.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// Publishing to nats-server, without Rewind.
    Limits,
    /// Durable calls one after the other.
    Chains,
    /// Runs that do nothing, start to result.
    Starts,
    /// Of a run in memory, and of one that sleeps.
    Memory,
    /// Recorded calls, until the script is where it was.
    Replay,
    /// Approvals, workflows, forks.
    Waits,
}

impl Options {
    pub(crate) fn wants(&self, section: Section) -> bool {
        self.sections.is_empty() || self.sections.contains(&section)
    }

    pub(crate) fn syncs(&self) -> Vec<Sync> {
        self.sync.map_or_else(|| vec![Sync::Default, Sync::Always], |sync| vec![sync])
    }

    pub(crate) fn json(&self) -> PathBuf {
        let default = || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench.json");
        self.json.clone().unwrap_or_else(default)
    }

    /// Before a window, so that connections and caches are there.
    pub(crate) fn warm_up(&self) -> Duration {
        Duration::from_millis(if self.quick { 300 } else { 1_000 })
    }

    /// In which one figure is measured.
    pub(crate) fn window(&self) -> Duration {
        Duration::from_millis(if self.quick { 1_000 } else { 4_000 })
    }

    /// `quick` where that is asked for, `full` otherwise.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}
