//! Listening to the nodes, and leading: of all coordinators one assigns shards. That there is one
//! saves work only; two that both think they lead are told apart by the assignment's revision.

use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use futures::StreamExt;
use rewind_bus::{
    Bus, BusError,
    cluster::{ClusterChange, Leader},
};
use rewind_model::NodeId;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{nodes::Nodes, shards::assign};

/// The leader says this often that it is there.
const RENEWAL: Duration = Duration::from_secs(1);
/// A leader that has not done so for this long is followed by another one.
const SUCCESSION: Duration = Duration::from_secs(3);
/// How often silence is looked for.
const TICK: Duration = Duration::from_millis(100);
/// No step waits longer for NATS.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks this long, the process stood still or NATS did not answer: nodes that were not
/// heard meanwhile may well have spoken.
const STANDSTILL: Duration = Duration::from_secs(2);

/// What this coordinator knows of the cluster, for `/readyz`.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    nodes: AtomicUsize,
    leads: watch::Sender<bool>,
}

impl Cluster {
    /// Nodes that were heard living.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Relaxed)
    }

    /// Whether this coordinator leads, as it changes.
    pub(crate) fn leads(&self) -> watch::Receiver<bool> {
        self.leads.subscribe()
    }

    fn say_who_leads(&self, campaign: &Campaign) {
        let leads = campaign.leading.is_some();
        self.leads.send_if_modified(|said| std::mem::replace(said, leads) != leads);
    }

    /// Listens, campaigns and assigns, until the process is told to stop; then makes way for another
    /// leader at once.
    pub(crate) async fn run(&self, bus: &Bus, stopping: &CancellationToken) {
        let mut campaign = Campaign::new();
        let mut nodes = Nodes::default();
        let until_stopped = stopping.run_until_cancelled(async {
            loop {
                if let Err(error) = self.listen(bus, &mut nodes, &mut campaign).await {
                    tracing::debug!(%error, "the cluster cannot be watched; trying again");
                }
                tokio::time::sleep(TICK).await;
            }
        });
        until_stopped.await;
        self.leads.send_replace(false);
        if let Err(error) = campaign.resign(bus).await {
            tracing::debug!(%error, "another coordinator leads only once this one has been silent for a while");
        }
    }

    async fn listen(&self, bus: &Bus, nodes: &mut Nodes, campaign: &mut Campaign) -> Result<(), BusError> {
        let connects = bus.connects();
        nodes.remember(bounded(bus.last_heartbeats()).await?, Instant::now());
        let mut changes = pin!(bounded(bus.watch_cluster()).await?);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        campaign.assignment_may_be_stale = true;
        let mut looked = Instant::now();
        loop {
            tokio::select! {
                // Who was heard while this task waited for NATS is not taken for silent.
                biased;
                change = changes.next() => match change {
                    Some(change) => campaign.assignment_may_be_stale |= take(nodes, change, Instant::now()),
                    None => return Ok(()),
                },
                _ = tick.tick() => {
                    if bus.connects() != connects {
                        // The watcher would notice by itself, but late.
                        return Ok(());
                    }
                    let now = Instant::now();
                    if !bus.connected() || now.saturating_duration_since(looked) > STANDSTILL {
                        nodes.excuse(now);
                    }
                    looked = now;
                    campaign.assignment_may_be_stale |= nodes.expire(now);
                    self.nodes.store(nodes.proven(), Ordering::Relaxed);
                    if let Err(error) = campaign.step(bus, nodes, now).await {
                        tracing::debug!(%error, "leading was interrupted");
                    }
                    self.say_who_leads(campaign);
                }
            }
        }
    }
}

/// `true` when the set of live nodes changed.
fn take(nodes: &mut Nodes, change: ClusterChange, now: Instant) -> bool {
    match change {
        ClusterChange::Node(beat) => nodes.heard(beat, now),
        ClusterChange::NodeGone { name } => nodes.gone(&name),
        ClusterChange::Assignment(_) | ClusterChange::Leader(_) => false,
    }
}

