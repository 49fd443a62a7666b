//! One actor a shard: takes the shard over, hands commands to its runs, and looks from time to time
//! whether one has been forgotten.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use futures::StreamExt;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use rewind_bus::{
    command::{Command, Delivered},
    journal::{Listed, Summary},
};
use rewind_model::{RunId, RunStatus, Shard};
use tokio::task::JoinSet;

use crate::{
    context::Context,
    failing::Failing,
    run::{Arguments as RunArguments, Begin, Mail, Mailbox, RunActor, RunMessage},
};

/// How often a shard looks for runs that nothing would wake.
const SWEEP: Duration = Duration::from_secs(30);
/// How often a shard looks whether its connection is a new one.
const RECONNECTED: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(crate) enum ShardMessage {
    TakeOver,
    Command(Box<Delivered>),
    /// The consumer is gone: it has to be made anew, if the shard is still ours.
    CommandsEnded,
    Sweep,
    /// The run needs no memory.
    Forget {
        run: RunId,
        actor: ActorId,
        /// How much mail it had taken by then.
        heard: u64,
    },
    /// Something of the run came into its journal, after it had failed here.
    WentOn {
        run: RunId,
    },
    BeginAgain {
        run: RunId,
    },
}

pub(crate) struct ShardActor;

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) context: Context,
    pub(crate) shard: Shard,
    pub(crate) epoch: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    context: Context,
    shard: Shard,
    epoch: u64,
    runs: HashMap<RunId, Live>,
    by_actor: HashMap<ActorId, RunId>,
    /// Runs that were without a wake source at the last sweep: only the second time is one forgotten,
    /// since a run that is just being woken is without, too.
    suspects: Vec<RunId>,
    failing: Failing,
    pumps: JoinSet<()>,
}

#[derive(Debug)]
struct Live {
    actor: ActorRef<RunMessage>,
    mailbox: Mailbox,
}

