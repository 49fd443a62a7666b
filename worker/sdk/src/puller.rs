//! Asks a tool's queue for calls, never for more than there is room for.

use std::{sync::Arc, time::Duration};

use rewind_bus::host::HostQueue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    call,
    retry::{FIRST_WAIT, LONGEST_WAIT, forever},
    tool::Tool,
    worker::Shared,
};

/// The longest that one request waits for a call, and so the time that a stop may have to wait for it.
const IDLE: Duration = Duration::from_secs(1);
/// The same where there are more tools than room: they take turns at asking.
const TURN: Duration = Duration::from_millis(100);
/// Most calls of one request, so that one tool does not take all room at once from the others.
const BATCH: usize = 256;

/// Takes calls of one tool until the worker stops.
///
/// Room is reserved before it is asked for, since a call that was sent cannot be refused without cost.
/// While a tool has nothing to do it so holds one place of all; while it is busy it asks for what is free.
pub(crate) async fn pull(shared: Arc<Shared>, tool: Arc<Tool>, mut queue: HostQueue) {
    let turn = if shared.tools < shared.concurrency { IDLE } else { TURN };
    let (mut busy, mut backoff) = (false, FIRST_WAIT);
    while let Some(room) = next_room(&shared).await {
        let (mut room, wait) = if busy { (with_all_free(&shared.room, room), Duration::ZERO) } else { (room, turn) };
        match queue.take(room.num_permits(), wait).await {
            Ok(calls) => {
                (busy, backoff) = (!calls.is_empty(), FIRST_WAIT);
                for taken in calls {
                    match room.split(1) {
                        Some(place) if !shared.stop.is_cancelled() => {
                            let served =
                                call::serve(Arc::clone(&shared), Arc::clone(&tool), taken, queue.silence(), place);
                            shared.calls.spawn(served);
                        }
                        Some(_) | None => call::give_back(&shared, &taken).await,
                    }
                }
            }
            Err(error) => {
                drop(room);
                busy = false;
                tracing::warn!(tool = %tool.name, %error, "no calls from the queue; asking again");
                let reopened = async {
                    tokio::time::sleep(backoff).await;
                    open(&shared, &tool).await
                };
                match shared.stop.run_until_cancelled(reopened).await {
                    Some(Some(again)) => queue = again,
                    Some(None) | None => return,
                }
                backoff = (backoff * 2).min(LONGEST_WAIT);
            }
        }
    }
}

/// The tool's queue, as soon as NATS has it. `None` where it never will.
pub(crate) async fn open(shared: &Shared, tool: &Tool) -> Option<HostQueue> {
    match forever("open a tool's queue", || shared.bus.host_queue(&tool.name)).await {
        Ok(queue) => Some(queue),
        Err(error) => {
            tracing::error!(tool = %tool.name, %error, "no calls are taken");
            None
        }
    }
}

/// Places are given out in the order in which they were asked for: a busy tool starves no other.
async fn next_room(shared: &Shared) -> Option<OwnedSemaphorePermit> {
    let room = Arc::clone(&shared.room).acquire_owned();
    shared.stop.run_until_cancelled(room).await?.ok()
}

fn with_all_free(room: &Arc<Semaphore>, mut held: OwnedSemaphorePermit) -> OwnedSemaphorePermit {
    let free = u32::try_from(room.available_permits().min(BATCH - 1)).unwrap_or(0);
    // Another tool may have been faster: then the one place has to do.
    if let Ok(more) = Arc::clone(room).try_acquire_many_owned(free) {
        held.merge(more);
    }
    held
}
