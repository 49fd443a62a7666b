//! Which runs use a blob. Equal payloads are one blob, whichever runs have them; it goes with the last one.

use rewind_model::{Digest, RunId};

use crate::{Bus, BusError, error::unavailable, names};

impl Bus {
    /// Notes that the run's journal is going to name these blobs. To be done before it does.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn refer(&self, run: &RunId, blobs: &[Digest]) -> Result<(), BusError> {
        if blobs.is_empty() {
            return Ok(());
        }
        let bucket = self.jetstream.get_key_value(names::REFS).await.map_err(unavailable("note a blob's use"))?;
        for digest in blobs {
            let key = names::blob_ref(*digest, run);
            bucket.put(&key, bytes::Bytes::new()).await.map_err(unavailable("note a blob's use"))?;
        }
        Ok(())
    }

    /// Lets go of a blob that the run used; the blob itself goes, if no other run uses it.
    ///
    /// # Errors
    /// When NATS does not answer: to be done again.
    pub(crate) async fn release_blob(&self, run: &RunId, digest: Digest) -> Result<(), BusError> {
        let bytes = match self.get_blob(digest).await {
            Ok(bytes) => Some(bytes),
            Err(BusError::BlobMissing(_)) => None,
            Err(error) => return Err(error),
        };
        self.purge_subject(
            &names::bucket_stream(names::REFS),
            &names::bucket_subject(names::REFS, &names::blob_ref(digest, run)),
        )
        .await?;
        if self.is_referred(digest).await? {
            return Ok(());
        }
        self.remove_blob(digest).await?;
        // Somebody has begun to use it at this moment, and found it there.
        if let (Some(bytes), true) = (bytes, self.is_referred(digest).await?) {
            self.put_blob(&bytes).await?;
        }
        Ok(())
    }

    async fn is_referred(&self, digest: Digest) -> Result<bool, BusError> {
        let filter = names::bucket_subject(names::REFS, &format!("{digest}.*"));
        let stream = names::bucket_stream(names::REFS);
        Ok(!self.subjects(&stream, &filter).await?.is_empty())
    }
}
