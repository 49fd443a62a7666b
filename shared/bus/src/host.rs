//! Host calls: a work queue from which workers take calls. `worker/README.md` documents the protocol
//! for workers in other languages; keep the two the same.

use std::time::Duration;

use async_nats::{
    HeaderMap,
    jetstream::{
        self, AckKind,
        consumer::{AckPolicy, PullConsumer, pull},
        context::ConsumerInfoErrorKind,
        message::Acker,
        stream::LastRawMessageErrorKind,
    },
};
use futures::StreamExt;
use rewind_model::{Json, Key, Payload, RunId, Seq, TraceContext};

use crate::{Bus, BusError, error::unavailable, names, names::header, publish::Published};

/// How long after its time the end of a request for calls may come before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// A worker that is silent for this long has lost its call: it goes to another one. An operator may
/// give a queue another limit (its consumer's `ack_wait`): workers ask the queue, [`HostQueue::silence`].
pub const SILENCE: Duration = Duration::from_secs(15);

/// A worker that has no call may be between two requests for one; the next is there after this long.
const BETWEEN_REQUESTS: Duration = Duration::from_millis(50);

/// Value of [`header::DELIVERY`].
const AT_MOST_ONCE: &str = "at_most_once";

/// A call for a host worker.
#[derive(Debug, Clone)]
pub struct HostCall {
    pub tool: String,
    pub key: Key,
    /// From 1. In a call that a worker took, the queue's redeliveries are added.
    pub attempt: u32,
    pub arguments: Payload,
    /// Of one attempt, from when a worker has it.
    pub timeout: Duration,
    pub namespace: Option<String>,
    /// Must not be handled a second time, whatever became of the first.
    pub at_most_once: bool,
    pub trace: TraceContext,
}

/// What became of a call that was to be queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    Now,
    /// It is in the queue, or with a worker, since before.
    Already,
}

