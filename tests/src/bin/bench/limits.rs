//! What the same nats-server does without Rewind: an acknowledged publish is the least that a durable
//! call can cost.

use std::time::{Duration, Instant};

use anyhow::Context;
use async_nats::{
    HeaderMap,
    header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
    jetstream::{self, message::PublishMessage, stream},
};
use bytes::Bytes;
use futures::future::try_join_all;
use serde::Serialize;

use crate::{
    options::Options,
    spread::Spread,
    stage::{Stage, Sync},
};

/// Bytes: an entry of the journal with its headers has about as many.
const MESSAGE: usize = 512;
const WRITERS: usize = 200;
const STREAM: &str = "BENCH_SCRATCH";

#[derive(Debug, Serialize)]
pub(crate) struct Limits {
    pub(crate) sync: Sync,
    /// One publish after the other, each acknowledged.
    pub(crate) one: Spread,
    /// Acknowledged publishes a second of all writers, each fenced on a subject of its own.
    pub(crate) fenced_per_s: f64,
}

/// # Errors
/// When NATS does not answer.
pub(crate) async fn measure(stage: &Stage, options: &Options) -> anyhow::Result<Limits> {
    let scratch = Scratch::create(stage).await?;
    let one = scratch.one_at_a_time(options.window() / 2).await?;
    let fenced_per_s = scratch.fenced(options.window() / 2).await?;
    scratch.delete().await?;
    Ok(Limits { sync: stage.sync, one, fenced_per_s })
}

/// One acknowledged publish, as of now.
///
/// # Errors
/// When NATS does not answer.
pub(crate) async fn one_publish(stage: &Stage, window: Duration) -> anyhow::Result<Spread> {
    let scratch = Scratch::create(stage).await?;
    let one = scratch.one_at_a_time(window).await?;
    scratch.delete().await?;
    Ok(one)
}

/// A stream for as long as it is measured.
struct Scratch {
    jetstream: jetstream::Context,
}

impl Scratch {
    async fn create(stage: &Stage) -> anyhow::Result<Self> {
        let jetstream = jetstream::new(stage.nats().await?);
        let config = stream::Config { name: STREAM.into(), subjects: vec!["bench.>".into()], ..Default::default() };
        jetstream.create_stream(config).await.context("creating the scratch stream")?;
        Ok(Self { jetstream })
    }

    async fn delete(self) -> anyhow::Result<()> {
        self.jetstream.delete_stream(STREAM).await.context("deleting the scratch stream")?;
        Ok(())
    }

    async fn one_at_a_time(&self, window: Duration) -> anyhow::Result<Spread> {
        let payload = Bytes::from_static(&[b'x'; MESSAGE]);
        let end = Instant::now() + window;
        let mut samples = Vec::new();
        while Instant::now() < end {
            let begun = Instant::now();
            self.jetstream.publish("bench.one", payload.clone()).await?.await?;
            samples.push(begun.elapsed());
        }
        Spread::of(samples)
    }

    async fn fenced(&self, window: Duration) -> anyhow::Result<f64> {
        let begun = Instant::now();
        let writers = (0..WRITERS).map(|writer| tokio::spawn(write(self.jetstream.clone(), writer, begun + window)));
        let mut written = 0;
        for count in try_join_all(writers).await? {
            written += count?;
        }
        Ok(f64::from(written) / begun.elapsed().as_secs_f64())
    }
}

async fn write(jetstream: jetstream::Context, writer: usize, end: Instant) -> anyhow::Result<u32> {
    let subject = format!("bench.fenced.{writer}");
    let payload = Bytes::from_static(&[b'x'; MESSAGE]);
    let (mut written, mut last) = (0, 0);
    while Instant::now() < end {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, last.to_string().as_str());
        let message = PublishMessage::build().headers(headers).payload(payload.clone());
        last = jetstream.send_publish(subject.clone(), message).await?.await?.sequence;
        written += 1;
    }
    Ok(written)
}
