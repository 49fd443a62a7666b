use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use rewind_bus::{BusError, journal::Stored};
use rewind_model::{RunId, RunStatus, Timestamp};
use rewind_run::Entry;

use super::{
    Mail, Mailbox,
    effects::Hands,
    live::{self, Draft, Live, TurnError},
};
use crate::{context::Context, library::LibraryError, shard::ShardMessage};

/// A run that nothing has come for since this long gives its memory back.
const IDLE: Duration = Duration::from_secs(2);

/// What a run actor starts from.
#[derive(Debug)]
pub(crate) enum Begin {
    /// The run's first entry, as the coordinator wrote it: saves reading a journal of one entry.
    Created { sequence: u64, entry: Entry },
    /// Whatever the journal holds.
    Journal,
    /// As `Journal`, and nobody knows what became of the outstanding calls: they are made again,
    /// with the same keys.
    Again,
}

#[derive(Debug)]
pub(crate) enum RunMessage {
    Begin(Begin),
    /// The mailbox is no longer empty.
    Mail,
    /// There is more to be taken over from the run's history.
    GoOn,
    /// Has anything come since the turn of this number?
    IdleSince {
        turn: u64,
    },
    /// The shard has forgotten the run: nothing will come any more.
    Stop,
}

pub(crate) struct RunActor;

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) context: Context,
    pub(crate) epoch: u64,
    pub(crate) run: RunId,
    pub(crate) mailbox: Mailbox,
    pub(crate) shard: ActorRef<ShardMessage>,
    pub(crate) begin: Begin,
    /// It did so in this node, and has not gone on since.
    pub(crate) failed: bool,
}

/// What the actor holds of its run; the truth is in the journal.
#[derive(Debug)]
pub(crate) struct State {
    context: Context,
    epoch: u64,
    id: RunId,
    mailbox: Mailbox,
    shard: ActorRef<ShardMessage>,
    hands: Hands,
    live: Option<Live>,
    /// Taken from the mailbox, not yet in the journal.
    open: Vec<Mail>,
    /// How much mail was ever taken from the mailbox.
    heard: u64,
    turn: u64,
    idle_check: bool,
    /// It failed here; the shard waits to hear that it goes on.
    failed: bool,
}

impl Actor for RunActor {
    type Msg = RunMessage;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(&self, myself: ActorRef<RunMessage>, given: Arguments) -> Result<State, ActorProcessingErr> {
        let Arguments { context, epoch, run, mailbox, shard, begin, failed } = given;
        myself.send_message(RunMessage::Begin(begin))?;
        let hands = Hands::new(context.clone(), mailbox.clone(), myself);
        Ok(State {
            context,
            epoch,
            id: run,
            mailbox,
            shard,
            hands,
            live: None,
            open: Vec::new(),
            heard: 0,
            turn: 0,
            idle_check: false,
            failed,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<RunMessage>,
        message: RunMessage,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RunMessage::Begin(begin) => state.begin(begin).await?,
            RunMessage::Mail => state.mail().await?,
            RunMessage::GoOn => state.go_on().await?,
            RunMessage::IdleSince { turn } => state.idle(turn).await?,
            RunMessage::Stop => myself.stop(None),
        }
        state.look_ahead(&myself);
        Ok(())
    }
}

impl State {
    /// Takes the run up from its journal, with whatever mail has come.
    async fn begin(&mut self, mut begin: Begin) -> Result<(), TurnError> {
        let context = self.context.clone();
        let _permit = context.loading.acquire().await;
        loop {
            self.turn += 1;
            let begun = self.try_begin(&begin).await;
            match self.unless_lost(begun).await {
                Err(TurnError::Bus(BusError::Fenced { .. })) => {
                    // Somebody has appended meanwhile: read what it is.
                    begin = match begin {
                        Begin::Created { .. } | Begin::Journal => Begin::Journal,
                        Begin::Again => Begin::Again,
                    };
                }
                Err(TurnError::NotOurs(run)) => {
                    tracing::info!(%run, "another node has taken the run over");
                    self.let_go();
                    return Ok(());
                }
                Err(TurnError::Empty(run)) => {
                    tracing::warn!(%run, "a command for a run that does not exist was dropped");
                    self.open_mail();
                    self.acknowledge().await;
                    return Ok(());
                }
                done => return done,
            }
        }
    }

    async fn try_begin(&mut self, begin: &Begin) -> Result<(), TurnError> {
        self.live = None;
        let entries = match begin {
            Begin::Created { sequence, entry } => vec![Stored { sequence: *sequence, entry: entry.clone() }],
            Begin::Journal | Begin::Again => self.context.bus.read_surely(&self.id).await?,
        };
        let mut live = match Live::load(&self.context, &self.id, &entries).await {
            Err(TurnError::Library(why @ LibraryError::Missing(_))) => {
                return self.end_broken(&entries, &why.to_string()).await;
            }
            loaded => loaded?,
        };
        let mut draft = Draft::after(entries);
        if !live.run.status().ended() {
            // It did not leave memory, and is in nobody's: what it was at has no one who does it.
            let lost = live.run.status() == RunStatus::Running && !self.hands.hold_any();
            let again = matches!(begin, Begin::Again);
            let owned =
                live.run.owner().is_some_and(|owner| owner.node == self.context.id && owner.epoch == self.epoch);
            live.adopt(&self.context, self.epoch, again || lost && owned, &mut draft)?;
            if lost || again {
                draft.effects = live.run.pending();
            }
        }
        self.turn_with(live, draft).await
    }

