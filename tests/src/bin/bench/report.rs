use std::fmt;

use serde::Serialize;

use crate::{
    chains::Chain,
    limits::Limits,
    memory::Memory,
    replay::Replay,
    spread::time,
    starts::Start,
    table::Table,
    targets::Target,
    usage::{CLIENT, COORDINATOR, NATS, NODE, SANDBOXES, TOOLS},
    waits::Wait,
};

/// Everything that was measured: what is written as JSON, and shown.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) limits: Vec<Limits>,
    pub(crate) chains: Vec<Chain>,
    pub(crate) starts: Vec<Start>,
    pub(crate) memory: Vec<Memory>,
    pub(crate) replays: Vec<Replay>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) targets: Vec<Target>,
    /// That it took.
    pub(crate) seconds: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = [
            self.limits_table(),
            self.chains_table(),
            self.cpu_table(),
            self.starts_table(),
            self.memory_table(),
            self.replay_table(),
            self.waits_table(),
            self.targets_table(),
        ];
        tables.iter().try_for_each(|table| table.fmt(f))
    }
}

impl Report {
    fn limits_table(&self) -> Table {
        let mut table = Table::new(
            "nats-server alone: acknowledged publishes of 512 bytes",
            &["sync", "one at a time, p50", "p99", "200 fenced writers, /s"],
        );
        for Limits { sync, one, fenced_per_s } in &self.limits {
            table.row([sync.to_string(), time(one.p50_us), time(one.p99_us), format!("{fenced_per_s:.0}")]);
        }
        table
    }

    fn chains_table(&self) -> Table {
        let mut table = Table::new(
            "Chains of durable calls (a call: from the tool's answer to the next call; a run: at the client)",
            &["chain", "runs/s", "calls/s", "call p50", "p99", "run p50", "p99", "appends/call", "publish p50"],
        );
        for chain in &self.chains {
            table.row([
                name(chain),
                format!("{:.1}", chain.runs_per_s),
                format!("{:.0}", chain.calls_per_s),
                time(chain.call.p50_us),
                time(chain.call.p99_us),
                time(chain.run.p50_us),
                time(chain.run.p99_us),
                format!("{:.2}", chain.appends_per_call),
                chain.publish.map_or_else(String::new, |publish| time(publish.p50_us)),
            ]);
        }
        table
    }

    fn cpu_table(&self) -> Table {
        const PARTS: [&str; 6] = [NODE, SANDBOXES, NATS, COORDINATOR, TOOLS, CLIENT];
        let mut head = vec!["chain"];
        head.extend(PARTS);
        head.push("all");
        let mut table = Table::new("CPU seconds of 1,000 calls", &head);
        for chain in &self.chains {
            let parts = PARTS.map(|part| chain.cpu.get(part).copied().unwrap_or_default());
            let all = parts.iter().sum();
            let cells = parts.into_iter().chain([all]).map(|seconds| format!("{seconds:.3}"));
            table.row([name(chain)].into_iter().chain(cells));
        }
        table
    }

    fn starts_table(&self) -> Table {
        let mut table = Table::new("A run that does nothing, start to result", &["script", "p50", "p99"]);
        for Start { cached, to_result } in &self.starts {
            let script = if *cached { "the same" } else { "a new one" };
            table.row([script.to_owned(), time(to_result.p50_us), time(to_result.p99_us)]);
        }
        table
    }

    fn memory_table(&self) -> Table {
        let mut table = Table::new("Memory, KiB a run", &["runs", "node", "sandboxes", "coordinator"]);
        for memory in &self.memory {
            let what = if memory.live { "in memory" } else { "asleep" };
            let parts =
                [memory.node, memory.sandboxes, memory.coordinator].map(|bytes| format!("{:.1}", bytes / 1024.0));
            table.row([format!("{} {what}", memory.runs)].into_iter().chain(parts));
        }
        table
    }

    fn replay_table(&self) -> Table {
        let mut table =
            Table::new("Replay, from the waking answer to the next call", &["recorded calls", "ms", "calls/s"]);
        for Replay { calls, ms, calls_per_s } in &self.replays {
            table.row([calls.to_string(), format!("{ms:.1}"), format!("{calls_per_s:.0}")]);
        }
        table
    }

    fn waits_table(&self) -> Table {
        let mut table = Table::new("Waits, at the client", &["what", "p50", "p99"]);
        for Wait { what, took } in &self.waits {
            table.row([what.clone(), time(took.p50_us), time(took.p99_us)]);
        }
        table
    }

    fn targets_table(&self) -> Table {
        let mut table = Table::new("Targets", &["target", "", "measured", "ratio"]);
        for Target { what, measured, ratio, met } in &self.targets {
            let sign = if *met { "✓" } else { "✗" };
            table.row([what.clone(), sign.to_owned(), measured.clone(), format!("{ratio:.2}")]);
        }
        table
    }
}

fn name(Chain { sync, tool, runs, calls, .. }: &Chain) -> String {
    format!("{runs:>3} × {calls:>3} {tool}, {sync}")
}
