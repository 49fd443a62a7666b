//! The node: says that it lives, and owns the shards that it is given for as long as that is heard.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use futures::StreamExt;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use rewind_bus::{
    Bus,
    cluster::{Assignment, ClusterChange, HEARTBEAT, LEASE, NodeHeartbeat},
};
use rewind_dispatch::Dispatcher;
use rewind_model::{Limits, NodeId, Shard};
use rewind_sandbox::{Pool, PoolConfig};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    SANDBOX,
    config::Config,
    context::{Context, Shared},
    library::Library,
    observer::Observer,
    shard::{Arguments as ShardArguments, ShardActor, ShardMessage},
};

/// For what is left to be written down at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Runs that are read and replayed at once.
const LOADING: usize = 16;

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When NATS refuses the node, or a sandbox cannot be started.
pub(crate) async fn serve(config: Config) -> anyhow::Result<()> {
    let _telemetry = config.telemetry.start("rewind-node")?;
    let shutdown = rewind_service::shutdown_signal()?;
    let name = format!("rewind-node {}", config.name);
    let connected = tokio::select! {
        connected = Bus::connect(&config.nats, &name) => connected,
        () = shutdown.cancelled() => return Ok(()),
    };
    let bus = connected.context("connecting to NATS")?;
    let limits = Limits::DEFAULT;
    let executable = std::env::current_exe().context("finding the node's own executable")?;
    let sandboxes = PoolConfig { processes: usize::from(config.sandboxes), ..PoolConfig::new(executable, [SANDBOX]) };
    let pool = Pool::start(sandboxes).await.context("starting the sandboxes")?;
    let (observer, observing) = Observer::start(bus.clone());
    let shared = Arc::new(Shared {
        pool,
        observer,
        dispatcher: Dispatcher::new(bus.clone(), limits, config.allow_stdio, config.schema_age),
        library: Library::new(bus.clone(), limits),
        limits,
        script_limits: config.script_limits(),
        loading: Semaphore::new(LOADING),
        bus,
    });
    let (node, mut stopped) = NodeActor::spawn(None, NodeActor, (shared.clone(), config.name.clone())).await?;
    tokio::select! {
        () = shutdown.cancelled() => {}
        _ = &mut stopped => anyhow::bail!("the node's own actor failed; the log says why"),
    }
    node.send_message(NodeMessage::Leave)?;
    stopped.await?;
    shared.dispatcher.close().await;
    shared.observer.finish().await;
    // NATS may be away.
    let _ = tokio::time::timeout(LAST_WORDS, observing).await;
    shared.bus.flush().await;
    Ok(())
}

#[derive(Debug)]
enum NodeMessage {
    Heartbeat,
    /// A heartbeat that was sent at this moment has been stored.
    Heard {
        beat: u64,
        sent: Instant,
    },
    Assigned(Assignment),
    Leave,
}

struct NodeActor;

#[derive(Debug)]
struct State {
    shared: Arc<Shared>,
    heartbeat: NodeHeartbeat,
    /// Until when the shards are ours, whatever the others do.
    lease: Instant,
    assignment: Assignment,
    shards: HashMap<Shard, Owned>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Owned {
    epoch: u64,
    actor: ActorRef<ShardMessage>,
}

impl Actor for NodeActor {
    type Msg = NodeMessage;
    type State = State;
    type Arguments = (Arc<Shared>, String);

