use rewind_model::{Digest, RunId};

/// What can go wrong on the bus.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// NATS does not answer, or has no leader, or no room: the same again later may succeed.
    #[error("NATS does not answer ({what}): {why}")]
    Unavailable { what: &'static str, why: String },
    /// Somebody else has appended since: what this process holds of the run is stale.
    #[error("{run}: another owner has appended to the journal (expected last sequence {expected})")]
    Fenced { run: RunId, expected: u64 },
    /// Nothing was stored. Payloads belong into blobs before they come here.
    #[error("a message of {bytes} bytes is over the server's max_payload ({what})")]
    TooLarge { what: &'static str, bytes: usize },
    #[error("NATS refused ({what}): {why}")]
    Refused { what: &'static str, why: String },
    #[error("the blob {0} is not in the store")]
    BlobMissing(Digest),
    #[error("what is stored under {what} is not what this build writes: {why}")]
    Malformed { what: String, why: String },
    #[error("the NATS URL is not valid: {0}")]
    Url(String),
}

impl BusError {
    /// May the same call succeed later?
    pub fn retryable(&self) -> bool {
        match self {
            BusError::Unavailable { .. } => true,
            BusError::Fenced { .. }
            | BusError::TooLarge { .. }
            | BusError::Refused { .. }
            | BusError::BlobMissing(_)
            | BusError::Malformed { .. }
            | BusError::Url(_) => false,
        }
    }

    pub(crate) fn unavailable(what: &'static str) -> impl Fn(async_nats::Error) -> BusError {
        move |error| BusError::Unavailable { what, why: error.to_string() }
    }
}

/// Any failing request whose cause does not matter: it may succeed later.
pub(crate) fn unavailable<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> BusError {
    move |error| BusError::Unavailable { what, why: error.to_string() }
}
