//! One call, from the queue to its answer.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use rewind_bus::{Bus, BusError, command::Answer, host::TakenCall};
use rewind_model::{ErrorCode, Json, Limits, NodeId, Outcome, Payload, RunId, ToolFailure};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::{Ctx, live::Live, retry::forever, tool::Tool, worker::Shared};

/// An attempt's time is a number on the wire; more than this is no limit, and no overflow.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(3650 * 86_400);
/// Heartbeats in the time after which a silent worker loses the call.
const BEATS: u32 = 3;

/// Handles a call and answers it, or gives it back when the worker has to end first.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    tool: Arc<Tool>,
    mut taken: TakenCall,
    silence: Duration,
    room: OwnedSemaphorePermit,
) {
    let arguments = std::mem::replace(&mut taken.call.arguments, Payload::Inline(Json::null()));
    let live = shared.live.add(taken.call.key.clone());
    let taken = Arc::new(taken);
    let room = Arc::new(room);
    let work = async {
        match attempt(&shared, &tool, &taken, &arguments, &live, &room).await {
            Handled::Answered(outcome) => answer(&shared, &taken, outcome, &live).await,
            Handled::Later => defer(&shared, &taken, &live).await,
        }
    };
    tokio::select! {
        () = work => {}
        never = keep(&taken, silence, &live) => match never {},
        () = shared.abort.cancelled() => {
            live.cancelled.cancel();
            give_back(&shared, &taken).await;
        }
    }
}

pub(crate) async fn give_back(shared: &Shared, taken: &TakenCall) {
    shared.counts.given_back();
    if let Err(error) = taken.give_back().await {
        tracing::warn!(key = %taken.call.key, %error, "the call goes back by itself, when the queue's silence is over");
    }
}

/// What became of an attempt.
enum Handled {
    Answered(Outcome),
    /// Somebody answers by the call's token.
    Later,
}

/// Runs the handler within the attempt's time. Whatever it does, there is an outcome.
async fn attempt(
    shared: &Shared,
    tool: &Tool,
    taken: &Arc<TakenCall>,
    arguments: &Payload,
    live: &Live,
    room: &Arc<OwnedSemaphorePermit>,
) -> Handled {
    let timeout = taken.call.timeout.min(LONGEST_ATTEMPT);
    let deadline = Instant::now() + timeout;
    let handled = async {
        if taken.call.at_most_once {
            let who = NodeId::random().to_string();
            match forever("note that a call is begun", || shared.bus.begin_once(&taken.call.key, &who)).await {
                Ok(true) => {}
                Ok(false) => return Handled::Answered(Outcome::Err(begun_before(tool))),
                Err(error) => return Handled::Answered(Outcome::Err(no_arguments(tool, &error))),
            }
        }
        let arguments = match forever("read arguments", || shared.bus.payload_json(arguments)).await {
            Ok(arguments) => arguments,
            Err(error) => return Handled::Answered(Outcome::Err(no_arguments(tool, &error))),
        };
        let ctx = Ctx::new(Arc::clone(taken), deadline, live.cancelled.clone());
        let own = ctx.clone();
        let span =
            tracing::info_span!("host_tool", tool = %tool.name, key = ctx.idempotency_key(), attempt = ctx.attempt());
        let handler = tool.call(ctx, arguments);
        // A handler that blocks its thread cannot be aborted: its room is taken until it ends, whatever
        // the script was told meanwhile.
        let room = Arc::clone(room);
        let handler = async move {
            let _room = room;
            handler.await
        };
        Handled::Answered(match AbortOnDropHandle::new(tokio::spawn(handler.instrument(span))).await {
            Ok(Ok(_)) if own.is_left_for_later() => return Handled::Later,
            Ok(Ok(result)) => Outcome::Ok(Payload::Inline(result)),
            Ok(Err(error)) => Outcome::Err(error.into_failure()),
            Err(_) => {
                // The panic's text is in the log by its hook. It is not for the script: it may hold anything.
                tracing::error!(tool = %tool.name, key = %taken.call.key, "the handler panicked");
                let message = format!("{}: the handler panicked; the worker's log says more", tool.name);
                Outcome::Err(ToolFailure::new(ErrorCode::ToolFailed, message))
            }
        })
    };
    match tokio::time::timeout_at(deadline.into(), handled).await {
        Ok(handled) => handled,
        Err(_) => {
            live.cancelled.cancel();
            let message = format!("{} took longer than {}", tool.name, rewind_model::format_duration(timeout));
            Handled::Answered(Outcome::Err(ToolFailure::new(ErrorCode::Timeout, message)))
        }
    }
}

