//! Events for harnesses: a stream in which each thing that happened is once, and a durable consumer for each
//! endpoint that is told of it.

use std::{fmt, str::FromStr, time::Duration};

use async_nats::{
    HeaderMap,
    jetstream::{
        self, AckKind,
        consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull},
    },
};
use bytes::Bytes;
use futures::StreamExt;
use rewind_model::{Digest, EventId, EventType, RunId, Seq, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Bus, BusError, error::unavailable, names, names::header, publish::Published};

/// A coordinator that took an event and is silent for this long has lost it to another one.
pub const ACK_WAIT: Duration = Duration::from_secs(30);
/// A consumer that nobody has asked for this long is of an endpoint that is there no more.
const FORGOTTEN: Duration = Duration::from_secs(8 * 86_400);
/// How long one request for events waits.
const EXPIRES: Duration = Duration::from_secs(20);

/// Key in the cluster's bucket.
const CURSOR: &str = "events";

/// The events of all journal messages up to here are in the stream.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Cursor {
    sequence: u64,
}

/// An event on its way to endpoints.
#[derive(Clone)]
pub struct EventMessage {
    pub id: EventId,
    pub kind: EventType,
    pub run: RunId,
    /// What the endpoint gets, byte for byte: JSON.
    pub body: Bytes,
    /// The run's own endpoint. It may hold a token: `Debug` does not show it.
    pub webhook: Option<String>,
}

impl fmt::Debug for EventMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventMessage { id, kind, run, .. } = self;
        f.debug_struct("EventMessage").field("id", id).field("kind", kind).field("run", run).finish_non_exhaustive()
    }
}

impl EventMessage {
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::EVENT, self.id.as_str());
        headers.insert(header::TYPE, self.kind.as_str());
        headers.insert(header::RUN, self.run.as_str());
        if let Some(webhook) = &self.webhook {
            headers.insert(header::WEBHOOK, webhook.as_str());
        }
        headers
    }

    /// `None` for a message that is no event.
    pub(crate) fn of(headers: &HeaderMap, body: Bytes) -> Option<Self> {
        Some(Self {
            id: parsed(headers, header::EVENT)?,
            kind: parsed(headers, header::TYPE)?,
            run: parsed(headers, header::RUN)?,
            body,
            webhook: headers.get(header::WEBHOOK).map(|value| value.as_str().to_owned()),
        })
    }
}

pub(crate) fn parsed<T: FromStr>(headers: &HeaderMap, name: &str) -> Option<T> {
    headers.get(name)?.as_str().parse().ok()
}

/// Which endpoint: one of the installation's, or all that runs name for themselves. One subject token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndpointId(String);

impl EndpointId {
    /// Those that runs name for themselves.
    pub fn runs() -> Self {
        Self("runs".into())
    }
    /// Of the installation's endpoint at `url`: tells nothing of it.
    pub fn of_url(url: &str) -> Self {
        Self(Digest::of(url.as_bytes()).to_string()[..16].to_owned())
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for EndpointId {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if digits || text == "runs" { Ok(Self(text.to_owned())) } else { Err("no endpoint has this name") }
    }
}

/// An event as an endpoint's consumer brought it. Dropped without a word, it comes again after [`ACK_WAIT`].
#[derive(Debug)]
pub struct EventDelivery {
    pub event: EventMessage,
    /// How often it has been brought, this time included.
    pub deliveries: u32,
    /// When it was put into the stream.
    pub published: Timestamp,
    acker: EventAck,
}

impl EventDelivery {
    /// It is dealt with. A word that is lost costs one more delivery.
    pub async fn done(self) {
        self.acker.say(AckKind::Ack).await;
    }

    /// It is to come again after `wait`.
    pub async fn again_in(self, wait: Duration) {
        self.acker.say(AckKind::Nak(Some(wait))).await;
    }

    /// It is still being worked on.
    pub async fn working(&self) {
        self.acker.say(AckKind::Progress).await;
    }
}

struct EventAck(jetstream::message::Acker);

impl EventAck {
    async fn say(&self, word: AckKind) {
        if let Err(error) = self.0.ack_with(word).await {
            tracing::debug!(%error, "a word about an event could not be sent; it will come again");
        }
    }
}

impl fmt::Debug for EventAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventAck")
    }
}

/// From which an endpoint is served. Coordinators share it: each event comes to one of them at a time.
#[derive(Clone)]
pub struct EventConsumer(PullConsumer);

impl fmt::Debug for EventConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventConsumer")
    }
}

impl EventConsumer {
    /// The next events, `most` of them or those that come within 20 seconds.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn take(
        &self,
        most: usize,
    ) -> Result<impl futures::Stream<Item = Result<EventDelivery, BusError>> + Send + use<>, BusError> {
        let batch = self.0.batch().max_messages(most).expires(EXPIRES).messages();
        let batch = batch.await.map_err(unavailable("take events"))?;
        Ok(batch.filter_map(async |message| match message {
            Ok(message) => delivery(message).await.map(Ok),
            Err(error) => Some(Err(BusError::Unavailable { what: "take events", why: error.to_string() })),
        }))
    }
}

