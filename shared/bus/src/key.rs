//! API keys, as hashes: who reads the bucket learns no key.

use rewind_model::Digest;
use serde::{Deserialize, Serialize};

use crate::{Bus, BusError, error::unavailable, names};

/// What is stored about an API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    pub role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Admin,
}

impl Bus {
    /// # Errors
    /// When NATS does not answer.
    pub async fn put_key(&self, hash: Digest, record: &KeyRecord) -> Result<(), BusError> {
        let bucket = self.jetstream.get_key_value(names::KEYS).await.map_err(unavailable("open the key bucket"))?;
        let body = serde_json::to_vec(record).map_err(unavailable("write a key"))?;
        bucket.put(hash.to_string(), body.into()).await.map(drop).map_err(unavailable("write a key"))
    }

    /// # Errors
    /// When NATS does not answer.
    pub async fn key(&self, hash: Digest) -> Result<Option<KeyRecord>, BusError> {
        let bucket = self.jetstream.get_key_value(names::KEYS).await.map_err(unavailable("open the key bucket"))?;
        let Some(body) = bucket.get(hash.to_string()).await.map_err(unavailable("read a key"))? else {
            return Ok(None);
        };
        serde_json::from_slice(&body)
            .map(Some)
            .map_err(|error| BusError::Malformed { what: "an API key".into(), why: error.to_string() })
    }
}