impl Bus {
    /// Queues a call, once: an attempt that is in the queue or with a worker is not queued a second
    /// time. It takes the place of an earlier attempt of the same call, which may still be there when a
    /// worker has said `timeout` and its acknowledgement is on the way.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn queue_host_call(&self, call: &HostCall) -> Result<Queued, BusError> {
        if self.publish_host_call(call).await? == Queued::Now {
            return Ok(Queued::Now);
        }
        match self.earlier_attempt(call).await? {
            Some(sequence) => {
                let stream =
                    self.jetstream.get_stream_no_info(names::HOST).await.map_err(unavailable("queue a host call"))?;
                // Fails where the acknowledgement came first: the place is free either way.
                let _ = stream.delete_message(sequence).await;
                self.publish_host_call(call).await
            }
            None => Ok(Queued::Already),
        }
    }

    /// The queue's message of this call, if it is of an earlier attempt or gone by now.
    async fn earlier_attempt(&self, call: &HostCall) -> Result<Option<u64>, BusError> {
        let subject = names::host(&call.tool, &call.key.run, call.key.seq);
        let stream = self.jetstream.get_stream_no_info(names::HOST).await.map_err(unavailable("queue a host call"))?;
        match stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => {
                let attempt = message.headers.get(header::ATTEMPT).and_then(|value| value.as_str().parse().ok());
                Ok((attempt.unwrap_or(0) < call.attempt).then_some(message.sequence))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(Some(0)),
            Err(error) => Err(unavailable("queue a host call")(error)),
        }
    }

    async fn publish_host_call(&self, call: &HostCall) -> Result<Queued, BusError> {
        let subject = names::host(&call.tool, &call.key.run, call.key.seq);
        let mut headers = HeaderMap::new();
        headers.insert(header::KEY, call.key.to_string().as_str());
        headers.insert(header::ATTEMPT, call.attempt.to_string().as_str());
        headers.insert(header::TIMEOUT_MS, call.timeout.as_millis().to_string().as_str());
        headers.insert(header::REPLY, names::command(&call.key.run).as_str());
        headers.insert(header::TRACEPARENT, call.trace.traceparent.as_str());
        if let Some(state) = &call.trace.tracestate {
            headers.insert(header::TRACESTATE, state.as_str());
        }
        if call.at_most_once {
            headers.insert(header::DELIVERY, AT_MOST_ONCE);
        }
        if let Some(namespace) = &call.namespace {
            headers.insert(header::NAMESPACE, namespace.as_str());
        }
        let body = match &call.arguments {
            Payload::Inline(json) => json.as_str().to_owned().into_bytes(),
            Payload::Blob { digest, .. } => {
                headers.insert(header::BLOB, digest.to_string().as_str());
                Vec::new()
            }
        };
        match self.publish("queue a host call", subject, headers, body.into()).await? {
            Published::Stored(_) => Ok(Queued::Now),
            Published::Full | Published::Conflict => Ok(Queued::Already),
        }
    }

    /// Takes a call out of its queue, and tells the worker that has it that nobody waits any more.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn abandon_host_call(&self, tool: &str, run: &RunId, seq: Seq) -> Result<(), BusError> {
        let stream = self.jetstream.get_stream_no_info(names::HOST).await.map_err(unavailable("abandon a call"))?;
        stream.purge().filter(names::host(tool, run, seq)).await.map_err(unavailable("abandon a call"))?;
        let client = self.jetstream.client();
        client.publish(names::abandoned(run, seq), bytes::Bytes::new()).await.map_err(unavailable("abandon a call"))
    }

    /// The calls that nobody waits for any more, as they become so.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn abandoned_calls(&self) -> Result<impl futures::Stream<Item = Key> + Send + use<>, BusError> {
        let subscription = self
            .jetstream
            .client()
            .subscribe(names::ABANDONED_ALL)
            .await
            .map_err(unavailable("watch abandoned calls"))?;
        Ok(subscription.filter_map(async |message| {
            let mut parts = message.subject.split('.').skip(2);
            let run = parts.next()?.parse().ok()?;
            let seq = parts.next()?.parse().ok()?;
            Some(Key { run, seq })
        }))
    }

    /// Whether a worker of this tool is there: one asks for calls, or has one. Reads only.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn has_host_worker(&self, tool: &str) -> Result<bool, BusError> {
        let stream = self.jetstream.get_stream_no_info(names::HOST).await.map_err(unavailable("look for a worker"))?;
        let name = names::host_consumer(tool);
        for wait in [BETWEEN_REQUESTS, Duration::ZERO] {
            match stream.consumer_info(&name).await {
                Ok(info) if info.num_waiting > 0 || info.num_ack_pending > 0 => return Ok(true),
                Ok(_) => tokio::time::sleep(wait).await,
                Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(unavailable("look for a worker")(error)),
            }
        }
        Ok(false)
    }

    /// The queue of one tool, shared by all of its workers. Made where there is none yet; one that is
    /// there stays as it is.
    ///
    /// # Errors
    /// When NATS does not answer, or the stream is not there yet.
    pub async fn host_queue(&self, tool: &str) -> Result<HostQueue, BusError> {
        self.host_queue_or_new(tool, SILENCE).await
    }

    /// As [`Bus::host_queue`]; a queue that is made gets `silence` as its limit.
    ///
    /// # Errors
    /// When NATS does not answer, or the stream is not there yet.
    pub async fn host_queue_or_new(&self, tool: &str, silence: Duration) -> Result<HostQueue, BusError> {
        let stream =
            self.jetstream.get_stream_no_info(names::HOST).await.map_err(unavailable("open a tool's queue"))?;
        let name = names::host_consumer(tool);
        let config = pull::Config {
            durable_name: Some(name.clone()),
            description: Some("Rewind: workers of one host tool".into()),
            filter_subject: names::host_of_tool(tool),
            ack_policy: AckPolicy::Explicit,
            ack_wait: silence,
            // Lost with the server, it is made anew by the next worker that asks, and calls that are at
            // work come again with the same keys.
            memory_storage: true,
            max_ack_pending: 50_000,
            ..Default::default()
        };
        let consumer =
            stream.get_or_create_consumer(&name, config).await.map_err(unavailable("open a tool's queue"))?;
        Ok(HostQueue { tool: tool.to_owned(), consumer })
    }
}

/// A tool's queue. Workers ask for as many calls as they have room for.
pub struct HostQueue {
    tool: String,
    consumer: PullConsumer,
}

impl std::fmt::Debug for HostQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostQueue({})", self.tool)
    }
}

impl HostQueue {
    /// How long a worker of this queue may be silent about a call.
    pub fn silence(&self) -> Duration {
        self.consumer.cached_info().config.ack_wait
    }

    /// Up to `most` calls of those that are there; where there are none, waits up to `wait` for one.
    ///
    /// Each request is read to its end, so that no call is sent to a subscription that is gone: it
    /// would be nobody's until the queue's silence is over.
    ///
    /// # Errors
    /// When NATS does not answer, or the queue is gone: open it again.
    pub async fn take(&self, most: usize, wait: Duration) -> Result<Vec<TakenCall>, BusError> {
        if most > 1 || wait.is_zero() {
            let there = self.consumer.fetch().max_messages(most).messages().await.map_err(unavailable("take calls"))?;
            let calls = self.read(there, PATIENCE).await?;
            if !calls.is_empty() || wait.is_zero() {
                return Ok(calls);
            }
        }
        let next =
            self.consumer.batch().max_messages(1).expires(wait).messages().await.map_err(unavailable("take calls"))?;
        self.read(next, wait + PATIENCE).await
    }