/// What is no event is taken out of the consumer's way.
async fn delivery(message: jetstream::Message) -> Option<EventDelivery> {
    let (deliveries, published) = message.info().ok().map(|info| (info.delivered, info.published))?;
    let (message, acker) = message.split();
    let acker = EventAck(acker);
    let event = message.headers.as_ref().and_then(|headers| EventMessage::of(headers, message.payload.clone()));
    let Some(event) = event else {
        tracing::warn!(subject = %message.subject, "a message that is no event is among the events");
        acker.say(AckKind::Term).await;
        return None;
    };
    let published = i64::try_from(published.unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
    let published = Timestamp::from_unix_ms(published);
    Some(EventDelivery { event, deliveries: u32::try_from(deliveries).unwrap_or(u32::MAX), published, acker })
}

impl Bus {
    /// Tells of something that happened, once: `false` when it has been told before. `parking` as in
    /// [`names::event`].
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn publish_event(
        &self,
        namespace: Option<&str>,
        parking: Option<(Seq, u32)>,
        event: &EventMessage,
    ) -> Result<bool, BusError> {
        let subject = names::event(namespace, event.kind, &event.run, parking);
        match self.publish("tell of an event", subject, event.headers(), event.body.clone()).await? {
            Published::Stored(_) => Ok(true),
            Published::Full | Published::Conflict => Ok(false),
        }
    }

    /// The consumer of an endpoint. A new one of an installation's endpoint begins with what happens from now on.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn event_consumer(&self, endpoint: &EndpointId) -> Result<EventConsumer, BusError> {
        let stream = self.jetstream.get_stream_no_info(names::EVENTS).await.map_err(unavailable("take events"))?;
        let own = *endpoint == EndpointId::runs();
        let config = pull::Config {
            durable_name: Some(names::event_consumer(endpoint.as_str())),
            description: Some("Rewind: events for an endpoint".into()),
            filter_subjects: vec![names::EVENT_ALL.into(), names::resends_of(endpoint.as_str())],
            deliver_policy: if own { DeliverPolicy::All } else { DeliverPolicy::New },
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            // Events that wait for their next attempt count: a limit would keep new ones from being tried.
            max_ack_pending: -1,
            inactive_threshold: FORGOTTEN,
            ..Default::default()
        };
        stream.create_consumer(config).await.map(EventConsumer).map_err(unavailable("take events"))
    }

    /// Up to which sequence of the journal everything has been told.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn event_cursor(&self) -> Result<u64, BusError> {
        let bucket = self.jetstream.get_key_value(names::CLUSTER).await.map_err(unavailable("read the cursor"))?;
        let body = bucket.get(CURSOR).await.map_err(unavailable("read the cursor"))?;
        let malformed = |error: serde_json::Error| BusError::Malformed { what: CURSOR.into(), why: error.to_string() };
        let cursor = body.map(|body| serde_json::from_slice::<Cursor>(&body)).transpose().map_err(malformed)?;
        Ok(cursor.map_or(0, |cursor| cursor.sequence))
    }

    /// Whoever says so is right, whatever another coordinator said before: going back costs work only.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn set_event_cursor(&self, sequence: u64) -> Result<(), BusError> {
        let bucket = self.jetstream.get_key_value(names::CLUSTER).await.map_err(unavailable("write the cursor"))?;
        bucket.put(CURSOR, cursor_body(sequence)).await.map(drop).map_err(unavailable("write the cursor"))
    }

    /// An installation that had runs before it had events does not tell of the past.
    pub(crate) async fn begin_event_cursor(&self) -> Result<(), BusError> {
        let what = "begin the cursor";
        let bucket = self.jetstream.get_key_value(names::CLUSTER).await.map_err(unavailable(what))?;
        if bucket.get(CURSOR).await.map_err(unavailable(what))?.is_some() {
            return Ok(());
        }
        let journal = self.jetstream.get_stream(names::JOURNAL).await.map_err(unavailable(what))?;
        let last = journal.cached_info().state.last_sequence;
        match bucket.create(CURSOR, cursor_body(last)).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == jetstream::kv::CreateErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(unavailable(what)(error)),
        }
    }
}

fn cursor_body(sequence: u64) -> Bytes {
    serde_json::to_vec(&Cursor { sequence }).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_back_from_its_headers_and_debug_hides_where_it_goes() {
        let event = EventMessage {
            id: EventId::of_bytes(b"e"),
            kind: EventType::ApprovalRequired,
            run: RunId::new(1),
            body: Bytes::from_static(b"{}"),
            webhook: Some("https://example.com/hooks/t0ken".into()),
        };
        let again = EventMessage::of(&event.headers(), event.body.clone()).expect("an event");
        assert_eq!((&again.id, again.kind, &again.webhook), (&event.id, event.kind, &event.webhook));
        assert!(!format!("{event:?}").contains("t0ken"));
    }

    #[test]
    fn an_endpoint_is_one_token_that_tells_nothing() {
        let id = EndpointId::of_url("https://example.com/hooks/t0ken");
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        assert!("a.b".parse::<EndpointId>().is_err() && "*".parse::<EndpointId>().is_err());
    }
}
