//! Runs that have ended are kept for a while, and then purged.

use std::time::{Duration, Instant};

use futures::StreamExt;
use rewind_bus::{Bus, BusError};
use rewind_model::{RunStatus, Timestamp, format_duration, parse_duration};

use crate::app::App;

/// Runs that are purged at once.
const AT_ONCE: usize = 8;
/// Runs of one look: others get their turn at the next one.
const BATCH: usize = 1_000;
/// Between two looks, at most.
const LOOK: Duration = Duration::from_secs(60);
const SHORTEST_LOOK: Duration = Duration::from_millis(100);

/// How long a run is kept after its end, by what it ended as.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Retention {
    /// How long completed runs are kept.
    #[arg(long, env = "REWIND_RETAIN_COMPLETED", default_value = "7d", value_parser = parse_duration)]
    retain_completed: Duration,
    /// How long failed runs are kept.
    #[arg(long, env = "REWIND_RETAIN_FAILED", default_value = "7d", value_parser = parse_duration)]
    retain_failed: Duration,
    /// How long cancelled runs are kept.
    #[arg(long, env = "REWIND_RETAIN_CANCELLED", default_value = "7d", value_parser = parse_duration)]
    retain_cancelled: Duration,
    /// How long a compiled script is kept that no run and no workflow has.
    #[arg(long, env = "REWIND_RETAIN_SCRIPTS", default_value = "1d", value_parser = parse_duration)]
    retain_scripts: Duration,
}

impl Retention {
    /// A start within this time of a script's last check finds it in the catalog, and so does the run.
    pub(crate) fn scripts_surely_kept(self) -> Duration {
        self.retain_scripts / 2
    }

    /// `None` for a run that has not ended.
    fn of(self, status: RunStatus) -> Option<Duration> {
        match status {
            RunStatus::Completed => Some(self.retain_completed),
            RunStatus::Failed => Some(self.retain_failed),
            RunStatus::Cancelled => Some(self.retain_cancelled),
            RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => None,
        }
    }

    /// Is the time of a run over that ended so and then? `told`: for how long somebody is being told of it.
    pub(crate) fn is_over(
        self,
        status: RunStatus,
        ended_at: Timestamp,
        told: Option<Duration>,
        now: Timestamp,
    ) -> bool {
        self.of(status).is_some_and(|kept| ended_at.plus(kept.max(told.unwrap_or_default())) <= now)
    }

    fn plus(self, more: Duration) -> Self {
        Self {
            retain_completed: self.retain_completed + more,
            retain_failed: self.retain_failed + more,
            retain_cancelled: self.retain_cancelled + more,
            ..self
        }
    }

    fn look(self) -> Duration {
        let shortest = self.retain_completed.min(self.retain_failed).min(self.retain_cancelled);
        (shortest / 4).clamp(SHORTEST_LOOK, LOOK)
    }
}

/// Purges what is over, for ever. One that does not lead does so later, when the one that does has not; what was
/// purged before costs it a look.
pub(crate) async fn run(app: &App, bus: &Bus, retention: Retention) {
    let days = |duration| format_duration(duration);
    tracing::debug!(
        completed = days(retention.retain_completed),
        failed = days(retention.retain_failed),
        cancelled = days(retention.retain_cancelled),
        "ended runs are kept"
    );
    let mut scripts_at = Instant::now();
    loop {
        tokio::time::sleep(retention.look()).await;
        if !app.projection.caught_up() {
            continue;
        }
        if *app.cluster.leads().borrow() && scripts_at.elapsed() > retention.scripts_surely_kept() {
            scripts_at = Instant::now();
            if let Err(error) = remove_scripts(app, bus, retention).await {
                tracing::debug!(%error, "compiled scripts could not be removed; trying again");
            }
        }
        let late = if *app.cluster.leads().borrow() { Duration::ZERO } else { retention.look() * 3 };
        let over = app.projection.over(retention.plus(late), &app.webhooks, Timestamp::now(), BATCH);
        let purged = futures::stream::iter(over).map(|run| async move {
            match bus.purge_run(&run).await {
                Ok(()) => app.projection.forget(&run),
                // The next look finds it again.
                Err(error) => tracing::debug!(%run, %error, "a run could not be purged; trying again"),
            }
        });
        purged.buffer_unordered(AT_ONCE).collect::<()>().await;
    }
}

/// Removes the compiled scripts that nobody has any more.
async fn remove_scripts(app: &App, bus: &Bus, retention: Retention) -> Result<(), BusError> {
    // Before the runs are looked at: one that is started meanwhile has a script that was checked since.
    let before = Timestamp::now().minus(retention.retain_scripts);
    let scripts = bus.scripts().await?;
    let (of_workflows, of_runs) = (bus.workflow_scripts().await?, app.projection.scripts());
    for script in scripts.into_iter().filter(|script| !of_workflows.contains(script) && !of_runs.contains(script)) {
        bus.remove_script(script, before).await?;
    }
    Ok(())
}

/// Forgets the runs that any coordinator purges, for ever.
pub(crate) async fn follow(app: &App, bus: &Bus) {
    loop {
        let connects = bus.connects();
        if let Ok(purged) = bus.watch_purged().await {
            let mut purged = std::pin::pin!(purged);
            let mut tick = tokio::time::interval(Duration::from_millis(500));
            while bus.connects() == connects {
                tokio::select! {
                    run = purged.next() => match run {
                        Some(run) => app.projection.forget(&run),
                        None => break,
                    },
                    _ = tick.tick() => {}
                }
            }
        }
        tokio::time::sleep(SHORTEST_LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_own_time() {
        let day = Duration::from_secs(86_400);
        let retention = Retention {
            retain_completed: day,
            retain_failed: 2 * day,
            retain_cancelled: Duration::ZERO,
            retain_scripts: day,
        };
        let at = Timestamp::from_unix_ms(0);
        let over = |status, after| retention.is_over(status, at, None, at.plus(after));
        assert!(!over(RunStatus::Completed, day - Duration::from_secs(1)) && over(RunStatus::Completed, day));
        assert!(!over(RunStatus::Failed, day) && over(RunStatus::Failed, 2 * day));
        assert!(over(RunStatus::Cancelled, Duration::ZERO));
        let told = |after| retention.is_over(RunStatus::Cancelled, at, Some(day), at.plus(after));
        assert!(!told(day / 2) && told(day), "somebody is yet to be told of it");
        assert!(!over(RunStatus::Waiting, 1_000 * day) && !over(RunStatus::Queued, 1_000 * day));
    }
}
