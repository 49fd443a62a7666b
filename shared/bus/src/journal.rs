//! The journal: fenced appends, reading, and the list of runs that it is.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use async_nats::{
    HeaderMap,
    jetstream::{
        consumer::{AckPolicy, DeliverPolicy, pull},
        message::StreamMessage,
        stream::{RawMessageErrorKind, Stream},
    },
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use rewind_model::{CallCounts, Digest, Key, NodeId, RunId, RunStatus, Shard, Timestamp, ToolsetId};
use rewind_run::{Entry, Record, Run};
use serde::{Deserialize, Serialize};

use crate::{Bus, BusError, error::unavailable, names, names::header, publish::Published};

/// Journals up to this many messages are read one by one, which is faster than making a consumer.
const READ_SINGLY: usize = 6;
/// Of one read of a long journal.
const PAGE: usize = 500;

/// What a list shows of a run without reading its journal: a header of its last message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub status: RunStatus,
    pub toolset: ToolsetId,
    pub script: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub calls: CallCounts,
    #[serde(default)]
    pub parked: u32,
    /// How often a call began to wait for a decision, up to now.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub parkings: u32,
    /// Calls that their workers answer later.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deferred: u32,
    /// The call that started the run, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Key>,
    /// The run that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<RunId>,
    /// Of a run that has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// It names an endpoint of its own for its events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub webhook: bool,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

impl Summary {
    /// `None` for a run that has no `created` record.
    pub fn of(run: &Run, created_at: Timestamp) -> Option<Self> {
        let spec = run.spec()?;
        let status = run.status();
        Some(Self {
            status,
            toolset: spec.toolset.clone(),
            script: spec.script,
            namespace: spec.namespace.clone(),
            labels: spec.labels.clone(),
            calls: CallCounts {
                made: run.made(),
                outstanding: u32::try_from(run.outstanding().len()).unwrap_or(u32::MAX),
            },
            parked: run.parked(),
            parkings: run.parkings(),
            deferred: run.deferred(),
            parent: spec.parent.as_ref().map(|parent| parent.key.clone()),
            forked_from: spec.past.as_ref().and_then(|past| past.forked_from.clone()),
            error_code: run.error_code().map(ToOwned::to_owned),
            webhook: spec.webhook.is_some(),
            created_at,
            started_at: run.started_at(),
            ended_at: status.ended().then(|| run.last_at()),
        })
    }
}