/// This coordinator's part in the question who leads.
#[derive(Debug)]
struct Campaign {
    me: NodeId,
    beat: u64,
    /// Of its own entry, while it leads.
    leading: Option<u64>,
    /// The other leader's last sign, and when it was first seen.
    seen: Option<(NodeId, u64, Instant)>,
    next_at: Instant,
    assignment_may_be_stale: bool,
}

impl Campaign {
    fn new() -> Self {
        Self {
            me: NodeId::random(),
            beat: 0,
            leading: None,
            seen: None,
            next_at: Instant::now(),
            assignment_may_be_stale: true,
        }
    }

    async fn step(&mut self, bus: &Bus, nodes: &Nodes, now: Instant) -> Result<(), BusError> {
        if now >= self.next_at {
            self.next_at = now + RENEWAL;
            match self.leading {
                Some(revision) => self.renew(bus, revision).await?,
                None => self.stand(bus, now).await?,
            }
        }
        if self.leading.is_some() && self.assignment_may_be_stale && bus.connected() {
            self.assignment_may_be_stale = !write_assignment(bus, nodes).await?;
        }
        Ok(())
    }

    async fn renew(&mut self, bus: &Bus, revision: u64) -> Result<(), BusError> {
        let leader = self.next_sign();
        // Without an answer nobody knows: the next step looks who leads.
        self.leading = None;
        self.leading = bounded(bus.lead(&leader, revision)).await?;
        if self.leading.is_none() {
            tracing::info!("another coordinator leads now");
        }
        Ok(())
    }

    /// Becomes the leader if there is none, or if the one there is has been silent for too long.
    async fn stand(&mut self, bus: &Bus, now: Instant) -> Result<(), BusError> {
        let current = bounded(bus.leader()).await?;
        let revision = match &current {
            None => 0,
            Some(current) if current.value.coordinator == self.me || current.value.resigned => current.revision,
            Some(current) => {
                let sign = (current.value.coordinator.clone(), current.value.beat);
                match &self.seen {
                    Some((who, beat, since)) if (who, *beat) == (&sign.0, sign.1) => {
                        if now.saturating_duration_since(*since) < SUCCESSION {
                            return Ok(());
                        }
                    }
                    _ => {
                        self.seen = Some((sign.0, sign.1, now));
                        return Ok(());
                    }
                }
                current.revision
            }
        };
        let leader = self.next_sign();
        self.leading = bounded(bus.lead(&leader, revision)).await?;
        if self.leading.is_some() {
            tracing::info!(coordinator = %self.me, "this coordinator leads");
            self.assignment_may_be_stale = true;
        }
        Ok(())
    }

    async fn resign(&mut self, bus: &Bus) -> Result<(), BusError> {
        let Some(revision) = self.leading.take() else { return Ok(()) };
        let last = Leader { resigned: true, ..self.next_sign() };
        bounded(bus.lead(&last, revision)).await.map(drop)
    }

    fn next_sign(&mut self) -> Leader {
        self.beat += 1;
        Leader { coordinator: self.me.clone(), beat: self.beat, resigned: false }
    }
}

/// `false` when another coordinator wrote at the same time: to be done again.
async fn write_assignment(bus: &Bus, nodes: &Nodes) -> Result<bool, BusError> {
    let current = bounded(bus.assignment()).await?;
    let (current, revision) = current.map(|current| (current.value, current.revision)).unwrap_or_default();
    let live = nodes.live();
    let next = assign(&current, &live);
    if next == current {
        return Ok(true);
    }
    let moved = next.shards.iter().filter(|(shard, owner)| current.shards.get(shard) != Some(owner)).count();
    tracing::info!(nodes = live.len(), moved, "shards change their owners");
    bounded(bus.assign(&next, revision)).await
}

async fn bounded<T>(request: impl Future<Output = Result<T, BusError>>) -> Result<T, BusError> {
    tokio::time::timeout(PATIENCE, request)
        .await
        .unwrap_or_else(|_| Err(BusError::Unavailable { what: "lead", why: format!("no answer within {PATIENCE:?}") }))
}