/// Tells the run that its call is answered later, and only then lets go of it.
async fn defer(shared: &Shared, taken: &TakenCall, live: &Live) {
    let key = &taken.call.key;
    if !live.abandoned.is_cancelled() {
        let tell = || shared.bus.command_deferred(&taken.reply, key.seq, taken.attempt);
        if let Err(error) = forever("defer a call", tell).await {
            tracing::error!(%key, %error, "the call cannot be deferred: it will come again");
            return;
        }
        shared.counts.answered();
    }
    if let Err(error) = taken.done_unconfirmed().await {
        tracing::warn!(%key, %error, "the call may come again");
    }
}

fn begun_before(tool: &Tool) -> ToolFailure {
    let message = format!("{} was begun before, may have been done or not, and must not be done twice", tool.name);
    ToolFailure::new(ErrorCode::OutcomeUnknown, message)
}

fn no_arguments(tool: &Tool, error: &BusError) -> ToolFailure {
    ToolFailure::new(ErrorCode::Unavailable, format!("{} was not called: {error}", tool.name))
}

/// Publishes the answer until NATS has it, and only then lets go of the call. A crash in between costs a
/// repeated call; the other way round it would cost the answer.
async fn answer(shared: &Shared, taken: &TakenCall, outcome: Outcome, live: &Live) {
    let key = &taken.call.key;
    // Whoever abandoned the call has taken it out of the queue.
    if !live.abandoned.is_cancelled() {
        let timed_out = matches!(&outcome, Outcome::Err(failure) if failure.code == ErrorCode::Timeout);
        let mut answer = Answer { seq: key.seq, attempt: taken.attempt, outcome: bounded(outcome), timed_out };
        if let Err(error) = publish(&shared.bus, &key.run, &taken.reply, &mut answer).await {
            tracing::error!(%key, %error, "the answer cannot be published: the call will come again");
            return;
        }
        shared.counts.answered();
    }
    // Not confirmed: a lost acknowledgement costs a repeated call with the same key, a confirmed one
    // costs a round trip every time.
    if let Err(error) = taken.done_unconfirmed().await {
        tracing::warn!(%key, %error, "the call may come again");
    }
}

pub(crate) fn bounded(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Ok(payload) if payload.size() > Limits::DEFAULT.result_bytes as u64 => {
            let (bytes, most) = (payload.size(), Limits::DEFAULT.result_bytes);
            let message = format!("the result has {bytes} bytes, and a result may have {most}");
            Outcome::Err(ToolFailure::new(ErrorCode::TooLarge, message))
        }
        other => other,
    }
}

/// Publishes an answer until NATS has it.
///
/// # Errors
/// When NATS never will.
pub(crate) async fn publish(bus: &Bus, run: &RunId, reply: &str, answer: &mut Answer) -> Result<(), BusError> {
    if let Outcome::Ok(payload) = &answer.outcome
        && payload.inline_size() > Limits::DEFAULT.inline_bytes
    {
        // Of such a run nothing is kept any more, and nobody would ever remove this.
        if forever("look for the run", || bus.is_purged(run)).await? {
            return Ok(());
        }
        answer.outcome = Outcome::Ok(stored(bus, run, payload).await?);
    }
    let send = async |answer: &Answer| forever("answer a call", || bus.command_answer(reply, answer)).await;
    match (send(answer).await, &answer.outcome) {
        // A server whose max_payload is lower than Rewind assumes.
        (Err(BusError::TooLarge { .. }), Outcome::Ok(payload @ Payload::Inline(_))) => {
            answer.outcome = Outcome::Ok(stored(bus, run, payload).await?);
            send(answer).await
        }
        (sent, _) => sent,
    }
}

async fn stored(bus: &Bus, run: &RunId, payload: &Payload) -> Result<Payload, BusError> {
    forever("store a result", || async {
        let mut payload = payload.clone();
        bus.payload_to_blob(run, &mut payload).await.map(|()| payload)
    })
    .await
}

/// Renews the lease. One that could not be renewed for all of the queue's silence is lost, and the
/// handler is told; it may go on, as its answer counts if it is the first.
async fn keep(taken: &TakenCall, silence: Duration, live: &Live) -> Infallible {
    let beat = silence / BEATS;
    let mut heard = Instant::now();
    loop {
        tokio::time::sleep(beat).await;
        match tokio::time::timeout(beat, taken.alive()).await {
            Ok(Ok(())) => heard = Instant::now(),
            Ok(Err(_)) | Err(_) if heard.elapsed() > silence => live.cancelled.cancel(),
            Ok(Err(_)) | Err(_) => {}
        }
    }
}