impl Summary {
    /// Is there something that somebody outside may want to be told?
    pub fn tells(&self) -> bool {
        self.status.ended() || self.parkings > 0
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// An entry, and the sequence that the next append must name.
#[derive(Debug, Clone)]
pub struct Stored {
    pub sequence: u64,
    pub entry: Entry,
}

/// The two ends of a run's journal: what it was started with, and what was recorded last.
#[derive(Debug, Clone)]
pub struct Ends {
    pub first: Entry,
    pub last: Entry,
    /// As of `last`.
    pub summary: Summary,
}

/// A run in the list, with the sequence of its last message.
#[derive(Debug, Clone)]
pub struct Listed {
    pub run: RunId,
    pub sequence: u64,
    pub summary: Summary,
}

impl Bus {
    /// Appends `entry` after the message `after` of the run's journal (0: it has none). Tries until
    /// JetStream has answered, however long NATS is away, and knows its own append again when only
    /// the acknowledgement was lost.
    ///
    /// # Errors
    /// [`BusError::Fenced`] when another message has come after `after`; [`BusError::TooLarge`].
    pub async fn append(&self, run: &RunId, summary: &Summary, entry: &Entry, after: u64) -> Result<u64, BusError> {
        let append = Append::new(run, summary, entry, after)?;
        let blobs = blobs(entry);
        self.retry("note a blob's use", || self.refer(run, &blobs)).await?;
        self.retry("append", || self.try_append(&append)).await
    }

    /// As [`Bus::append`], but gives up when NATS does not answer.
    ///
    /// # Errors
    /// As [`Bus::append`], and [`BusError::Unavailable`]: it may have been written or not.
    pub async fn append_once(
        &self,
        run: &RunId,
        summary: &Summary,
        entry: &Entry,
        after: u64,
    ) -> Result<u64, BusError> {
        self.refer(run, &blobs(entry)).await?;
        self.try_append(&Append::new(run, summary, entry, after)?).await
    }

    async fn try_append(&self, append: &Append) -> Result<u64, BusError> {
        let subject = names::journal(&append.run);
        match self.publish("append", subject.clone(), append.headers.clone(), append.payload.clone()).await? {
            Published::Stored(sequence) => Ok(sequence),
            Published::Conflict | Published::Full => match self.last_message(&subject).await? {
                Some(last) if is_append(&last, &append.name) => Ok(last.sequence),
                // A write in flight counts as a conflict, too (10164): only the last message tells.
                Some(last) if last.sequence == append.after => {
                    Err(BusError::Unavailable { what: "append", why: "another write is in flight".into() })
                }
                None if append.after == 0 => {
                    Err(BusError::Unavailable { what: "append", why: "another write is in flight".into() })
                }
                _ => Err(BusError::Fenced { run: append.run.clone(), expected: append.after }),
            },
        }
    }

    /// The last message of a subject of the journal, from the leader.
    async fn last_message(&self, subject: &str) -> Result<Option<StreamMessage>, BusError> {
        let stream = self.journal_stream().await?;
        match stream.get_last_raw_message_by_subject(subject).await {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable("read the journal")(error)),
        }
    }

    /// The whole journal of a run, oldest entry first; empty when there is no such run.
    ///
    /// # Errors
    /// When NATS does not answer, or an entry cannot be read by this build.
    pub async fn read(&self, run: &RunId) -> Result<Vec<Stored>, BusError> {
        let mut all = Vec::new();
        self.read_each(run, |stored| all.push(stored)).await?;
        Ok(all)
    }

    /// As [`Bus::read`], for one who does not keep it: a journal can be larger than memory.
    ///
    /// # Errors
    /// As [`Bus::read`], after what comes before the fault has been visited.
    pub async fn read_each(&self, run: &RunId, mut visit: impl FnMut(Stored)) -> Result<(), BusError> {
        let subject = names::journal(run);
        let stream = self.journal_stream().await?;
        let mut next = 1;
        for _ in 0..READ_SINGLY {
            let message =
                match stream.raw_message_builder().sequence(next).next_by_subject(subject.as_str()).send().await {
                    Ok(message) => message,
                    Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => return Ok(()),
                    Err(error) => return Err(unavailable("read the journal")(error)),
                };
            next = message.sequence + 1;
            visit(decode(message.sequence, &message.subject, &message.payload)?);
        }
        self.read_rest(&stream, &subject, next, visit).await
    }

    /// The first and the last entry of a run's journal (the same one in a short life), without what is
    /// between them; `None` when there is no such run.
    ///
    /// # Errors
    /// When NATS does not answer, or an entry cannot be read by this build.
    pub async fn ends(&self, run: &RunId) -> Result<Option<Ends>, BusError> {
        let subject = names::journal(run);
        let stream = self.journal_stream().await?;
        let first = stream.raw_message_builder().sequence(1).next_by_subject(subject.as_str()).send();
        let (first, last) = futures::future::join(first, self.last_message(&subject)).await;
        let first = match first {
            Ok(message) => message,
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => return Ok(None),
            Err(error) => return Err(unavailable("read the journal")(error)),
        };
        // The first message can be written between the two requests.
        let last = last?.unwrap_or_else(|| first.clone());
        let Some(Listed { summary, .. }) = listed(last.sequence, &last.subject, Some(&last.headers)) else {
            return Err(BusError::Malformed { what: subject, why: "the last message has no summary".into() });
        };
        let first = decode(first.sequence, &first.subject, &first.payload)?.entry;
        let last = decode(last.sequence, &last.subject, &last.payload)?.entry;
        Ok(Some(Ends { first, last, summary }))
    }

    /// As [`Bus::read`], however long NATS is away.
    ///
    /// # Errors
    /// When an entry cannot be read by this build.
    pub async fn read_surely(&self, run: &RunId) -> Result<Vec<Stored>, BusError> {
        self.retry("read the journal", || self.read(run)).await
    }

    async fn read_rest(
        &self,
        stream: &Stream<()>,
        subject: &str,
        from: u64,
        mut visit: impl FnMut(Stored),
    ) -> Result<(), BusError> {
        let config = pull::Config {
            filter_subject: subject.to_owned(),
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
            ..ephemeral()
        };
        let consumer = stream.create_consumer(config).await.map_err(unavailable("read the journal"))?;
        let mut left = consumer.cached_info().num_pending;
        while left > 0 {
            let mut page =
                consumer.fetch().max_messages(PAGE).messages().await.map_err(unavailable("read the journal"))?;
            while let Some(message) = page.try_next().await.map_err(BusError::unavailable("read the journal"))? {
                let sequence = message.info().map_err(BusError::unavailable("read the journal"))?.stream_sequence;
                visit(decode(sequence, &message.subject, &message.payload)?);
                left = left.saturating_sub(1);
            }
        }
        let _ = stream.delete_consumer(&consumer.cached_info().name).await;
        Ok(())
    }

    /// Every run of a shard with its last known state, without reading any journal.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn list_shard(&self, shard: Shard) -> Result<Vec<Listed>, BusError> {
        let stream = self.journal_stream().await?;
        let config = pull::Config {
            filter_subject: names::journal_of_shard(shard),
            deliver_policy: DeliverPolicy::LastPerSubject,
            headers_only: true,
            ..ephemeral()
        };
        let consumer = stream.create_consumer(config).await.map_err(unavailable("list runs"))?;
        let mut left = consumer.cached_info().num_pending;
        let mut runs = Vec::new();
        while left > 0 {
            let mut page = consumer.fetch().max_messages(PAGE).messages().await.map_err(unavailable("list runs"))?;
            while let Some(message) = page.try_next().await.map_err(BusError::unavailable("list runs"))? {
                let sequence = message.info().map_err(BusError::unavailable("list runs"))?.stream_sequence;
                runs.extend(listed(sequence, &message.subject, message.headers.as_ref()));
                left = left.saturating_sub(1);
            }
        }
        let _ = stream.delete_consumer(&consumer.cached_info().name).await;
        Ok(runs)
    }