    async fn pre_start(
        &self,
        myself: ActorRef<NodeMessage>,
        (shared, name): (Arc<Shared>, String),
    ) -> Result<State, ActorProcessingErr> {
        let mut tasks = JoinSet::new();
        tasks.spawn(watch(shared.bus.clone(), myself.clone()));
        myself.send_message(NodeMessage::Heartbeat)?;
        myself.send_interval(HEARTBEAT, || NodeMessage::Heartbeat);
        let id = NodeId::random();
        tracing::info!(node = %id, name, "node started");
        Ok(State {
            shared,
            heartbeat: NodeHeartbeat { id, name, beat: 0 },
            lease: Instant::now() + LEASE,
            assignment: Assignment::default(),
            shards: HashMap::new(),
            tasks,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<NodeMessage>,
        message: NodeMessage,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            NodeMessage::Heartbeat => state.heartbeat(&myself).await?,
            NodeMessage::Heard { beat, sent } => {
                if beat <= state.heartbeat.beat {
                    state.lease = state.lease.max(sent + LEASE);
                }
            }
            NodeMessage::Assigned(assignment) => {
                state.assignment = assignment;
                state.follow_assignment(&myself).await?;
            }
            NodeMessage::Leave => {
                state.drop_shards().await;
                if let Err(error) = state.shared.bus.leave(&state.heartbeat).await {
                    tracing::warn!(%error, "the others learn of this node's end when its lease is over");
                }
                myself.stop(None);
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<NodeMessage>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(actor, error) = event {
            tracing::error!(%error, "a shard failed; the node takes it over again");
            state.shards.retain(|_, owned| owned.actor.get_id() != actor.get_id());
            // The runs of the shard were dropped in the middle: as after a lost lease, whoever goes on
            // with them must do so in a later epoch.
            state.become_another(&myself).await?;
        }
        Ok(())
    }
}

impl State {
    async fn heartbeat(&mut self, myself: &ActorRef<NodeMessage>) -> Result<(), ActorProcessingErr> {
        if Instant::now() > self.lease {
            tracing::warn!(node = %self.heartbeat.id, "the lease is over; the node gives its shards up and begins anew");
            self.become_another(myself).await?;
        }
        self.heartbeat.beat += 1;
        let heartbeat = self.heartbeat.clone();
        let bus = self.shared.bus.clone();
        let myself = myself.clone();
        let sent = Instant::now();
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(async move {
            match bus.heartbeat(&heartbeat).await {
                Ok(()) => {
                    let _ = myself.send_message(NodeMessage::Heard { beat: heartbeat.beat, sent });
                }
                Err(error) => tracing::debug!(%error, "a heartbeat was not heard"),
            }
        });
        Ok(())
    }

    /// Gives all shards up and goes on under another id. What was in memory was never anyone's truth;
    /// the shards come back in a later epoch, and with it every run is adopted anew.
    async fn become_another(&mut self, myself: &ActorRef<NodeMessage>) -> Result<(), ActorProcessingErr> {
        self.drop_shards().await;
        self.heartbeat.id = NodeId::random();
        self.heartbeat.beat = 0;
        self.lease = Instant::now() + LEASE;
        self.follow_assignment(myself).await
    }

    async fn drop_shards(&mut self) {
        for (_, owned) in self.shards.drain() {
            owned.actor.kill();
        }
    }

    async fn follow_assignment(&mut self, myself: &ActorRef<NodeMessage>) -> Result<(), ActorProcessingErr> {
        let mine: HashMap<Shard, u64> = self
            .assignment
            .shards
            .iter()
            .filter(|(_, owner)| owner.node == self.heartbeat.id)
            .map(|(shard, owner)| (*shard, owner.epoch))
            .collect();
        self.shards.retain(|shard, owned| {
            let kept = mine.get(shard) == Some(&owned.epoch);
            if !kept {
                owned.actor.kill();
            }
            kept
        });
        for (shard, epoch) in mine {
            if self.shards.contains_key(&shard) {
                continue;
            }
            let context = Context { id: self.heartbeat.id.clone(), shared: self.shared.clone() };
            let arguments = ShardArguments { context, shard, epoch };
            let (actor, _) = ShardActor::spawn_linked(None, ShardActor, arguments, myself.get_cell()).await?;
            self.shards.insert(shard, Owned { epoch, actor });
        }
        Ok(())
    }
}

/// Follows the assignment for as long as the node lives.
async fn watch(bus: Bus, node: ActorRef<NodeMessage>) {
    loop {
        match bus.watch_cluster().await {
            Ok(changes) => {
                futures::pin_mut!(changes);
                while let Some(change) = changes.next().await {
                    if let ClusterChange::Assignment(assignment) = change
                        && node.send_message(NodeMessage::Assigned(assignment)).is_err()
                    {
                        return;
                    }
                }
            }
            Err(error) => tracing::debug!(%error, "watching the cluster failed"),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
