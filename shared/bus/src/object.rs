//! The object store's messages (NATS' ADR-20), read and written one by one: its client makes a consumer for each
//! read, of which a stream has 1,000 at most, and of two who store the same object at once it leaves the chunks of one.

use async_nats::{
    HeaderMap, HeaderName,
    jetstream::stream::{RawMessageErrorKind, Stream},
};
use base64::{Engine, engine::general_purpose::URL_SAFE};
use bytes::Bytes;
use rewind_model::{Digest, NodeId, Timestamp};
use serde::Deserialize;
use serde_json::json;

use crate::{Bus, BusError, error::unavailable, names, publish::Published};

const CHUNK: usize = 128 << 10;

/// What the store says of an object.
#[derive(Debug)]
pub(crate) struct Object {
    /// Of the message that says so.
    sequence: u64,
    /// `None`: it was deleted by another client, or what is said cannot be read.
    pub(crate) info: Option<Info>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Info {
    nuid: String,
    pub(crate) size: usize,
    chunks: usize,
    #[serde(default)]
    deleted: bool,
}

fn info_subject(digest: Digest) -> String {
    format!("$O.{}.M.{}", names::BLOBS, URL_SAFE.encode(digest.to_string()))
}

fn chunks_subject(nuid: &str) -> String {
    format!("$O.{}.C.{nuid}", names::BLOBS)
}

impl Bus {
    async fn blobs(&self) -> Result<Stream<()>, BusError> {
        self.jetstream
            .get_stream_no_info(names::objects_stream(names::BLOBS))
            .await
            .map_err(unavailable("open the blob store"))
    }

    pub(crate) async fn object(&self, digest: Digest) -> Result<Option<Object>, BusError> {
        match self.blobs().await?.get_last_raw_message_by_subject(&info_subject(digest)).await {
            Ok(message) => {
                let info = serde_json::from_slice::<Info>(&message.payload).ok().filter(|info| !info.deleted);
                Ok(Some(Object { sequence: message.sequence, info }))
            }
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable("read a blob")(error)),
        }
    }

    /// The object's bytes, until there are `limit`; `None` when a part of them is gone.
    pub(crate) async fn chunks(&self, info: &Info, limit: usize) -> Result<Option<Vec<u8>>, BusError> {
        let (stream, subject) = (self.blobs().await?, chunks_subject(&info.nuid));
        let mut bytes = Vec::with_capacity(info.size.min(limit));
        let mut next = 1;
        for _ in 0..info.chunks {
            if bytes.len() >= limit {
                break;
            }
            let request = stream.raw_message_builder().sequence(next).next_by_subject(subject.as_str());
            let chunk = match request.send().await {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => return Ok(None),
                Err(error) => return Err(unavailable("read a blob")(error)),
            };
            next = chunk.sequence + 1;
            bytes.extend_from_slice(&chunk.payload);
        }
        bytes.truncate(limit);
        Ok(Some(bytes))
    }

    /// Stores `bytes` under their digest, unless they are there already. Its use has been noted.
    pub(crate) async fn put_blob(&self, digest: Digest, bytes: &[u8]) -> Result<(), BusError> {
        let before = self.object(digest).await?;
        if let Some(Object { info: Some(info), .. }) = &before
            && self.is_whole(info).await?
        {
            return Ok(());
        }
        let nuid = NodeId::random().to_string();
        let stored = self.store(digest, bytes, &nuid, before.as_ref().map_or(0, |before| before.sequence)).await;
        match stored {
            Ok(true) => match before.and_then(|before| before.info) {
                Some(broken) => self.purge_chunks(&broken.nuid).await,
                None => Ok(()),
            },
            // Somebody else has stored it at this moment.
            Ok(false) => self.purge_chunks(&nuid).await,
            Err(error) => {
                let _ = self.purge_chunks(&nuid).await;
                Err(error)
            }
        }
    }

    /// Is its last chunk there?
    async fn is_whole(&self, info: &Info) -> Result<bool, BusError> {
        if info.chunks == 0 {
            return Ok(true);
        }
        match self.blobs().await?.get_last_raw_message_by_subject(&chunks_subject(&info.nuid)).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(false),
            Err(error) => Err(unavailable("read a blob")(error)),
        }
    }

    /// `false`: what is said of the object is no longer the message `after` (0: nothing was said).
    async fn store(&self, digest: Digest, bytes: &[u8], nuid: &str, after: u64) -> Result<bool, BusError> {
        const WHAT: &str = "store a blob";
        let subject = chunks_subject(nuid);
        for chunk in bytes.chunks(CHUNK) {
            self.publish_plain(WHAT, subject.clone(), HeaderMap::new(), Bytes::copy_from_slice(chunk)).await?;
        }
        let info = json!({
            "name": digest.to_string(), "bucket": names::BLOBS, "nuid": nuid, "size": bytes.len(),
            "chunks": bytes.len().div_ceil(CHUNK), "options": {"max_chunk_size": CHUNK},
            "digest": format!("SHA-256={}", URL_SAFE.encode(digest.as_bytes())), "mtime": Timestamp::now().to_string(),
        });
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("Nats-Rollup"), "sub");
        headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, after.to_string().as_str());
        let said = self.publish(WHAT, info_subject(digest), headers, info.to_string().into()).await?;
        Ok(matches!(said, Published::Stored(_)))
    }

    async fn purge_chunks(&self, nuid: &str) -> Result<(), BusError> {
        self.purge_subject(&names::objects_stream(names::BLOBS), &chunks_subject(nuid)).await
    }

    /// Removes a blob, and the store's own note that it has removed it.
    pub(crate) async fn remove_blob(&self, digest: Digest) -> Result<(), BusError> {
        let Some(object) = self.object(digest).await? else { return Ok(()) };
        if let Some(info) = object.info {
            self.purge_chunks(&info.nuid).await?;
        }
        self.purge_subject(&names::objects_stream(names::BLOBS), &info_subject(digest)).await
    }
}
