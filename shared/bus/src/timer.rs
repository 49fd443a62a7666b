//! Timers: messages that JetStream keeps and delivers as commands at their time (NATS' ADR-51).

use std::collections::BTreeMap;

use rewind_model::{RunId, Seq, Shard, Timestamp};

use crate::{
    Bus, BusError,
    command::{command_headers, wake_body},
    error::unavailable,
    names,
};

impl Bus {
    /// Wakes the run for this call at `at`, whatever becomes of this process. Again for the same call:
    /// replaces the timer.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn arm(&self, run: &RunId, seq: Seq, at: Timestamp) -> Result<(), BusError> {
        let mut headers = command_headers("wake");
        headers.insert("Nats-Schedule", format!("@at {at}").as_str());
        headers.insert("Nats-Schedule-Target", names::command(run).as_str());
        let publish =
            || self.publish_plain("arm a timer", names::timer(run, seq), headers.clone(), wake_body(Some(seq)));
        self.retry("arm a timer", publish).await.map(drop)
    }

    /// Removes every timer of a run.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn disarm_all(&self, run: &RunId) -> Result<(), BusError> {
        let stream = self.jetstream.get_stream_no_info(names::COMMANDS).await.map_err(unavailable("disarm timers"))?;
        stream.purge().filter(names::timers_of_run(run)).await.map(drop).map_err(unavailable("disarm timers"))
    }

    /// The runs of a shard that something in a stream will wake, and how many such things there are: a
    /// timer, a command that is not yet taken, or a host call that is queued or with a worker.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn wake_sources(&self, shard: Shard) -> Result<BTreeMap<RunId, usize>, BusError> {
        let mut runs = BTreeMap::new();
        for (stream, filter) in [
            (names::COMMANDS, names::timers_of_shard(shard)),
            (names::COMMANDS, names::commands_of_shard(shard)),
            (names::HOST, names::HOST_ALL.to_owned()),
        ] {
            let subjects = self.subjects(stream, &filter).await?;
            for (subject, messages) in &subjects {
                if let Some(run) = names::run_of(subject).filter(|run| run.shard() == shard) {
                    *runs.entry(run).or_default() += messages;
                }
            }
        }
        Ok(runs)
    }
}
