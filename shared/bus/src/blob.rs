//! Payloads too large for a message, in an object store under their SHA-256.

use rewind_model::{Digest, Json, Payload};
use tokio::io::AsyncReadExt;

use crate::{Bus, BusError, error::unavailable, names};

impl Bus {
    /// Stores `bytes` under their digest, unless they are there already.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn put_blob(&self, bytes: &[u8]) -> Result<Digest, BusError> {
        let digest = Digest::of(bytes);
        let store = self.jetstream.get_object_store(names::BLOBS).await.map_err(unavailable("open the blob store"))?;
        if store.info(digest.to_string()).await.is_err() {
            let mut reader = bytes;
            store.put(digest.to_string().as_str(), &mut reader).await.map_err(unavailable("store a blob"))?;
        }
        Ok(digest)
    }

    /// # Errors
    /// When NATS does not answer, or there is no such blob.
    pub async fn get_blob(&self, digest: Digest) -> Result<Vec<u8>, BusError> {
        let store = self.jetstream.get_object_store(names::BLOBS).await.map_err(unavailable("open the blob store"))?;
        let mut object = match store.get(digest.to_string()).await {
            Ok(object) => object,
            Err(error) if error.kind() == async_nats::jetstream::object_store::GetErrorKind::NotFound => {
                return Err(BusError::BlobMissing(digest));
            }
            Err(error) => return Err(unavailable("read a blob")(error)),
        };
        let mut bytes = Vec::with_capacity(object.info().size);
        object.read_to_end(&mut bytes).await.map_err(unavailable("read a blob"))?;
        // The same blob stored again at this moment can cut a read short.
        if Digest::of(&bytes) == digest { Ok(bytes) } else { Err(unavailable("read a blob")("it changed while read")) }
    }

    /// How many bytes a blob has, whatever who names it says.
    ///
    /// # Errors
    /// As [`Bus::get_blob`].
    pub async fn blob_size(&self, digest: Digest) -> Result<u64, BusError> {
        let store = self.jetstream.get_object_store(names::BLOBS).await.map_err(unavailable("open the blob store"))?;
        match store.info(digest.to_string()).await {
            Ok(info) => Ok(info.size as u64),
            Err(error) if error.kind() == async_nats::jetstream::object_store::InfoErrorKind::NotFound => {
                Err(BusError::BlobMissing(digest))
            }
            Err(error) => Err(unavailable("read a blob")(error)),
        }
    }

    /// The first bytes of a blob, at most `limit`; the rest is not read, so they are not checked
    /// against the digest. For display.
    ///
    /// # Errors
    /// As [`Bus::get_blob`].
    pub async fn blob_head(&self, digest: Digest, limit: usize) -> Result<Vec<u8>, BusError> {
        let store = self.jetstream.get_object_store(names::BLOBS).await.map_err(unavailable("open the blob store"))?;
        let object = store.get(digest.to_string()).await;
        let object = object.map_err(|error| match error.kind() {
            async_nats::jetstream::object_store::GetErrorKind::NotFound => BusError::BlobMissing(digest),
            _ => unavailable("read a blob")(error),
        })?;
        let mut bytes = Vec::with_capacity(limit);
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        object.take(limit).read_to_end(&mut bytes).await.map_err(unavailable("read a blob"))?;
        Ok(bytes)
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
    /// When there is no such blob, or it is no JSON.
    pub async fn payload_json_surely(&self, payload: &Payload) -> Result<Json, BusError> {
        self.retry("read a blob", || self.payload_json(payload)).await
    }

    /// Puts an inline payload into the blob store.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn payload_to_blob(&self, payload: &mut Payload) -> Result<(), BusError> {
        if let Payload::Inline(json) = payload {
            let digest = self.put_blob(json.as_str().as_bytes()).await?;
            *payload = Payload::Blob { digest, size: json.len() as u64 };
        }
        Ok(())
    }

    /// As [`Bus::payload_to_blob`], however long NATS is away.
    ///
    /// # Errors
    /// When the store refuses the blob for good.
    pub async fn payload_to_blob_surely(&self, payload: &mut Payload) -> Result<(), BusError> {
        if let Payload::Inline(json) = payload {
            let bytes = json.as_str().as_bytes();
            let digest = self.retry("store a blob", || self.put_blob(bytes)).await?;
            *payload = Payload::Blob { digest, size: bytes.len() as u64 };
        }
        Ok(())
    }
}
