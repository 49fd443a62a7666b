use std::{fs, io, time::Duration};

/// What the kernel has counted for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    /// User and system, since its start; exact to a tick, 10 ms as a rule.
    pub(super) cpu: Duration,
    /// Bytes.
    pub(super) resident: u64,
}

impl Usage {
    /// # Errors
    /// When there is no such process, or no `/proc`.
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
            .ok_or_else(|| io::Error::other("/proc/<pid>/stat has another format"))
    }

    /// Fields 14, 15 and 24. Source: proc_pid_stat(5).
    fn parse(stat: &str) -> Option<Self> {
        // The second field is the command in parentheses, and may hold anything.
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
        let user: u64 = fields.nth(11)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        let pages: u64 = fields.nth(8)?.parse().ok()?;
        let ticks = user.saturating_add(system);
        Some(Self {
            cpu: Duration::from_millis(ticks.saturating_mul(1_000) / constant(libc::_SC_CLK_TCK)),
            resident: pages.saturating_mul(constant(libc::_SC_PAGESIZE)),
        })
    }
}

fn constant(name: libc::c_int) -> u64 {
    // SAFETY: sysconf may be asked for any name.
    u64::try_from(unsafe { libc::sysconf(name) }).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_command_name() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4194304 1 0 0 0 150 50 0 0 20 0 1 0 5 1000 3 18446744073709551615";
        let usage = Usage::parse(stat).expect("fields");
        assert_eq!(usage.cpu, Duration::from_millis(200_000 / constant(libc::_SC_CLK_TCK)));
        assert_eq!(usage.resident, 3 * constant(libc::_SC_PAGESIZE));
        assert!(Usage::of(std::process::id()).expect("this process").resident > 0);
    }
}
