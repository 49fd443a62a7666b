//! The end of what is kept of a run.

use std::{collections::BTreeSet, time::Duration};

use async_nats::jetstream::kv;
use futures::{Stream, StreamExt, TryStreamExt};
use rewind_model::{Digest, RunId, Timestamp};
use rewind_run::{History, Record};

use crate::{Bus, BusError, error::unavailable, names};

/// How long it is known of a run that it was purged.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(365 * 86_400);

impl Bus {
    /// Removes all that any stream or bucket holds of a run that has ended, but for its id, of which it is known
    /// for a year that it was purged. Its journal goes last: if this fails, the run is still found, and
    /// it is to be done again.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn purge_run(&self, run: &RunId) -> Result<(), BusError> {
        let blobs = self.blobs_of(run).await?;
        let bucket = self.jetstream.get_key_value(names::PURGED).await.map_err(unavailable("purge a run"))?;
        let at = Timestamp::now().to_string();
        bucket.put(run.as_str(), at.into()).await.map_err(unavailable("purge a run"))?;
        for digest in blobs {
            self.release_blob(run.as_str(), digest).await?;
        }
        let begun = names::bucket_subject(names::BEGUN, &format!("{run}.*"));
        self.purge_subject(&names::bucket_stream(names::BEGUN), &begun).await?;
        self.purge_subject(names::COMMANDS, &names::timers_of_run(run)).await?;
        self.purge_subject(names::COMMANDS, &names::command(run)).await?;
        self.purge_subject(names::HOST, &names::host_of_run(run)).await?;
        for events in names::events_of_run(run) {
            for (subject, _) in self.subjects(names::EVENTS, &events).await? {
                if let Some(event) = names::event_of(&subject) {
                    self.purge_subject(names::DEAD, &names::dead_of_event(&event)).await?;
                }
            }
            self.purge_subject(names::EVENTS, &events).await?;
        }
        self.purge_subject(names::JOURNAL, &names::journal(run)).await
    }

    /// Was there such a run, and was it purged?
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn is_purged(&self, run: &RunId) -> Result<bool, BusError> {
        let bucket = self.jetstream.get_key_value(names::PURGED).await.map_err(unavailable("look for a purged run"))?;
        Ok(bucket.get(run.as_str()).await.map_err(unavailable("look for a purged run"))?.is_some())
    }

    /// Every subject of every stream that names the run: what is kept of it, and where.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn traces_of(&self, run: &RunId) -> Result<Vec<String>, BusError> {
        self.subjects_with(run.as_str()).await
    }

    /// Every subject of every stream that has `part` in it.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn subjects_with(&self, part: &str) -> Result<Vec<String>, BusError> {
        let mut names = self.jetstream.stream_names();
        let mut traces = Vec::new();
        while let Some(name) = names.try_next().await.map_err(unavailable("list streams"))? {
            let subjects = self.subjects(&name, ">").await?;
            traces.extend(subjects.into_iter().map(|(subject, _)| subject).filter(|subject| subject.contains(part)));
        }
        Ok(traces)
    }

    /// Runs that are purged from now on, for ever.
    ///
    /// # Errors
    /// When NATS does not answer at the beginning.
    pub async fn watch_purged(&self) -> Result<impl Stream<Item = RunId> + Send + use<>, BusError> {
        let bucket = self.jetstream.get_key_value(names::PURGED).await.map_err(unavailable("watch purged runs"))?;
        let watch = bucket.watch_all().await.map_err(unavailable("watch purged runs"))?;
        Ok(watch.filter_map(async |entry| match entry {
            Ok(kv::Entry { key, operation: kv::Operation::Put, .. }) => key.parse().ok(),
            Ok(_) | Err(_) => None,
        }))
    }

    /// The blobs that the run, its journal or its history names.
    async fn blobs_of(&self, run: &RunId) -> Result<BTreeSet<Digest>, BusError> {
        let stored = self.read(run).await?;
        let mut blobs = BTreeSet::from_iter(self.referred_by(run).await?);
        for record in stored.iter().flat_map(|stored| &stored.entry.records) {
            blobs.extend(record.blobs());
            let Record::Created { spec, .. } = record else { continue };
            let Some(past) = &spec.past else { continue };
            match self.get_blob(past.history).await {
                // One that cannot be read names nothing that could be found.
                Ok(bytes) => blobs.extend(History::from_bytes(&bytes).iter().flat_map(History::blobs)),
                Err(BusError::BlobMissing(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(blobs)
    }

    pub(crate) async fn purge_subject(&self, stream: &str, filter: &str) -> Result<(), BusError> {
        let stream = self.jetstream.get_stream_no_info(stream).await.map_err(unavailable("purge"))?;
        stream.purge().filter(filter).await.map(drop).map_err(unavailable("purge"))
    }

    /// The subjects of a stream that match, with the number of messages on each.
    pub(crate) async fn subjects(&self, stream: &str, filter: &str) -> Result<Vec<(String, usize)>, BusError> {
        let stream = self.jetstream.get_stream_no_info(stream).await.map_err(unavailable("list subjects"))?;
        let subjects = stream.info_with_subjects(filter).await.map_err(unavailable("list subjects"))?;
        subjects.try_collect().await.map_err(unavailable("list subjects"))
    }
}