    /// Every run once, then every append as it happens, for ever; survives restarts of NATS. An item
    /// with `caught_up` follows the last run that existed at the beginning.
    ///
    /// # Errors
    /// When NATS does not answer at the beginning.
    pub async fn follow_journal(&self) -> Result<impl futures::Stream<Item = Followed> + Send + use<>, BusError> {
        let stream = self.journal_stream().await?;
        let config = pull::OrderedConfig {
            filter_subject: names::JOURNAL_ALL.into(),
            deliver_policy: DeliverPolicy::LastPerSubject,
            headers_only: true,
            ..Default::default()
        };
        let consumer = stream.create_consumer(config).await.map_err(unavailable("follow the journal"))?;
        let pending = consumer.cached_info().num_pending;
        let messages = consumer.messages().await.map_err(unavailable("follow the journal"))?;
        let mut left = pending;
        let begin = futures::stream::iter((pending == 0).then_some(Followed::CaughtUp));
        let follow = messages.flat_map(move |message| {
            let mut items = Vec::new();
            match message {
                Ok(message) => {
                    if let Ok(info) = message.info() {
                        let sequence = info.stream_sequence;
                        items.extend(
                            listed(sequence, &message.subject, message.headers.as_ref())
                                .map(|run| Followed::Run(Box::new(run))),
                        );
                    }
                    if left > 0 {
                        left -= 1;
                        if left == 0 {
                            items.push(Followed::CaughtUp);
                        }
                    }
                }
                Err(error) => items.push(Followed::Interrupted(error.to_string())),
            }
            futures::stream::iter(items)
        });
        Ok(begin.chain(follow))
    }

    async fn journal_stream(&self) -> Result<Stream<()>, BusError> {
        self.jetstream.get_stream_no_info(names::JOURNAL).await.map_err(unavailable("read the journal"))
    }
}

/// What [`Bus::follow_journal`] yields.
#[derive(Debug)]
pub enum Followed {
    Run(Box<Listed>),
    CaughtUp,
    /// The stream broke and goes on by itself, where it was; if it ends, it has to be begun anew.
    Interrupted(String),
}

struct Append {
    run: RunId,
    name: String,
    after: u64,
    headers: HeaderMap,
    payload: Bytes,
}

impl Append {
    fn new(run: &RunId, summary: &Summary, entry: &Entry, after: u64) -> Result<Self, BusError> {
        static PROCESS: std::sync::OnceLock<NodeId> = std::sync::OnceLock::new();
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = PROCESS.get_or_init(NodeId::random);
        let name = format!("{process}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let malformed = |why: String| BusError::Malformed { what: format!("the journal of {run}"), why };
        let payload = entry.to_bytes().map_err(|error| malformed(error.to_string()))?;
        let summary_json = serde_json::to_string(summary).map_err(|error| malformed(error.to_string()))?;
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, after.to_string().as_str());
        headers.insert(header::APPEND, name.as_str());
        headers.insert(header::STATUS, summary.status.as_str());
        headers.insert(header::SUMMARY, escape_header(&summary_json).as_str());
        Ok(Self { run: run.clone(), name, after, headers, payload: payload.into() })
    }
}

fn blobs(entry: &Entry) -> Vec<Digest> {
    entry.records.iter().flat_map(Record::blobs).collect()
}

fn is_append(message: &StreamMessage, name: &str) -> bool {
    message.headers.get(header::APPEND).is_some_and(|value| value.as_str() == name)
}

/// Header values are one line of ASCII here: what JSON may escape, is.
fn escape_header(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            text.push(c);
        } else {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

/// A consumer for one reading.
pub(crate) fn ephemeral() -> pull::Config {
    pull::Config {
        ack_policy: AckPolicy::None,
        inactive_threshold: std::time::Duration::from_secs(30),
        memory_storage: true,
        num_replicas: 1,
        ..Default::default()
    }
}

fn decode(sequence: u64, subject: &str, payload: &[u8]) -> Result<Stored, BusError> {
    let malformed = |error: rewind_run::EntryError| BusError::Malformed {
        what: format!("{subject}, sequence {sequence}"),
        why: error.to_string(),
    };
    Ok(Stored { sequence, entry: Entry::from_bytes(payload).map_err(malformed)? })
}

fn listed(sequence: u64, subject: &str, headers: Option<&HeaderMap>) -> Option<Listed> {
    let run = names::run_of(subject)?;
    let summary = headers?.get(header::SUMMARY)?;
    match serde_json::from_str(summary.as_str()) {
        Ok(summary) => Some(Listed { run, sequence, summary }),
        Err(error) => {
            tracing::error!(%run, sequence, %error, "a journal message without a summary that this build reads");
            None
        }
    }
}
