//! The streams and buckets, as they are created. What is there already stays as the operator set it.

use std::time::Duration;

use async_nats::jetstream::{
    kv, object_store,
    stream::{Config, DiscardPolicy, RetentionPolicy},
};

use crate::{Bus, BusError, error::unavailable, names, purge::REMEMBERED};

pub(crate) async fn ensure(bus: &Bus) -> Result<(), BusError> {
    for config in [journal(), commands(), host(), events(), dead()] {
        bus.jetstream.get_or_create_stream(config).await.map_err(unavailable("create a stream"))?;
    }
    for (bucket, description) in [
        (names::CLUSTER, "Rewind: live nodes, owners of shards, the leading coordinator"),
        (names::CATALOG, "Rewind: toolsets and compiled scripts, by digest"),
        (names::KEYS, "Rewind: hashes of API keys"),
        (names::REFS, "Rewind: which runs use which blobs"),
        (names::OBSERVED, "Rewind: keys and types of results that were seen, never values"),
    ] {
        if bus.jetstream.get_key_value(bucket).await.is_err() {
            let config =
                kv::Config { bucket: bucket.into(), description: description.into(), history: 1, ..Default::default() };
            bus.jetstream.create_key_value(config).await.map_err(unavailable("create a bucket"))?;
        }
    }
    // A call that comes again does so within the queue's silence, or when NATS is back.
    for (bucket, description, max_age) in [
        (names::BEGUN, "Rewind: at-most-once host calls that a worker has begun", Duration::from_secs(86_400)),
        (names::PURGED, "Rewind: ids of runs that were purged", REMEMBERED),
    ] {
        if bus.jetstream.get_key_value(bucket).await.is_err() {
            let (bucket, description) = (bucket.into(), description.into());
            let config = kv::Config { bucket, description, history: 1, max_age, ..Default::default() };
            bus.jetstream.create_key_value(config).await.map_err(unavailable("create a bucket"))?;
        }
    }
    if bus.jetstream.get_object_store(names::BLOBS).await.is_err() {
        let config = object_store::Config {
            bucket: names::BLOBS.into(),
            description: Some("Rewind: large payloads, by digest".into()),
            ..Default::default()
        };
        bus.jetstream.create_object_store(config).await.map_err(unavailable("create the object store"))?;
    }
    bus.begin_event_cursor().await
}

fn journal() -> Config {
    Config {
        name: names::JOURNAL.into(),
        description: Some("Rewind: what every run did; the only truth".into()),
        subjects: vec![names::JOURNAL_ALL.into()],
        ..Default::default()
    }
}

fn commands() -> Config {
    Config {
        name: names::COMMANDS.into(),
        description: Some("Rewind: what runs are to be told, now or later".into()),
        subjects: vec![names::COMMAND_ALL.into(), names::TIMER_ALL.into()],
        retention: RetentionPolicy::WorkQueue,
        allow_message_schedules: true,
        allow_message_ttl: true,
        allow_rollup: true,
        // Commands carry no message id: a repeated one changes nothing in a run.
        duplicate_window: Duration::from_millis(100),
        ..Default::default()
    }
}

/// At most one message a subject, and a second one refused: a call that is queued, or with a worker
/// that is alive, is not queued again by a node that took the run over.
fn host() -> Config {
    Config {
        name: names::HOST.into(),
        description: Some("Rewind: calls for host-tool workers".into()),
        subjects: vec![names::HOST_ALL.into()],
        retention: RetentionPolicy::WorkQueue,
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        duplicate_window: Duration::from_millis(100),
        ..Default::default()
    }
}

/// At most one message a subject, and a second one refused: what has been told is not told again by a
/// coordinator that does not know it.
fn events() -> Config {
    Config {
        name: names::EVENTS.into(),
        description: Some("Rewind: what harnesses are told by webhooks".into()),
        subjects: vec![names::EVENT_ALL.into(), names::RESEND_ALL.into()],
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        // Retries end after a day; the rest is for other readers of the stream.
        max_age: days(8),
        duplicate_window: Duration::from_millis(100),
        ..Default::default()
    }
}

/// The last failure of an event at an endpoint.
fn dead() -> Config {
    Config {
        name: names::DEAD.into(),
        description: Some("Rewind: events that an endpoint did not take".into()),
        subjects: vec![names::DEAD_ALL.into()],
        max_messages_per_subject: 1,
        max_messages: 1_000_000,
        max_age: days(30),
        duplicate_window: Duration::from_millis(100),
        ..Default::default()
    }
}

const fn days(days: u64) -> Duration {
    Duration::from_secs(days * 86_400)
}