impl Actor for ShardActor {
    type Msg = ShardMessage;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(&self, myself: ActorRef<ShardMessage>, given: Arguments) -> Result<State, ActorProcessingErr> {
        let Arguments { context, shard, epoch } = given;
        myself.send_message(ShardMessage::TakeOver)?;
        myself.send_interval(SWEEP, || ShardMessage::Sweep);
        Ok(State {
            context,
            shard,
            epoch,
            runs: HashMap::new(),
            by_actor: HashMap::new(),
            suspects: Vec::new(),
            failing: Failing::default(),
            pumps: JoinSet::new(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<ShardMessage>,
        message: ShardMessage,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ShardMessage::TakeOver => state.take_over(&myself).await?,
            ShardMessage::Command(delivered) => state.command(&myself, *delivered).await?,
            ShardMessage::CommandsEnded => state.take_commands(&myself).await?,
            ShardMessage::Sweep => state.sweep(&myself).await?,
            ShardMessage::Forget { run, actor, heard } => state.forget(&run, actor, heard),
            ShardMessage::WentOn { run } => state.failing.remove(&run),
            ShardMessage::BeginAgain { run } => {
                let mailbox = state.failing.begin(&run).unwrap_or_default();
                if !state.runs.contains_key(&run) {
                    state.begin(&myself, run, Begin::Again, mailbox).await?;
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<ShardMessage>,
        event: SupervisionEvent,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(actor, error) => {
                if let Some(run) = state.remove(actor.get_id()) {
                    tracing::error!(%run, %error, "a run failed in this node; it is begun again from its journal");
                    let wait = state.failing.add(run.clone());
                    myself.send_after(wait, || ShardMessage::BeginAgain { run });
                }
            }
            SupervisionEvent::ActorTerminated(actor, ..) => {
                state.remove(actor.get_id());
            }
            _ => {}
        }
        Ok(())
    }
}

impl State {
    /// The consumer first: it ends the old owner's, and brings what that one took and did not finish.
    async fn take_over(&mut self, myself: &ActorRef<ShardMessage>) -> Result<(), ActorProcessingErr> {
        self.take_commands(myself).await?;
        let bus = &self.context.bus;
        let runs = bus.retry("list runs", || bus.list_shard(self.shard)).await?;
        let sources = bus.retry("list wake sources", || bus.wake_sources(self.shard)).await?;
        for Listed { run, summary, .. } in runs {
            let begin = match summary.status {
                RunStatus::Queued | RunStatus::Running => Begin::Journal,
                RunStatus::Waiting if !self.is_awaited(&run, &summary, &sources) => Begin::Again,
                RunStatus::Waiting | RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => continue,
            };
            if !self.runs.contains_key(&run) {
                self.begin(myself, run, begin, Mailbox::default()).await?;
            }
        }
        tracing::debug!(shard = %self.shard, epoch = self.epoch, runs = self.runs.len(), "took the shard over");
        Ok(())
    }

    async fn take_commands(&mut self, myself: &ActorRef<ShardMessage>) -> Result<(), ActorProcessingErr> {
        let bus = self.context.bus.clone();
        let connects = bus.connects();
        let commands = bus.retry("take commands", || bus.take_commands(self.shard)).await?;
        let myself = myself.clone();
        let shard = self.shard;
        while self.pumps.try_join_next().is_some() {}
        self.pumps.spawn(async move {
            futures::pin_mut!(commands);
            let mut look = tokio::time::interval(RECONNECTED);
            // What was sent on a connection that broke would come again only when its time to be
            // acknowledged is over; a consumer that is made anew brings it at once.
            while bus.connects() == connects {
                let command = tokio::select! {
                    command = commands.next() => command,
                    _ = look.tick() => continue,
                };
                match command {
                    Some(Ok(delivered)) => {
                        if myself.send_message(ShardMessage::Command(Box::new(delivered))).is_err() {
                            return;
                        }
                    }
                    Some(Err(error)) => tracing::debug!(%shard, error, "taking commands was interrupted"),
                    None => break,
                }
            }
            // While another node's consumer stands in its place, making ours again would steal the
            // commands back: the node looks at its lease more often than this.
            tokio::time::sleep(Duration::from_secs(2)).await;
            let _ = myself.send_message(ShardMessage::CommandsEnded);
        });
        Ok(())
    }

    async fn command(
        &mut self,
        myself: &ActorRef<ShardMessage>,
        delivered: Delivered,
    ) -> Result<(), ActorProcessingErr> {
        let Delivered { run, command, ack } = delivered;
        let (mail, begin) = match command {
            Ok(Command::Start { sequence, entry }) => (Mail::Look { ack }, Begin::Created { sequence, entry }),
            Ok(Command::Wake { seq: Some(seq) }) => (Mail::Wake { seq, ack }, Begin::Journal),
            Ok(Command::Wake { seq: None }) => (Mail::Look { ack }, Begin::Again),
            Ok(Command::Answer(answer)) => (Mail::Answer { answer, ack }, Begin::Journal),
            Ok(Command::Deferred { seq, attempt }) => (Mail::Deferred { seq, attempt, ack }, Begin::Journal),
            Ok(Command::Decide { seq, verdict }) => (Mail::Decide { seq, verdict, ack }, Begin::Journal),
            Ok(Command::Cancel) => (Mail::Cancel { ack }, Begin::Journal),
            Err(why) => {
                tracing::error!(%run, why, "a command that this build cannot read was dropped");
                ack.done().await;
                return Ok(());
            }
        };
        match self.runs.get(&run) {
            Some(live) => {
                if live.mailbox.put(mail) {
                    let _ = live.actor.send_message(RunMessage::Mail);
                }
            }
            None => {
                let Some(mail) = self.failing.keep(&run, mail) else { return Ok(()) };
                let mailbox = Mailbox::default();
                // The run begins with whatever is in its box.
                let _ = mailbox.put(mail);
                let begin = if self.failing.contains(&run) { Begin::Again } else { begin };
                self.begin(myself, run, begin, mailbox).await?;
            }
        }
        Ok(())
    }

    async fn begin(
        &mut self,
        myself: &ActorRef<ShardMessage>,
        run: RunId,
        begin: Begin,
        mailbox: Mailbox,
    ) -> Result<(), ActorProcessingErr> {
        let arguments = RunArguments {
            context: self.context.clone(),
            epoch: self.epoch,
            run: run.clone(),
            mailbox: mailbox.clone(),
            shard: myself.clone(),
            begin,
            failed: self.failing.contains(&run),
        };
        let (actor, _) = RunActor::spawn_linked(None, RunActor, arguments, myself.get_cell()).await?;
        self.by_actor.insert(actor.get_id(), run.clone());
        self.runs.insert(run, Live { actor, mailbox });
        Ok(())
    }

    /// Mail goes to a run only from here and from its own tasks, so a run that has got none since it
    /// asked, and that is no longer known here, gets none any more. That its box is empty would not do:
    /// it may have taken mail since, and be at work again.
    fn forget(&mut self, run: &RunId, actor: ActorId, heard: u64) {
        let Some(live) = self.runs.get(run) else { return };
        if live.actor.get_id() == actor && live.mailbox.received() == heard {
            let _ = live.actor.send_message(RunMessage::Stop);
            self.remove(actor);
        }
    }

    /// Is there something in a stream for each call that a waiting run waits for? Calls over the
    /// in-flight limit wait for other calls, parked ones for somebody's decision, deferred ones for their workers.
    fn is_awaited(&self, run: &RunId, summary: &Summary, sources: &BTreeMap<RunId, usize>) -> bool {
        let with_others = summary.parked + summary.deferred;
        let calls = usize::try_from(summary.calls.outstanding.saturating_sub(with_others)).unwrap_or(usize::MAX);
        if calls == 0 && with_others > 0 {
            return true;
        }
        let least = calls.clamp(1, self.context.limits.calls_in_flight);
        sources.get(run).is_some_and(|found| *found >= least)
    }

    fn remove(&mut self, actor: ActorId) -> Option<RunId> {
        let run = self.by_actor.remove(&actor)?;
        self.runs.remove(&run);
        Some(run)
    }

    /// Every run that is not over must have something that will wake it.
    async fn sweep(&mut self, myself: &ActorRef<ShardMessage>) -> Result<(), ActorProcessingErr> {
        let bus = &self.context.bus;
        let (runs, sources) = match (bus.list_shard(self.shard).await, bus.wake_sources(self.shard).await) {
            (Ok(runs), Ok(sources)) => (runs, sources),
            // The next sweep will do.
            (Err(_), _) | (_, Err(_)) => return Ok(()),
        };
        let forgotten = |Listed { run, summary, .. }: &Listed| match summary.status {
            _ if self.runs.contains_key(run) || self.failing.is_left_alone(run) => false,
            RunStatus::Queued | RunStatus::Running => true,
            RunStatus::Waiting => !self.is_awaited(run, summary, &sources),
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => false,
        };
        let forgotten: Vec<RunId> = runs.into_iter().filter(forgotten).map(|listed| listed.run).collect();
        let before = std::mem::take(&mut self.suspects);
        for run in forgotten {
            if before.contains(&run) {
                tracing::warn!(%run, "nothing would have woken this run: it is begun again");
                self.begin(myself, run, Begin::Again, Mailbox::default()).await?;
            } else {
                self.suspects.push(run);
            }
        }
        Ok(())
    }
}