    async fn mail(&mut self) -> Result<(), TurnError> {
        while !self.mailbox.is_empty() {
            self.turn += 1;
            // It was let go of, and mail has come all the same: its journal says whose it is.
            let Some(live) = self.live.take() else { return self.begin(Begin::Journal).await };
            let turn = self.turn_with(live, Draft::default()).await;
            match self.unless_lost(turn).await {
                Ok(()) => {}
                Err(TurnError::Bus(BusError::Fenced { .. })) => self.begin(Begin::Journal).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn go_on(&mut self) -> Result<(), TurnError> {
        self.turn += 1;
        let Some(live) = self.live.take() else { return Ok(()) };
        let turn = self.turn_with(live, Draft::default()).await;
        match self.unless_lost(turn).await {
            Err(TurnError::Bus(BusError::Fenced { .. })) => self.begin(Begin::Journal).await,
            done => done,
        }
    }

    /// A turn that failed because something of the run is gone for ever is its last one.
    async fn unless_lost(&mut self, turn: Result<(), TurnError>) -> Result<(), TurnError> {
        let Err(
            TurnError::Library(LibraryError::Bus(why @ BusError::BlobMissing(_)))
            | TurnError::Bus(why @ BusError::BlobMissing(_)),
        ) = turn
        else {
            return turn;
        };
        let entries = self.context.bus.read_surely(&self.id).await?;
        self.end_broken(&entries, &why.to_string()).await
    }

    async fn end_broken(&mut self, entries: &[Stored], why: &str) -> Result<(), TurnError> {
        tracing::error!(run = %self.id, why, "the run cannot go on, and is ended");
        live::end_broken(&self.context, &self.id, entries, self.epoch, why).await?;
        self.live = None;
        self.hands.release();
        self.open_mail();
        self.acknowledge().await;
        Ok(())
    }

    /// One turn: the mail, what the script makes of it, one append, its effects. If it fails, the run
    /// in memory is gone and the mail still open.
    async fn turn_with(&mut self, mut live: Live, mut draft: Draft) -> Result<(), TurnError> {
        self.open_mail();
        for mail in &self.open {
            live.hear(&self.context, mail, &mut draft).await?;
        }
        live.settle(&self.context, &mut draft).await?;
        if !self.hands.hold_any() {
            live.rest(&mut draft)?;
        }
        self.finish(live, draft).await
    }

    async fn finish(&mut self, mut live: Live, mut draft: Draft) -> Result<(), TurnError> {
        if live.run.status() == RunStatus::Waiting {
            // Whoever reads that it waits may rely on its timers; one too many wakes it for nothing.
            self.hands.arm_first(&live.run, &mut draft.effects, Timestamp::now()).await;
        }
        let goes_on = !draft.records.is_empty();
        live.commit(&self.context, &mut draft).await?;
        if goes_on && std::mem::take(&mut self.failed) {
            let _ = self.shard.send_message(ShardMessage::WentOn { run: self.id.clone() });
        }
        self.acknowledge().await;
        if live.run.status().ended() {
            self.hands.release();
        }
        let effects = std::mem::take(&mut draft.effects);
        self.hands.perform(&live.run, &live.script, effects, Timestamp::now()).await;
        if draft.unfinished {
            self.hands.go_on();
        }
        self.live = Some(live);
        Ok(())
    }

    fn open_mail(&mut self) {
        let mail = self.mailbox.take();
        self.heard += mail.len() as u64;
        self.open.extend(mail);
    }

    /// The queue may forget what the journal now holds.
    async fn acknowledge(&mut self) {
        for mail in self.open.drain(..) {
            if let Some(ack) = mail.into_ack() {
                ack.done().await;
            }
        }
    }

    /// Drops all that is in memory: it was never anyone's truth.
    fn let_go(&mut self) {
        self.live = None;
        self.open_mail();
        self.open.clear();
        self.hands.release();
    }

    /// Gives the memory back when nothing has come for a while.
    async fn idle(&mut self, turn: u64) -> Result<(), TurnError> {
        self.idle_check = false;
        if turn != self.turn || !self.mailbox.is_empty() {
            return Ok(());
        }
        let held = self.hands.hold_any();
        let Some(mut live) = self.live.take() else { return Ok(()) };
        live.free_script();
        let mut draft = Draft::default();
        if !held && live.others_wake() {
            live.leave_memory(&mut draft)?;
            draft.effects.extend(live.checks(Timestamp::now()));
        }
        match self.finish(live, draft).await {
            Err(TurnError::Bus(BusError::Fenced { .. })) => self.begin(Begin::Journal).await,
            done => done,
        }
    }

    /// Asks the shard to forget a run that needs no memory; otherwise looks again later whether it does.
    fn look_ahead(&mut self, myself: &ActorRef<RunMessage>) {
        let over = self.live.as_ref().is_none_or(Live::over);
        if over && !self.hands.hold_any() || self.ended() {
            let forget = ShardMessage::Forget { run: self.id.clone(), actor: myself.get_id(), heard: self.heard };
            // A shard that is gone takes its runs with it.
            let _ = self.shard.send_message(forget);
        } else if !self.idle_check {
            self.idle_check = true;
            let turn = self.turn;
            myself.send_after(IDLE, move || RunMessage::IdleSince { turn });
        }
    }

    fn ended(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.run.status().ended())
    }
}
