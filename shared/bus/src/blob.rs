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
}
