//! Which runs, and what else, use a blob. Equal payloads are one blob, whoever has them; it goes with the last one.
//! A use is noted *before* the blob is stored, or found to be there: whoever removes it meanwhile sees that.

use bytes::Bytes;
use futures::future::try_join_all;
use rewind_model::{Digest, RunId};

use crate::{Bus, BusError, error::unavailable, names};

/// Uses that are noted at once.
const AT_ONCE: usize = 16;

impl Bus {
    /// Notes that the run's journal is going to name these blobs. To be done before it does.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn refer(&self, run: &RunId, blobs: &[Digest]) -> Result<(), BusError> {
        for some in blobs.chunks(AT_ONCE) {
            try_join_all(some.iter().map(|digest| self.note_use(run.as_str(), *digest))).await?;
        }
        Ok(())
    }

    /// Stores what a run is going to name.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn put_blob_of(&self, run: &RunId, bytes: &[u8]) -> Result<Digest, BusError> {
        self.put_blob_for(run.as_str(), bytes).await
    }

    /// Stores `bytes` for `user`, unless they are there already.
    pub(crate) async fn put_blob_for(&self, user: &str, bytes: &[u8]) -> Result<Digest, BusError> {
        let digest = Digest::of(bytes);
        self.note_use(user, digest).await?;
        self.put_blob(digest, bytes).await?;
        Ok(digest)
    }

    /// Stores what no run's end removes.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn keep_blob(&self, bytes: &[u8]) -> Result<Digest, BusError> {
        self.put_blob_for("kept", bytes).await
    }

    async fn note_use(&self, user: &str, digest: Digest) -> Result<(), BusError> {
        let bucket = self.jetstream.get_key_value(names::REFS).await.map_err(unavailable("note a blob's use"))?;
        let put = bucket.put(&names::blob_ref(digest, user), Bytes::new()).await;
        put.map(drop).map_err(unavailable("note a blob's use"))
    }

    /// Lets go of a blob that `user` used; the blob itself goes, if nobody else uses it.
    ///
    /// # Errors
    /// When NATS does not answer: to be done again.
    pub(crate) async fn release_blob(&self, user: &str, digest: Digest) -> Result<(), BusError> {
        let bytes = match self.get_blob(digest).await {
            Ok(bytes) => Some(bytes),
            Err(BusError::BlobMissing(_)) => None,
            Err(error) => return Err(error),
        };
        self.purge_subject(
            &names::bucket_stream(names::REFS),
            &names::bucket_subject(names::REFS, &names::blob_ref(digest, user)),
        )
        .await?;
        if self.is_referred(digest).await? {
            return Ok(());
        }
        self.remove_blob(digest).await?;
        // Somebody has begun to use it at this moment, and found it there.
        if let (Some(bytes), true) = (bytes, self.is_referred(digest).await?) {
            self.put_blob(digest, &bytes).await?;
        }
        Ok(())
    }

    async fn is_referred(&self, digest: Digest) -> Result<bool, BusError> {
        let filter = names::bucket_subject(names::REFS, &names::blob_ref(digest, "*"));
        let stream = names::bucket_stream(names::REFS);
        Ok(!self.subjects(&stream, &filter).await?.is_empty())
    }

    /// The blobs that the run has noted, also those that did not come into its journal.
    pub(crate) async fn referred_by(&self, run: &RunId) -> Result<Vec<Digest>, BusError> {
        let filter = names::bucket_subject(names::REFS, &names::blob_refs_of(run));
        let subjects = self.subjects(&names::bucket_stream(names::REFS), &filter).await?;
        let digest = |subject: &str| subject.rsplit('.').nth(1)?.parse().ok();
        Ok(subjects.iter().filter_map(|(subject, _)| digest(subject)).collect())
    }
}
