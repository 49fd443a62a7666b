use serde::{Deserialize, Serialize, de::IgnoredAny};

use crate::Record;

/// One journal message: all that one turn recorded. Written whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Version of the envelope: 1. Records have none: see [`Record`].
    pub v: u8,
    pub records: Vec<Record>,
}

/// Levels of maps and arrays in a message. Records have about ten; rmp-serde's own limit of 1024
/// overflows the 2 MiB stack of a thread in a debug build when it skips an unknown field.
const MAX_DEPTH: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    #[error("the journal message is no entry of this build's format: {0}")]
    Malformed(#[from] rmp_serde::decode::Error),
    #[error("the journal message has envelope version {0}; this build reads version 1: upgrade it")]
    Version(u8),
    #[error("the journal message goes on after the end of its entry: something else than Rewind wrote it")]
    Trailing,
    #[error("the entry cannot be written: {0}")]
    Unwritable(#[from] rmp_serde::encode::Error),
}

impl Entry {
    pub fn new(records: Vec<Record>) -> Self {
        Self { v: 1, records }
    }

    /// MessagePack with named fields, so that a reader can skip fields that it does not know.
    ///
    /// # Errors
    /// When the records cannot be encoded (a text over 4 GiB).
    pub fn to_bytes(&self) -> Result<Vec<u8>, EntryError> {
        Ok(rmp_serde::to_vec_named(self)?)
    }

    /// # Errors
    /// When `bytes` are no entry, more than one, or one of a later version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EntryError> {
        let mut deserializer = deserializer(bytes);
        let decoded = Self::deserialize(&mut deserializer);
        // A later envelope may hold records that this build cannot read: its version is the reason.
        match decoded {
            Ok(entry) if entry.v != 1 => Err(EntryError::Version(entry.v)),
            Ok(_) if !at_end(&mut deserializer) => Err(EntryError::Trailing),
            Ok(entry) => Ok(entry),
            Err(error) => match Envelope::deserialize(&mut self::deserializer(bytes)) {
                Ok(Envelope { v }) if v != 1 => Err(EntryError::Version(v)),
                Ok(_) | Err(_) => Err(EntryError::Malformed(error)),
            },
        }
    }
}

type Deserializer<'de> = rmp_serde::Deserializer<rmp_serde::decode::ReadRefReader<'de, [u8]>>;

fn deserializer(bytes: &[u8]) -> Deserializer<'_> {
    let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
    deserializer.set_max_depth(MAX_DEPTH);
    deserializer
}

/// Are all bytes read? The reader does not tell its position, but there is no marker after the last.
fn at_end(deserializer: &mut Deserializer<'_>) -> bool {
    matches!(IgnoredAny::deserialize(deserializer), Err(rmp_serde::decode::Error::InvalidMarkerRead(_)))
}

/// The part of an entry that every version has.
#[derive(Deserialize)]
struct Envelope {
    v: u8,
}
