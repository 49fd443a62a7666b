use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rewind_bus::{BusError, host::TakenCall};
use rewind_model::RunId;
use tokio_util::sync::CancellationToken;

use crate::Token;

/// What a handler knows of the call that it handles. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ctx {
    taken: Arc<TakenCall>,
    key: Arc<str>,
    deadline: Instant,
    cancelled: CancellationToken,
    later: Arc<AtomicBool>,
}

impl Ctx {
    pub(crate) fn new(taken: Arc<TakenCall>, deadline: Instant, cancelled: CancellationToken) -> Self {
        let key = taken.call.key.to_string().into();
        Self { taken, key, deadline, cancelled, later: Arc::default() }
    }

    /// `{run}/{seq}`: the same on every attempt of this call, and of no other call. Two attempts can
    /// overlap (a worker that lost its connection goes on working), so remember the key by something
    /// that refuses a second one: a unique column, a conditional write.
    pub fn idempotency_key(&self) -> &str {
        &self.key
    }

    /// The run whose script made the call.
    pub fn run(&self) -> &RunId {
        &self.taken.call.key.run
    }

    /// The number of the call in its run, from 1.
    pub fn seq(&self) -> u32 {
        self.taken.call.key.seq
    }

    /// From 1; higher when the work may have been done, or begun, before.
    pub fn attempt(&self) -> u32 {
        self.taken.call.attempt
    }

    /// The end user for whom the run acts.
    pub fn namespace(&self) -> Option<&str> {
        self.taken.call.namespace.as_deref()
    }

    /// When this attempt's time is over: the handler is dropped then, and the call answered with `timeout`.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Time left until [`Ctx::deadline`]: a limit for requests that the handler makes.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// W3C trace context of the call (<https://www.w3.org/TR/trace-context/>): what the handler
    /// calls with it joins the run's trace.
    pub fn traceparent(&self) -> &str {
        &self.taken.call.trace.traceparent
    }

    pub fn tracestate(&self) -> Option<&str> {
        self.taken.call.trace.tracestate.as_deref()
    }

    /// Resolves when it is of no use to go on: the run was cancelled, the lease was lost (another worker
    /// may have the call), the deadline is over, or the worker stops and gives the call back. Told as
    /// far as the network allows: never resolving proves nothing.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Gives the token by which this call is answered later, by any process ([`crate::Answers`]), after hours or
    /// days. Keep it where a crash does not lose it, then return `Ok`: the value is not the answer, and the
    /// call takes neither the worker's room nor time any more. A handler that fails after this answers with
    /// its failure. If the worker dies before it has returned, the call comes again, with the same token.
    pub fn complete_later(&self) -> Token {
        self.later.store(true, Ordering::Release);
        Token::new(self.taken.call.key.clone(), self.taken.attempt)
    }

    pub(crate) fn is_left_for_later(&self) -> bool {
        self.later.load(Ordering::Acquire)
    }

    /// Renews the lease now. Not needed as a rule: it is renewed three times in each of the queue's
    /// silences while the handler runs. Its use is to make sure, before a step that cannot be undone,
    /// that NATS still hears this worker.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn heartbeat(&self) -> Result<(), BusError> {
        self.taken.alive().await
    }
}
