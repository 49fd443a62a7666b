//! What the kernel has counted for processes.

use std::{collections::BTreeMap, fs};

use anyhow::Context;
use rewind_tests::Pids;

/// Of one process, or several together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// Seconds, user and system; exact to a tick, 10 ms as a rule.
    pub(crate) cpu: f64,
    /// Resident bytes.
    pub(crate) resident: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.resident += other.resident;
    }
}

/// By part of the system.
pub(crate) type Usages = BTreeMap<&'static str, Usage>;

pub(crate) const NODE: &str = "node";
pub(crate) const SANDBOXES: &str = "sandboxes";
pub(crate) const COORDINATOR: &str = "coordinator";
pub(crate) const NATS: &str = "nats";
pub(crate) const TOOLS: &str = "tools";
/// This process, which is the harness.
pub(crate) const CLIENT: &str = "client";

/// All parts of a system, and those around it.
///
/// # Errors
/// When one of them is gone.
pub(crate) fn of_system(pids: &Pids, tools: u32) -> anyhow::Result<Usages> {
    let mut usages = Usages::new();
    let mut add = |part, pid| {
        *usages.entry(part).or_default() += of(pid)?.1;
        anyhow::Ok(())
    };
    add(NATS, pids.nats)?;
    add(COORDINATOR, pids.coordinator)?;
    add(TOOLS, tools)?;
    add(CLIENT, std::process::id())?;
    for node in &pids.nodes {
        add(NODE, *node)?;
        for child in children(*node)? {
            add(SANDBOXES, child)?;
        }
    }
    Ok(usages)
}

fn children(parent: u32) -> anyhow::Result<Vec<u32>> {
    let names = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = names.filter_map(|name| name.parse().ok());
    // Other processes come and go.
    Ok(pids.filter(|pid| of(*pid).is_ok_and(|(of_whom, _)| of_whom == parent)).collect())
}

/// The process's parent, and its usage. Fields 4, 14, 15 and 24 of proc_pid_stat(5).
fn of(pid: u32) -> anyhow::Result<(u32, Usage)> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("the usage of process {pid}"))?;
    parse(&stat).with_context(|| format!("/proc/{pid}/stat has another format"))
}

fn parse(stat: &str) -> Option<(u32, Usage)> {
    // The second field is the command in parentheses, and may hold anything.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().collect();
    let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    let cpu = (number(14)? + number(15)?) as f64 / constant(libc::_SC_CLK_TCK) as f64;
    let resident = number(24)? * constant(libc::_SC_PAGESIZE);
    Some((u32::try_from(number(4)?).ok()?, Usage { cpu, resident }))
}

fn constant(name: libc::c_int) -> u64 {
    // SAFETY: sysconf may be asked for any name.
    u64::try_from(unsafe { libc::sysconf(name) }).unwrap_or(1).max(1)
}
