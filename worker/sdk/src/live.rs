//! The calls that this worker holds, and which of them nobody waits for any more.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::StreamExt;
use rewind_bus::{Bus, BusError};
use rewind_model::Key;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::retry::forever;

/// One key can be held twice: a call whose lease was lost may come back to the same worker.
type Held = BTreeMap<(Key, u64), (CancellationToken, CancellationToken)>;

#[derive(Debug, Default)]
pub(crate) struct LiveCalls {
    held: Mutex<(u64, Held)>,
}

/// Takes the call off the list when it is dropped.
#[derive(Debug)]
pub(crate) struct Live {
    calls: Arc<LiveCalls>,
    place: (Key, u64),
    /// It is of no use to go on.
    pub(crate) cancelled: CancellationToken,
    /// Nobody waits for the answer.
    pub(crate) abandoned: CancellationToken,
}

impl LiveCalls {
    pub(crate) fn add(self: &Arc<Self>, key: Key) -> Live {
        let (cancelled, abandoned) = (CancellationToken::new(), CancellationToken::new());
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.0 += 1;
        let place = (key, held.0);
        held.1.insert(place.clone(), (cancelled.clone(), abandoned.clone()));
        Live { calls: Arc::clone(self), place, cancelled, abandoned }
    }

    fn abandon(&self, key: &Key) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, (cancelled, abandoned)) in held.1.range((key.clone(), 0)..=(key.clone(), u64::MAX)) {
            abandoned.cancel();
            cancelled.cancel();
        }
    }

    /// Hears which calls were abandoned, from now on until the handle is dropped.
    ///
    /// # Errors
    /// When the connection is closed for good.
    pub(crate) async fn watch(self: &Arc<Self>, bus: &Bus) -> Result<AbortOnDropHandle<()>, BusError> {
        let mut abandoned = Box::pin(forever("watch abandoned calls", || bus.abandoned_calls()).await?);
        let calls = Arc::clone(self);
        Ok(AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some(key) = abandoned.next().await {
                calls.abandon(&key);
            }
        })))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.calls.held.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_call_is_told_to_all_who_hold_it_and_to_no_other() {
        let calls = Arc::new(LiveCalls::default());
        let run = rewind_model::RunId::new(1);
        let key = |seq| Key { run: run.clone(), seq };
        let (first, again, other) = (calls.add(key(7)), calls.add(key(7)), calls.add(key(8)));
        drop(calls.add(key(7)));
        calls.abandon(&key(7));
        assert!(first.cancelled.is_cancelled() && again.abandoned.is_cancelled() && !other.cancelled.is_cancelled());
        drop((first, again, other));
        assert!(calls.held.lock().expect("no panic").1.is_empty());
    }
}
