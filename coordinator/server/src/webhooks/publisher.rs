//! Tells of what happened: from the journal, by way of the list of runs, into the stream of events. Only the leading
//! coordinator does; that another one thinks it leads costs work only, since the stream takes each event once.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{
    StreamExt, TryStreamExt,
    stream::{self, FuturesUnordered},
};
use rewind_bus::{Bus, BusError, journal::Summary};
use rewind_model::RunId;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    backlog::Backlog,
    event::{Gathered, Tell},
};
use crate::app::App;

/// Runs that are told of at once.
const AT_ONCE: usize = 32;
/// Events of one run on their way at once.
const EVENTS_AT_ONCE: usize = 16;
/// How often what waits is looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often it is written down how far all has been told: what a new leader would look at again.
const CURSOR_EVERY: Duration = Duration::from_secs(1);
/// A run that could not be told of so often in a row is named in the log.
const WORTH_A_WARNING: u32 = 5;
/// No run takes longer: it is tried again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tells, whenever this coordinator leads.
pub(crate) async fn publish(app: Arc<App>, bus: Bus) {
    let mut leads = app.cluster.leads();
    let mut lost = app.cluster.leads();
    loop {
        if leads.wait_for(|leads| *leads).await.is_err() {
            return;
        }
        tokio::select! {
            _ = lost.wait_for(|leads| !*leads) => {}
            failed = lead(&app, &bus) => if let Err(error) = failed {
                tracing::warn!(%error, "events cannot be told; trying again");
            }
        }
        app.projection.end_changes();
        tokio::time::sleep(TICK).await;
    }
}

/// Ends only when NATS holds what this build cannot read.
async fn lead(app: &App, bus: &Bus) -> Result<(), BusError> {
    while !app.projection.caught_up() {
        tokio::time::sleep(TICK).await;
    }
    let cursor = bus.retry("read the cursor", || bus.event_cursor()).await?;
    app.projection.begin_changes(cursor);
    let mut told = ToldRuns { cursor, runs: HashMap::new() };
    let mut backlog = Backlog::default();
    let mut working = FuturesUnordered::new();
    let (mut seen, mut written, mut next_write) = (None, cursor, Instant::now());
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while working.len() < AT_ONCE
            && let Some(run) = backlog.next(Instant::now())
        {
            let row = app.projection.row(&run);
            let before = told.of(&run);
            working.push(async move {
                let done = match &row {
                    Some((_, summary)) => bounded(tell(bus, &run, summary, before)).await,
                    None => Ok((before, true)),
                };
                (run, row, done)
            });
        }
        tokio::select! {
            Some((run, row, done)) = working.next(), if !working.is_empty() => match done {
                Ok((now, all)) => {
                    told.put(&run, row.as_ref().map(|(_, summary)| summary), now);
                    if all { backlog.told(&run) } else { backlog.told_so_far(&run, Instant::now()) }
                }
                Err(error) => {
                    let failures = backlog.failed(&run, Instant::now());
                    if failures == WORTH_A_WARNING {
                        tracing::warn!(%run, %error, "what happened in a run cannot be told; it is tried on");
                    }
                }
            },
            () = app.projection.changes() => {}
            _ = tick.tick() => {}
        }
        let changes = app.projection.take_changes();
        changes.runs.into_iter().for_each(|(run, first)| backlog.add(run, first));
        seen = changes.up_to.or(seen);
        if Instant::now() < next_write {
            continue;
        }
        next_write = Instant::now() + CURSOR_EVERY;
        let up_to = seen.map_or(written, |seen| backlog.told_up_to(seen));
        if up_to > written {
            match bounded(bus.set_event_cursor(up_to)).await {
                Ok(()) => written = up_to,
                Err(error) => tracing::debug!(%error, "how far all is told could not be written down"),
            }
        }
    }
}

async fn bounded<T>(request: impl Future<Output = Result<T, BusError>>) -> Result<T, BusError> {
    tokio::time::timeout(PATIENCE, request).await.unwrap_or_else(|_| {
        Err(BusError::Unavailable { what: "tell of events", why: format!("no answer within {PATIENCE:?}") })
    })
}

/// How much of a run has been told.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// All in messages up to here.
    sequence: u64,
    /// How many parkings those hold, as far as that is known.
    parkings: u32,
}

/// What this leader has told of runs in which calls wait. Of others no more is needed than where it began.
#[derive(Debug)]
struct ToldRuns {
    cursor: u64,
    runs: HashMap<RunId, Told>,
}

impl ToldRuns {
    fn of(&self, run: &RunId) -> Told {
        self.runs.get(run).copied().unwrap_or(Told { sequence: self.cursor, parkings: 0 })
    }

    fn put(&mut self, run: &RunId, summary: Option<&Summary>, told: Told) {
        if summary.is_some_and(|summary| !summary.status.ended()) {
            self.runs.insert(run.clone(), told);
        } else {
            self.runs.remove(run);
        }
    }
}

/// Tells what happened in a run since `before`. `false`: not all that its last summary counts is in the journal yet,
/// since a turn that takes several messages counts in the first what the last one says.
///
/// # Errors
/// When NATS does not answer.
async fn tell(bus: &Bus, run: &RunId, summary: &Summary, before: Told) -> Result<(Told, bool), BusError> {
    let (gathered, complete) = gather(bus, run, summary, before).await?;
    let events = gathered.events(run, summary);
    stream::iter(events.into_iter().map(Ok::<_, BusError>))
        .try_for_each_concurrent(EVENTS_AT_ONCE, |tell| publish_one(bus, tell))
        .await?;
    let told =
        Told { sequence: gathered.sequence.max(before.sequence), parkings: gathered.parkings.max(before.parkings) };
    Ok((told, !complete || gathered.parkings >= summary.parkings))
}

async fn publish_one(bus: &Bus, Tell { namespace, parking, event }: Tell) -> Result<(), BusError> {
    let new = bus.publish_event(namespace.as_deref(), parking, &event).await?;
    if new {
        tracing::debug!(run = %event.run, event = %event.id, kind = %event.kind, "told");
    }
    Ok(())
}

/// Reads as much of the journal as is needed: nothing of it for most runs. `true`: it was read to its end.
async fn gather(bus: &Bus, run: &RunId, summary: &Summary, before: Told) -> Result<(Gathered, bool), BusError> {
    let mut gathered = Gathered::after(before.sequence);
    let read = if summary.parkings > before.parkings {
        bus.read_each(run, |stored| gathered.take(&stored)).await
    } else if summary.webhook {
        let ends = bus.ends(run).await;
        ends.map(|ends| ends.iter().flat_map(|ends| &ends.first.records).for_each(|record| gathered.record(record)))
    } else {
        return Ok((gathered, false));
    };
    match read {
        Ok(()) => Ok((gathered, summary.parkings > before.parkings)),
        Err(error) if error.retryable() => Err(error),
        // Nobody can do more about it; what could be read is told.
        Err(error) => {
            tracing::warn!(%run, %error, "a journal cannot be read; not all that happened may be told");
            Ok((gathered, false))
        }
    }
}
