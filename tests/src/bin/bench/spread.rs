use std::{fmt, time::Duration};

use serde::Serialize;

/// How samples of a time are spread, microseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) samples: usize,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

impl Spread {
    /// # Errors
    /// Of nothing there is no spread.
    pub(crate) fn of(samples: impl IntoIterator<Item = Duration>) -> anyhow::Result<Self> {
        let mut samples: Vec<Duration> = samples.into_iter().collect();
        samples.sort_unstable();
        anyhow::ensure!(!samples.is_empty(), "nothing was measured");
        let at = |percent: usize| samples[(samples.len() * percent / 100).min(samples.len() - 1)].as_secs_f64() * 1e6;
        Ok(Self { samples: samples.len(), p50_us: at(50), p99_us: at(99) })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {}, p99 {}", time(self.p50_us), time(self.p99_us))
    }
}

pub(crate) fn time(us: f64) -> String {
    match us {
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 100_000.0 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.0} ms", us / 1e3),
    }
}
