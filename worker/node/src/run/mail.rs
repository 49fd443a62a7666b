use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rewind_bus::command::{Ack, Answer};
use rewind_dispatch::Sent;
use rewind_model::Seq;
use rewind_run::Verdict;

/// Something for a run to take into account. What came by a command is acknowledged when it is in
/// the journal, and comes again otherwise.
#[derive(Debug)]
pub(crate) enum Mail {
    /// The run is to be looked at; beginning does that.
    Look { ack: Ack },
    /// A timer that JetStream kept.
    Wake { seq: Seq, ack: Ack },
    /// A host worker's answer.
    Answer { answer: Answer, ack: Ack },
    /// A host worker keeps the call, and answers it later.
    Deferred { seq: Seq, attempt: u32, ack: Ack },
    /// Somebody's decision about a parked call.
    Decide { seq: Seq, verdict: Verdict, ack: Ack },
    /// The run is to end.
    Cancel { ack: Ack },
    /// What became of an attempt that this node made.
    Sent { seq: Seq, attempt: u32, sent: Sent },
    /// A timer that this process kept.
    Due { seq: Seq },
}

impl Mail {
    pub(crate) fn into_ack(self) -> Option<Ack> {
        match self {
            Mail::Look { ack }
            | Mail::Wake { ack, .. }
            | Mail::Answer { ack, .. }
            | Mail::Deferred { ack, .. }
            | Mail::Decide { ack, .. }
            | Mail::Cancel { ack } => Some(ack),
            Mail::Sent { .. } | Mail::Due { .. } => None,
        }
    }
}

/// What has come for a run and is not yet in its journal. All of it goes into the next append, so
/// that a hundred answers at once cost one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mailbox(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    mail: VecDeque<Mail>,
    received: u64,
}

impl Mailbox {
    /// `true` when the box was empty: the run has to be told that it no longer is.
    #[must_use]
    pub(crate) fn put(&self, mail: Mail) -> bool {
        let mut inner = self.lock();
        inner.received += 1;
        inner.mail.push_back(mail);
        inner.mail.len() == 1
    }

    pub(crate) fn take(&self) -> Vec<Mail> {
        self.lock().mail.drain(..).collect()
    }

    /// How much mail has ever come, taken or not.
    pub(crate) fn received(&self) -> u64 {
        self.lock().received
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().mail.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
