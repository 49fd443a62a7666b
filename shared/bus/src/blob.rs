//! Payloads too large for a message, in an object store under their SHA-256.

use std::time::Duration;

use async_nats::jetstream::object_store::InfoErrorKind;
use rewind_model::{Digest, Json, Payload, RunId};

use crate::{Bus, BusError, error::unavailable, names};

/// How often, and for how long, a blob that is missing is waited for.
const MISSED: usize = 3;
const PUT_BACK: Duration = Duration::from_millis(500);

impl Bus {
    /// Stores `bytes` under their digest, unless they are there already. Its use has been noted.
    pub(crate) async fn put_blob(&self, digest: Digest, bytes: &[u8]) -> Result<(), BusError> {
        let store = self.jetstream.get_object_store(names::BLOBS).await.map_err(unavailable("open the blob store"))?;
        if store.info(digest.to_string()).await.is_err() {
            let mut reader = bytes;
            store.put(digest.to_string().as_str(), &mut reader).await.map_err(unavailable("store a blob"))?;
        }
        Ok(())
    }

    /// # Errors
    /// When NATS does not answer, or there is no such blob.
    pub async fn get_blob(&self, digest: Digest) -> Result<Vec<u8>, BusError> {
        let bytes = self.read_blob(digest, usize::MAX).await?;
        // The same blob stored again at this moment can cut a read short.
        if Digest::of(&bytes) == digest { Ok(bytes) } else { Err(unavailable("read a blob")("it changed while read")) }
    }

    /// The blob's chunks, until there are `limit` bytes. One request a chunk: the client's own way makes a
    /// consumer for each read, which stays with the server for a while, and a stream has 1,000 at most.
    async fn read_blob(&self, digest: Digest, limit: usize) -> Result<Vec<u8>, BusError> {
        let store = self.jetstream.get_object_store(names::BLOBS).await.map_err(unavailable("open the blob store"))?;
        let info = match store.info(digest.to_string()).await {
            Ok(info) => info,
            Err(error) if error.kind() == InfoErrorKind::NotFound => return Err(BusError::BlobMissing(digest)),
            Err(error) => return Err(unavailable("read a blob")(error)),
        };
        let stream = format!("OBJ_{}", names::BLOBS);
        let stream = self.jetstream.get_stream_no_info(&stream).await.map_err(unavailable("read a blob"))?;
        let subject = format!("$O.{}.C.{}", names::BLOBS, info.nuid);
        let mut bytes = Vec::with_capacity(info.size.min(limit));
        let mut next = 1;
        for _ in 0..info.chunks {
            if bytes.len() >= limit {
                break;
            }
            let request = stream.raw_message_builder().sequence(next).next_by_subject(subject.as_str());
            let chunk = request.send().await.map_err(unavailable("read a blob"))?;
            next = chunk.sequence + 1;
            bytes.extend_from_slice(&chunk.payload);
        }
        bytes.truncate(limit);
        Ok(bytes)
    }

    /// How many bytes a blob has, whatever who names it says.
    ///
    /// # Errors
    /// As [`Bus::get_blob`].
    pub async fn blob_size(&self, digest: Digest) -> Result<u64, BusError> {
        let store = self.jetstream.get_object_store(names::BLOBS).await.map_err(unavailable("open the blob store"))?;
        match store.info(digest.to_string()).await {
            Ok(info) => Ok(info.size as u64),
            Err(error) if error.kind() == InfoErrorKind::NotFound => Err(BusError::BlobMissing(digest)),
            Err(error) => Err(unavailable("read a blob")(error)),
        }
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
