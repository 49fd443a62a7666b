use serde::{Deserialize, Serialize};

use crate::Record;

/// One journal message: all that one turn recorded. Written whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Version of the envelope: 1. Records have none: see [`Record`].
    pub v: u8,
    pub records: Vec<Record>,
}

#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    #[error("the journal message is no entry of this build's format: {0}")]
    Malformed(#[from] rmp_serde::decode::Error),
    #[error("the journal message has envelope version {0}; this build reads version 1: upgrade it")]
    Version(u8),
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
    /// When `bytes` are no entry, or one of a later version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EntryError> {
        let entry: Self = rmp_serde::from_slice(bytes)?;
        if entry.v == 1 { Ok(entry) } else { Err(EntryError::Version(entry.v)) }
    }
}
