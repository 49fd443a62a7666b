//! The list of runs: what the last journal message of each says, kept in memory as it changes.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Bound,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use rewind_bus::{
    Bus, BusError,
    journal::{Followed, Listed, Summary},
};
use rewind_model::{Digest, RunId, RunStatus, Timestamp, ToolsetId};
use tokio::sync::{Notify, oneshot};

use crate::{retention::Retention, webhooks::Webhooks};

/// Before following is begun anew.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a new connection is looked for.
const TICK: Duration = Duration::from_millis(100);

/// Every run of the installation. It sees every append, so it does little with each.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    state: Mutex<State>,
    caught_up: AtomicBool,
    changes: Notify,
}

#[derive(Debug, Default)]
struct State {
    rows: HashMap<RunId, Row>,
    order: BTreeSet<Position>,
    waiting: HashMap<RunId, Vec<oneshot::Sender<()>>>,
    /// Of the last message that following brought.
    seen: u64,
    /// Runs of which something is to be told; none while nobody asks.
    changed: Option<HashMap<RunId, u64>>,
}

/// What has happened since the last look that somebody outside may want to be told.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Runs that ended, or of which a call began to wait for a decision, each with the first sequence at which that
    /// can have been; 0: anywhere.
    pub(crate) runs: HashMap<RunId, u64>,
    /// All that happened up to this sequence has been in some `runs`; `None` while that is not known.
    pub(crate) up_to: Option<u64>,
}

#[derive(Debug)]
struct Row {
    /// Of the journal message that this is of.
    sequence: u64,
    summary: Summary,
}

/// Where a run stands in the list; none changes its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    created_at: Timestamp,
    run: RunId,
}

impl Position {
    pub(crate) fn run(&self) -> &RunId {
        &self.run
    }
}

/// Which runs are asked for. An absent part lets every run pass.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) status: Option<RunStatus>,
    pub(crate) namespace: Option<String>,
    pub(crate) toolset: Option<ToolsetId>,
    /// The run that started it.
    pub(crate) parent: Option<RunId>,
    /// All of them.
    pub(crate) labels: Vec<(String, String)>,
}

impl Filter {
    fn passes(&self, summary: &Summary) -> bool {
        self.status.is_none_or(|status| status == summary.status)
            && self.namespace.as_ref().is_none_or(|namespace| summary.namespace.as_ref() == Some(namespace))
            && self.toolset.as_ref().is_none_or(|toolset| *toolset == summary.toolset)
            && self.parent.as_ref().is_none_or(|parent| summary.parent.as_ref().is_some_and(|key| key.run == *parent))
            && self.labels.iter().all(|(key, value)| summary.labels.get(key) == Some(value))
    }
}

