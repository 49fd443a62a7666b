//! Payloads too large for a message, in an object store under their SHA-256.

use std::time::Duration;

use rewind_model::{Digest, Json, Payload, RunId};

use crate::{Bus, BusError};

/// How often, and for how long, a blob that is missing is waited for.
const MISSED: usize = 3;
const PUT_BACK: Duration = Duration::from_millis(500);

/// How often a blob is read that is not what it is called.
const READ: usize = 3;

impl Bus {
    /// # Errors
    /// When NATS does not answer, or there is no such blob, or not all of it.
    pub async fn get_blob(&self, digest: Digest) -> Result<Vec<u8>, BusError> {
        for _ in 0..READ {
            let bytes = self.read_blob(digest, usize::MAX).await?;
            // The same blob stored again at this moment can cut a read short.
            if Digest::of(&bytes) == digest {
                return Ok(bytes);
            }
        }
        Err(BusError::BlobMissing(digest))
    }

    async fn read_blob(&self, digest: Digest, limit: usize) -> Result<Vec<u8>, BusError> {
        let info = self.object(digest).await?.and_then(|object| object.info);
        let missing = BusError::BlobMissing(digest);
        match info {
            Some(info) => self.chunks(&info, limit).await?.ok_or(missing),
            None => Err(missing),
        }
    }

    /// How many bytes a blob has, whatever who names it says.
    ///
    /// # Errors
    /// As [`Bus::get_blob`].
    pub async fn blob_size(&self, digest: Digest) -> Result<u64, BusError> {
        let info = self.object(digest).await?.and_then(|object| object.info);
        info.map(|info| info.size as u64).ok_or(BusError::BlobMissing(digest))
    }

    /// The first bytes of a blob, at most `limit`; the rest is not read, so they are not checked
    /// against the digest. For display.
    ///
    /// # Errors
    /// As [`Bus::get_blob`].
    pub async fn blob_head(&self, digest: Digest, limit: usize) -> Result<Vec<u8>, BusError> {
        self.read_blob(digest, limit).await
    }

    /// The JSON text of a payload, from the blob store where it is there.
    ///
    /// # Errors
    /// As [`Bus::get_blob`]; [`BusError::Malformed`] when the blob is no JSON.
    pub async fn payload_json(&self, payload: &Payload) -> Result<Json, BusError> {
        let digest = match payload {
            Payload::Inline(json) => return Ok(json.clone()),
            Payload::Blob { digest, .. } => *digest,
        };
        let malformed = |why: String| BusError::Malformed { what: format!("the blob {digest}"), why };
        let text = String::from_utf8(self.get_blob(digest).await?).map_err(|error| malformed(error.to_string()))?;
        Json::parse(text).map_err(|error| malformed(error.to_string()))
    }

    /// As [`Bus::payload_json`], however long NATS is away.
    ///
    /// # Errors
    /// When there is no such blob, also after a moment, or it is no JSON.
    pub async fn payload_json_surely(&self, payload: &Payload) -> Result<Json, BusError> {
        for _ in 0..MISSED {
            match self.retry("read a blob", || self.payload_json(payload)).await {
                // Whoever removes one that is in use again puts it back.
                Err(BusError::BlobMissing(_)) => tokio::time::sleep(PUT_BACK).await,
                done => return done,
            }
        }
        self.retry("read a blob", || self.payload_json(payload)).await
    }

    /// Puts an inline payload of the run into the blob store.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn payload_to_blob(&self, run: &RunId, payload: &mut Payload) -> Result<(), BusError> {
        if let Payload::Inline(json) = payload {
            let digest = self.put_blob_for(run.as_str(), json.as_str().as_bytes()).await?;
            *payload = Payload::Blob { digest, size: json.len() as u64 };
        }
        Ok(())
    }

    /// As [`Bus::payload_to_blob`], however long NATS is away.
    ///
    /// # Errors
    /// When the store refuses the blob for good.
    pub async fn payload_to_blob_surely(&self, run: &RunId, payload: &mut Payload) -> Result<(), BusError> {
        if let Payload::Inline(json) = payload {
            let bytes = json.as_str().as_bytes();
            let digest = self.retry("store a blob", || self.put_blob_for(run.as_str(), bytes)).await?;
            *payload = Payload::Blob { digest, size: bytes.len() as u64 };
        }
        Ok(())
    }
}
