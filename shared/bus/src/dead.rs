//! Dead letters: events that an endpoint did not take, with what came of the last attempt.

use async_nats::{
    HeaderMap,
    jetstream::{
        consumer::{DeliverPolicy, pull},
        stream::RawMessageErrorKind,
    },
};
use bytes::Bytes;
use futures::TryStreamExt;
use rewind_model::{DeadDelivery, EventId, Timestamp};

use crate::{
    Bus, BusError,
    error::unavailable,
    event::{EndpointId, EventMessage, parsed},
    journal::ephemeral,
    names,
    names::header,
    publish::Published,
};

/// Why an event is given up.
#[derive(Debug, Clone)]
pub struct Death {
    /// Scheme, host and port.
    pub endpoint: String,
    /// What came of the last attempt.
    pub why: String,
    pub attempts: u32,
}

/// A dead delivery, and its place in the list.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    pub sequence: u64,
    pub delivery: DeadDelivery,
}

impl Bus {
    /// Keeps an event that an endpoint did not take; again for the same: instead of the one before.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn bury(&self, endpoint: &EndpointId, event: &EventMessage, death: &Death) -> Result<(), BusError> {
        let mut headers = event.headers();
        headers.insert(header::ENDPOINT, visible(&death.endpoint).as_str());
        headers.insert(header::WHY, visible(&death.why).as_str());
        headers.insert(header::ATTEMPTS, death.attempts.to_string().as_str());
        let subject = names::dead(endpoint.as_str(), &event.id);
        self.publish_plain("keep a dead event", subject, headers, event.body.clone()).await.map(drop)
    }

    /// The oldest dead deliveries after the one at `after`.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn dead_letters(&self, after: u64, limit: usize) -> Result<Vec<DeadLetter>, BusError> {
        let what = "list dead events";
        let stream = self.jetstream.get_stream_no_info(names::DEAD).await.map_err(unavailable(what))?;
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: after + 1 },
            headers_only: true,
            ..ephemeral()
        };
        let consumer = stream.create_consumer(config).await.map_err(unavailable(what))?;
        let pending = usize::try_from(consumer.cached_info().num_pending).unwrap_or(usize::MAX);
        let mut letters = Vec::new();
        let mut left = pending.min(limit);
        while left > 0 {
            let mut page = consumer.fetch().max_messages(left).messages().await.map_err(unavailable(what))?;
            let before = left;
            while let Some(message) = page.try_next().await.map_err(BusError::unavailable(what))? {
                let info = message.info().map_err(BusError::unavailable(what))?;
                let headers = message.headers.as_ref();
                let since = millis(info.published);
                letters
                    .extend(headers.and_then(|headers| letter(info.stream_sequence, &message.subject, headers, since)));
                left = left.saturating_sub(1);
            }
            if left == before {
                // What was to come has been sent again, or is too old by now.
                break;
            }
        }
        let _ = stream.delete_consumer(&consumer.cached_info().name).await;
        Ok(letters)
    }

    /// Sends a dead event again, to the endpoint that did not take it, with the same id; `false` when there is none.
    ///
    /// # Errors
    /// When NATS does not answer: it may be on its way or not, and the same again is safe.
    pub async fn resend(&self, endpoint: &EndpointId, event: &EventId) -> Result<bool, BusError> {
        let what = "send an event again";
        let stream = self.jetstream.get_stream_no_info(names::DEAD).await.map_err(unavailable(what))?;
        let subject = names::dead(endpoint.as_str(), event);
        let message = match stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => message,
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => return Ok(false),
            Err(error) => return Err(unavailable(what)(error)),
        };
        let malformed = || BusError::Malformed { what: subject.clone(), why: "its headers are not of an event".into() };
        let letter = EventMessage::of(&message.headers, message.payload.clone()).ok_or_else(malformed)?;
        let to = names::resend(endpoint.as_str(), event, message.sequence);
        match self.publish(what, to, letter.headers(), letter.body.clone()).await? {
            // Full: somebody else does the same, or did and died before the next line.
            Published::Stored(_) | Published::Full | Published::Conflict => {}
        }
        if let Err(error) = stream.delete_message(message.sequence).await {
            tracing::debug!(%event, %error, "an event that was sent again may still be listed as dead");
        }
        Ok(true)
    }
}

/// `None` for a message that Rewind did not write.
fn letter(sequence: u64, subject: &str, headers: &HeaderMap, since: Timestamp) -> Option<DeadLetter> {
    let endpoint: EndpointId = subject.split('.').nth(2)?.parse().ok()?;
    let event = EventMessage::of(headers, Bytes::new())?;
    let text = |name| headers.get(name).map(|value| value.as_str().to_owned());
    let delivery = DeadDelivery {
        id: format!("{}-{endpoint}", event.id),
        event: event.id,
        kind: event.kind,
        run: event.run,
        endpoint: text(header::ENDPOINT)?,
        why: text(header::WHY)?,
        attempts: parsed(headers, header::ATTEMPTS)?,
        since,
    };
    Some(DeadLetter { sequence, delivery })
}

/// A header is one line.
fn visible(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii() && !c.is_ascii_control()).take(300).collect()
}

fn millis(at: async_nats::datetime::DateTime) -> Timestamp {
    Timestamp::from_unix_ms(i64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or_default())
}