impl Projection {
    /// Follows the journal for ever, beginning anew whenever that ends.
    pub(crate) async fn follow(&self, bus: &Bus) {
        loop {
            if let Err(error) = self.follow_once(bus).await {
                tracing::debug!(%error, "the journal cannot be followed; trying again");
            }
            self.caught_up.store(false, Ordering::Release);
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn follow_once(&self, bus: &Bus) -> Result<(), BusError> {
        let connects = bus.connects();
        let mut journal = std::pin::pin!(bus.follow_journal().await?);
        let mut tick = tokio::time::interval(TICK);
        // The consumer would notice a new connection by itself, after ten seconds and more.
        while bus.connects() == connects {
            let followed = tokio::select! {
                followed = journal.next() => followed,
                _ = tick.tick() => continue,
            };
            match followed {
                Some(Followed::Run(listed)) => self.put(*listed, true),
                Some(Followed::CaughtUp) => self.caught_up.store(true, Ordering::Release),
                Some(Followed::Interrupted(why)) => tracing::debug!(why, "following the journal was interrupted"),
                None => break,
            }
        }
        Ok(())
    }

    /// Has it seen all that there was when following began?
    pub(crate) fn caught_up(&self) -> bool {
        self.caught_up.load(Ordering::Acquire)
    }

    /// Takes what a journal message says of its run, unless a later one is known.
    pub(crate) fn apply(&self, listed: Listed) {
        self.put(listed, false);
    }

    fn put(&self, listed: Listed, followed: bool) {
        let Listed { run, sequence, summary } = listed;
        let mut state = self.lock();
        let state = &mut *state;
        if followed {
            state.seen = state.seen.max(sequence);
        }
        let ended = summary.status.ended();
        if let Some(changed) = &mut state.changed {
            let before = state.rows.get(&run);
            let tells = match before {
                Some(row) if row.sequence >= sequence => false,
                Some(row) => (ended && !row.summary.status.ended()) || summary.parkings > row.summary.parkings,
                None => summary.tells(),
            };
            if tells {
                changed.entry(run.clone()).or_insert(before.map_or(0, |row| row.sequence + 1));
                self.changes.notify_one();
            }
        }
        match state.rows.get_mut(&run) {
            Some(row) if row.sequence >= sequence => return,
            Some(row) => *row = Row { sequence, summary },
            None => {
                state.order.insert(Position { created_at: summary.created_at, run: run.clone() });
                state.rows.insert(run.clone(), Row { sequence, summary });
            }
        }
        if ended {
            for waiting in state.waiting.remove(&run).into_iter().flatten() {
                let _ = waiting.send(());
            }
        }
    }

    /// The newest run with calls that wait for a decision, of those before the one at `after`.
    pub(crate) fn next_parked(&self, namespace: Option<&str>, after: Option<&Position>) -> Option<Position> {
        let state = self.lock();
        let end = after.map_or(Bound::Unbounded, Bound::Excluded);
        let wanted = |summary: &Summary| {
            summary.parked > 0
                && !summary.status.ended()
                && namespace.is_none_or(|namespace| summary.namespace.as_deref() == Some(namespace))
        };
        let mut before = state.order.range((Bound::Unbounded, end)).rev();
        before.find(|position| state.rows.get(&position.run).is_some_and(|row| wanted(&row.summary))).cloned()
    }

    /// Runs whose time is over, the oldest first, at most `most`. One whose parent has not ended is kept: it may
    /// not know yet how it ended.
    pub(crate) fn over(&self, retention: Retention, webhooks: &Webhooks, now: Timestamp, most: usize) -> Vec<RunId> {
        let state = self.lock();
        let over = |row: &Row| {
            let ended_at = row.summary.ended_at;
            let parent = row.summary.parent.as_ref().and_then(|parent| state.rows.get(&parent.run));
            let told = webhooks.may_take(row.summary.webhook);
            ended_at.is_some_and(|ended_at| retention.is_over(row.summary.status, ended_at, told, now))
                && parent.is_none_or(|parent| parent.summary.status.ended())
        };
        let runs = state.order.iter().filter(|position| state.rows.get(&position.run).is_some_and(over));
        runs.map(|position| position.run.clone()).take(most).collect()
    }

    /// The compiled scripts of all runs.
    pub(crate) fn scripts(&self) -> HashSet<Digest> {
        self.lock().rows.values().map(|row| row.summary.script).collect()
    }

    /// The run was purged.
    pub(crate) fn forget(&self, run: &RunId) {
        let mut state = self.lock();
        if let Some(row) = state.rows.remove(run) {
            state.order.remove(&Position { created_at: row.summary.created_at, run: run.clone() });
        }
        state.waiting.remove(run);
    }

    /// Begins to note what is to be told: all of it that is in messages after `cursor`, and from now on.
    pub(crate) fn begin_changes(&self, cursor: u64) {
        let mut state = self.lock();
        let rows = state.rows.iter().filter(|(_, row)| row.sequence > cursor && row.summary.tells());
        state.changed = Some(rows.map(|(run, _)| (run.clone(), 0)).collect());
        self.changes.notify_one();
    }

    /// Nobody asks any more.
    pub(crate) fn end_changes(&self) {
        self.lock().changed = None;
    }

    /// Returns when there is something new for [`Projection::take_changes`].
    pub(crate) async fn changes(&self) {
        self.changes.notified().await;
    }

    pub(crate) fn take_changes(&self) -> Changes {
        let mut state = self.lock();
        let runs = state.changed.as_mut().map(std::mem::take).unwrap_or_default();
        Changes { runs, up_to: self.caught_up().then_some(state.seen) }
    }

    /// The sequence of the run's last message, and what that says.
    pub(crate) fn row(&self, run: &RunId) -> Option<(u64, Summary)> {
        self.lock().rows.get(run).map(|row| (row.sequence, row.summary.clone()))
    }

    /// `None` for a run that it has not seen (yet).
    pub(crate) fn status(&self, run: &RunId) -> Option<RunStatus> {
        self.lock().rows.get(run).map(|row| row.summary.status)
    }

    /// One of the runs that were forked from this one.
    pub(crate) fn a_fork_of(&self, run: &RunId) -> Option<Summary> {
        let state = self.lock();
        let mut summaries = state.rows.values().map(|row| &row.summary);
        summaries.find(|summary| summary.forked_from.as_ref() == Some(run)).cloned()
    }

    /// Returns once the run has ended; at once when it has.
    pub(crate) async fn until_ended(&self, run: &RunId) {
        // Dropped after the receiver, so that it finds the sender without one.
        let _leave = Leave { projection: self, run };
        let receiver = {
            let mut state = self.lock();
            if state.rows.get(run).is_some_and(|row| row.summary.status.ended()) {
                return;
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.entry(run.clone()).or_default().push(sender);
            receiver
        };
        let _ = receiver.await;
    }

    /// Runs, newest first, from after `after` on; and whether there may be more.
    pub(crate) fn list(
        &self,
        filter: &Filter,
        after: Option<&Position>,
        limit: usize,
    ) -> (Vec<(RunId, Summary)>, Option<Position>) {
        let state = self.lock();
        let before = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut page: Vec<(RunId, Summary)> = Vec::new();
        for position in state.order.range((Bound::Unbounded, before)).rev() {
            let Some(row) = state.rows.get(&position.run).filter(|row| filter.passes(&row.summary)) else { continue };
            if page.len() == limit {
                let last =
                    page.last().map(|(run, summary)| Position { created_at: summary.created_at, run: run.clone() });
                return (page, last);
            }
            page.push((position.run.clone(), row.summary.clone()));
        }
        (page, None)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes one who waited out of the list, whether woken or gone.
struct Leave<'a> {
    projection: &'a Projection,
    run: &'a RunId,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut state = self.projection.lock();
        if let Some(waiting) = state.waiting.get_mut(self.run) {
            waiting.retain(|sender| !sender.is_closed());
            if waiting.is_empty() {
                state.waiting.remove(self.run);
            }
        }
    }
}

/// As a cursor: the time in milliseconds and the run.
impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.created_at.unix_ms(), self.run)
    }
}

