//! What is done once an append is acknowledged.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use ractor::ActorRef;
use rewind_dispatch::{Attempt, Sent};
use rewind_model::{ErrorCode, Key, Seq, Timestamp, ToolFailure, Toolset};
use rewind_run::{Call, Effect, Phase, Run};
use tokio::task::JoinSet;

use super::{Mail, Mailbox, RunMessage, child, script::Script};
use crate::context::Context;

/// Timers that are due sooner are this process's own; a crash loses none of them, since the next
/// owner arms what is outstanding. Later ones are messages in JetStream.
const SHORT: Duration = Duration::from_secs(3);

/// Performs effects in the background and reports to the run's mailbox. Dropped, it gives up the
/// calls that this node holds.
#[derive(Debug)]
pub(crate) struct Hands {
    context: Context,
    mailbox: Mailbox,
    myself: ActorRef<RunMessage>,
    tasks: JoinSet<()>,
}

impl Hands {
    pub(crate) fn new(context: Context, mailbox: Mailbox, myself: ActorRef<RunMessage>) -> Self {
        Self { context, mailbox, myself, tasks: JoinSet::new() }
    }

    /// Is there a call or a timer that only this process knows of?
    pub(crate) fn hold_any(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        !self.tasks.is_empty()
    }

    /// The run is not done with its history.
    pub(crate) fn go_on(&self) {
        // Stopped meanwhile: nobody needs to know.
        let _ = self.myself.send_message(RunMessage::GoOn);
    }

    /// Lets go of all that is held: the run has ended.
    pub(crate) fn release(&mut self) {
        self.tasks.abort_all();
    }

    pub(crate) async fn perform(&mut self, run: &Run, script: &Arc<Script>, effects: Vec<Effect>, now: Timestamp) {
        // Finished tasks are kept until somebody asks.
        while self.tasks.try_join_next().is_some() {}
        for effect in effects {
            match effect {
                Effect::Dispatch { seq, attempt } => self.dispatch(run, script, seq, attempt),
                Effect::Arm { seq, at } => self.arm(run, seq, at, now).await,
                Effect::Abandon { seq, call } => self.abandon(run, seq, call),
                Effect::Disarm => self.disarm(run),
            }
        }
    }

    fn dispatch(&mut self, run: &Run, script: &Arc<Script>, seq: Seq, number: u32) {
        let Some(pending) = run.outstanding().get(&seq) else { return };
        // It may have been parked in the same turn.
        if !matches!(pending.phase, Phase::Sent { .. } | Phase::BackingOff { .. }) {
            return;
        }
        let (Call::Tool { tool, arguments, raw, terms, .. }, Some(spec)) = (&pending.call, run.spec()) else { return };
        let key = run.key(seq);
        if let Some(workflow) = script.tools.workflow(tool) {
            let (context, report) = (self.context.clone(), self.reporter());
            let (spec, workflow, name, input) = (spec.clone(), workflow.clone(), tool.name.clone(), arguments.clone());
            self.tasks.spawn(async move {
                let sent = child::start(&context, &spec, &key, &workflow, &name, &input).await;
                if sent != Sent::Queued {
                    report(Mail::Sent { seq, attempt: number, sent });
                }
            });
            return;
        }
        let attempt = Attempt {
            trace: spec.trace.clone(),
            key,
            number,
            tool: tool.clone(),
            arguments: arguments.clone(),
            raw: *raw,
            namespace: spec.namespace.clone(),
            at_most_once: terms.at_most_once,
            approved: pending.approved,
        };
        let context = self.context.clone();
        let script = script.clone();
        let report = self.reporter();
        self.tasks.spawn(async move {
            let sent = AssertUnwindSafe(context.dispatcher.send(&script.tools, &attempt)).catch_unwind().await;
            // Without a word the run would wait for this attempt for ever.
            let sent = sent.unwrap_or_else(|_| {
                let message = format!("sending {} failed in Rewind itself; the node's log says how", attempt.tool);
                Sent::Interrupted { failure: ToolFailure::new(ErrorCode::Unavailable, message), sent: true }
            });
            if sent != Sent::Queued {
                report(Mail::Sent { seq, attempt: number, sent });
            }
        });
    }

    /// Arms the timers among `effects` where they outlive this process, however soon they are due.
    /// What is due by now is no timer any more.
    pub(crate) async fn arm_first(&mut self, run: &Run, effects: &mut Vec<Effect>, now: Timestamp) {
        for effect in std::mem::take(effects) {
            match effect {
                Effect::Arm { seq, at } if at <= now => self.reporter()(Mail::Due { seq }),
                Effect::Arm { seq, at } => self.arm_in_stream(run, seq, at).await,
                Effect::Dispatch { .. } | Effect::Abandon { .. } | Effect::Disarm => effects.push(effect),
            }
        }
    }

    /// Arms a timer; also again, when one was early.
    async fn arm(&mut self, run: &Run, seq: Seq, at: Timestamp, now: Timestamp) {
        let wait = at.since(now);
        if wait < SHORT {
            let report = self.reporter();
            self.tasks.spawn(async move {
                // A millisecond more: timers may fire early within their resolution, sleeps must not.
                tokio::time::sleep(wait + Duration::from_millis(1)).await;
                report(Mail::Due { seq });
            });
        } else {
            self.arm_in_stream(run, seq, at).await;
        }
    }

    async fn arm_in_stream(&self, run: &Run, seq: Seq, at: Timestamp) {
        if let Err(error) = self.context.bus.arm(run.id(), seq, at).await {
            // The sweep finds a waiting run without a timer.
            tracing::error!(run = %run.id(), seq, %error, "a timer could not be armed");
        }
    }

    fn abandon(&mut self, run: &Run, seq: Seq, call: Call) {
        let context = self.context.clone();
        let run = run.id().clone();
        match call {
            Call::Tool { tool, .. } if tool.export == Toolset::HOST => {
                tokio::spawn(async move {
                    if let Err(error) = context.bus.abandon_host_call(&tool.name, &run, seq).await {
                        tracing::warn!(%run, seq, %error, "an abandoned call stays in its queue");
                    }
                });
            }
            call if call.is_workflow() => {
                let child = Key { run, seq }.workflow_run();
                tokio::spawn(async move {
                    if let Err(error) =
                        context.bus.retry("cancel a child run", || context.bus.command_cancel(&child)).await
                    {
                        tracing::warn!(run = %child, %error, "a child run could not be cancelled with its parent");
                    }
                });
            }
            // The call's task is aborted with the others, which tells the server.
            Call::Tool { .. } | Call::Sleep { .. } => {}
        }
    }

    fn disarm(&self, run: &Run) {
        let (context, run) = (self.context.clone(), run.id().clone());
        tokio::spawn(async move {
            if let Err(error) = context.bus.disarm_all(&run).await {
                tracing::warn!(%run, %error, "timers of an ended run stay armed until they fire");
            }
        });
    }

    fn reporter(&self) -> impl FnOnce(Mail) + Send + 'static {
        let mailbox = self.mailbox.clone();
        let myself = self.myself.clone();
        move |mail| {
            if mailbox.put(mail) {
                // Stopped meanwhile: nobody needs to know.
                let _ = myself.send_message(RunMessage::Mail);
            }
        }
    }
}