    async fn read(&self, mut messages: pull::Batch, patience: Duration) -> Result<Vec<TakenCall>, BusError> {
        let mut calls = Vec::new();
        loop {
            match tokio::time::timeout(patience, messages.next()).await {
                Ok(Some(Ok(message))) => calls.extend(taken(&self.tool, message)),
                // What came before the error is taken; the next request meets it again.
                Ok(Some(Err(error))) if calls.is_empty() => return Err(BusError::unavailable("take calls")(error)),
                Ok(Some(Err(_)) | None) => return Ok(calls),
                // The connection was lost: the server knows nothing of the request any more.
                Err(_) => return Ok(calls),
            }
        }
    }
}

/// A call that a worker holds. It says so from time to time ([`TakenCall::alive`]), answers by
/// [`Bus::command_answer`], and then lets go of it ([`TakenCall::done`]).
#[derive(Debug)]
pub struct TakenCall {
    pub call: HostCall,
    /// Subject for the answer.
    pub reply: String,
    /// The attempt as it was queued, without redeliveries: the number that the answer repeats, and by
    /// which the run knows which attempt ended.
    pub attempt: u32,
    lease: Lease,
}

struct Lease(Acker);

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lease")
    }
}

impl TakenCall {
    /// Keeps the call from going to another worker for the queue's silence from now. Waits until the
    /// queue has heard so.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn alive(&self) -> Result<(), BusError> {
        self.lease.0.double_ack_with(AckKind::Progress).await.map_err(BusError::unavailable("keep a call"))
    }

    /// The call has been answered. Waits until the queue has heard so.
    ///
    /// # Errors
    /// When NATS does not answer: the call may come again, to this worker or another one.
    pub async fn done(&self) -> Result<(), BusError> {
        self.lease.0.double_ack().await.map_err(BusError::unavailable("finish a call"))
    }

    /// As [`TakenCall::done`], without waiting: the word is on its way, and costs no round trip. If it
    /// is lost the call comes again, with the same key.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn done_unconfirmed(&self) -> Result<(), BusError> {
        self.lease.0.ack().await.map_err(BusError::unavailable("finish a call"))
    }

    /// Gives the call back to the queue, unhandled, at once.
    ///
    /// # Errors
    /// When NATS does not answer: it goes back by itself after the queue's silence.
    pub async fn give_back(&self) -> Result<(), BusError> {
        self.lease.0.ack_with(AckKind::Nak(None)).await.map_err(BusError::unavailable("give a call back"))
    }
}

fn taken(tool: &str, message: jetstream::Message) -> Option<TakenCall> {
    let redelivered = message.info().map_or(0, |info| u32::try_from(info.delivered - 1).unwrap_or(0));
    let (message, acker) = message.split();
    match decode(tool, &message) {
        Ok((mut call, reply)) => {
            let attempt = call.attempt;
            call.attempt = attempt.saturating_add(redelivered);
            Some(TakenCall { call, reply, attempt, lease: Lease(acker) })
        }
        Err(why) => {
            tracing::error!(subject = %message.subject, why, "a message that is no host call: left in its queue");
            None
        }
    }
}

fn decode(tool: &str, message: &async_nats::Message) -> Result<(HostCall, String), String> {
    let headers = message.headers.as_ref().ok_or("it has no headers")?;
    let text = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
    let required = |name: &str| text(name).ok_or_else(|| format!("it has no {name} header"));
    let number = |name: &str| required(name)?.parse::<u64>().map_err(|error| format!("{name}: {error}"));
    let arguments = match text(header::BLOB) {
        Some(digest) => Payload::Blob { digest: digest.parse().map_err(|_| "Rewind-Blob is no digest")?, size: 0 },
        None => {
            let body = String::from_utf8(message.payload.to_vec()).map_err(|error| error.to_string())?;
            Payload::Inline(Json::parse(body).map_err(|error| error.to_string())?)
        }
    };
    let traceparent = required(header::TRACEPARENT)?;
    let trace = TraceContext::parse(&traceparent, text(header::TRACESTATE).as_deref());
    let call = HostCall {
        tool: tool.to_owned(),
        key: required(header::KEY)?.parse()?,
        attempt: u32::try_from(number(header::ATTEMPT)?).unwrap_or(u32::MAX),
        arguments,
        timeout: Duration::from_millis(number(header::TIMEOUT_MS)?),
        namespace: text(header::NAMESPACE),
        at_most_once: text(header::DELIVERY).as_deref() == Some(AT_MOST_ONCE),
        trace: trace.ok_or("traceparent is not valid")?,
    };
    Ok((call, required(header::REPLY)?))
}