impl std::str::FromStr for Position {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, &'static str> {
        const NONE: &str = "this is no cursor of this list";
        let (ms, run) = text.split_once('-').ok_or(NONE)?;
        let created_at = Timestamp::from_unix_ms(ms.parse().map_err(|_| NONE)?);
        Ok(Self { created_at, run: run.parse().map_err(|_| NONE)? })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rewind_model::{CallCounts, Digest};

    use super::*;

    fn listed(n: u64, sequence: u64, status: RunStatus) -> Listed {
        let created_at = Timestamp::from_unix_ms(i64::try_from(n / 2).expect("small"));
        let summary = Summary {
            status,
            toolset: ToolsetId::of_bytes(b"t"),
            script: Digest::of("s"),
            namespace: Some(format!("user{}", n % 2)),
            labels: [("n".to_owned(), n.to_string())].into(),
            calls: CallCounts::default(),
            parked: 0,
            parkings: 0,
            deferred: 0,
            parent: None,
            forked_from: None,
            error_code: None,
            webhook: false,
            created_at,
            started_at: None,
            ended_at: None,
        };
        Listed { run: RunId::of_bytes(&n.to_le_bytes()), sequence, summary }
    }

    #[test]
    fn pages_show_each_run_once_newest_first_while_others_are_added() {
        let projection = Projection::default();
        (0..25).for_each(|n| projection.apply(listed(n, n + 1, RunStatus::Running)));
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = projection.list(&Filter::default(), after.as_ref(), 10);
            seen.extend(page.iter().map(|(run, summary)| (summary.created_at, run.clone())));
            let more = 100 + seen.len() as u64;
            projection.apply(listed(more, more, RunStatus::Queued));
            let Some(next) = next else { break };
            after = Some(next.to_string().parse().expect("a cursor"));
        }
        assert_eq!(seen.len(), 25);
        assert!(seen.is_sorted_by(|a, b| a > b));
    }

    #[test]
    fn filters_are_all_to_be_met() {
        let projection = Projection::default();
        (0..10).for_each(|n| {
            projection.apply(listed(n, n + 1, if n < 5 { RunStatus::Failed } else { RunStatus::Running }))
        });
        let count = |filter: Filter| projection.list(&filter, None, 100).0.len();
        let namespace = Some("user0".to_owned());
        assert_eq!(count(Filter { status: Some(RunStatus::Failed), ..Filter::default() }), 5);
        assert_eq!(count(Filter { status: Some(RunStatus::Failed), namespace, ..Filter::default() }), 3);
        assert_eq!(count(Filter { labels: vec![("n".into(), "7".into())], ..Filter::default() }), 1);
        assert_eq!(count(Filter { toolset: Some(ToolsetId::of_bytes(b"other")), ..Filter::default() }), 0);
    }

    #[test]
    fn an_older_message_changes_nothing() {
        let projection = Projection::default();
        projection.apply(listed(1, 9, RunStatus::Completed));
        projection.apply(listed(1, 4, RunStatus::Running));
        assert_eq!(projection.status(&listed(1, 0, RunStatus::Running).run), Some(RunStatus::Completed));
    }

    #[test]
    fn what_is_to_be_told_is_noted_once_with_the_place_from_which_it_can_be() {
        let projection = Projection::default();
        let parked = |n, sequence, parkings| {
            let mut listed = listed(n, sequence, RunStatus::Waiting);
            listed.summary.parkings = parkings;
            listed
        };
        let run = |n| listed(n, 0, RunStatus::Running).run;
        projection.put(listed(1, 1, RunStatus::Completed), true);
        projection.put(listed(2, 5, RunStatus::Completed), true);
        assert!(projection.take_changes().runs.is_empty(), "nobody asked");
        projection.begin_changes(4);
        let changes = projection.take_changes();
        assert_eq!((changes.runs, changes.up_to), ([(run(2), 0)].into(), None));
        projection.caught_up.store(true, Ordering::Release);
        for (sequence, parkings) in [(6, 0), (7, 1), (8, 1), (9, 2)] {
            projection.put(parked(3, sequence, parkings), true);
        }
        let changes = projection.take_changes();
        assert_eq!((changes.runs, changes.up_to), ([(run(3), 7)].into(), Some(9)));
        projection.put(parked(3, 10, 2), true);
        projection.put(listed(3, 11, RunStatus::Failed), true);
        projection.put(listed(3, 11, RunStatus::Failed), true);
        let changes = projection.take_changes();
        assert_eq!((changes.runs, changes.up_to), ([(run(3), 11)].into(), Some(11)));
        assert!(projection.take_changes().runs.is_empty());
    }

    #[tokio::test]
    async fn all_who_wait_are_woken_and_none_is_kept() {
        let projection = Arc::new(Projection::default());
        let run = listed(1, 1, RunStatus::Running).run;
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let (projection, run) = (Arc::clone(&projection), run.clone());
                tokio::spawn(async move { projection.until_ended(&run).await })
            })
            .collect();
        while projection.lock().waiting.get(&run).map(Vec::len) != Some(3) {
            tokio::task::yield_now().await;
        }
        waiting[0].abort();
        while projection.lock().waiting.get(&run).map(Vec::len) != Some(2) {
            tokio::task::yield_now().await;
        }
        projection.apply(listed(1, 2, RunStatus::Running));
        assert_eq!(projection.lock().waiting.len(), 1);
        projection.apply(listed(1, 3, RunStatus::Completed));
        for task in waiting.into_iter().skip(1) {
            task.await.expect("woken");
        }
        projection.until_ended(&run).await;
        assert!(projection.lock().waiting.is_empty());
    }
}
