//! Publishing with an acknowledgement, and what its refusals mean.

use async_nats::{
    HeaderMap,
    jetstream::{self, context::PublishErrorKind, message::PublishMessage},
};
use bytes::Bytes;

use crate::{Bus, BusError};

/// JetStream's error codes (nats-server `server/errors.json`).
const STORE_FAILED: u64 = 10077;
const WRONG_LAST_SEQUENCE_CONSTANT: u64 = 10164;

/// What became of a message that JetStream did not fail to take.
pub(crate) enum Published {
    /// Stored under this sequence.
    Stored(u64),
    /// The expected last sequence of the subject was another one.
    Conflict,
    /// The subject holds as many messages as it may.
    Full,
}

impl Bus {
    pub(crate) async fn publish(
        &self,
        what: &'static str,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<Published, BusError> {
        let bytes = payload.len();
        let message = PublishMessage::build().headers(headers).payload(payload);
        let sent = async { self.jetstream.send_publish(subject, message).await?.await };
        let error = match sent.await {
            Ok(ack) => return Ok(Published::Stored(ack.sequence)),
            Err(error) => error,
        };
        let code = std::error::Error::source(&error)
            .and_then(|source| source.downcast_ref::<jetstream::Error>())
            .map(|error| (error.error_code().0, error.to_string()));
        match (error.kind(), code) {
            (PublishErrorKind::WrongLastSequence, _) | (_, Some((WRONG_LAST_SEQUENCE_CONSTANT, _))) => {
                Ok(Published::Conflict)
            }
            (_, Some((STORE_FAILED, why))) if why.contains("per subject") => Ok(Published::Full),
            (PublishErrorKind::MaxPayloadExceeded, _) => Err(BusError::TooLarge { what, bytes }),
            (_, _) => Err(BusError::Unavailable { what, why: error.to_string() }),
        }
    }

    /// Publishes what no subject sequence guards.
    pub(crate) async fn publish_plain(
        &self,
        what: &'static str,
        subject: String,
        headers: HeaderMap,
        payload: Bytes,
    ) -> Result<u64, BusError> {
        match self.publish(what, subject, headers, payload).await? {
            Published::Stored(sequence) => Ok(sequence),
            Published::Conflict | Published::Full => {
                Err(BusError::Refused { what, why: "the stream's limits do not allow the message".into() })
            }
        }
    }
}
