//! Every subject, stream, bucket and header of Rewind on NATS.

use rewind_model::{Digest, RunId, Seq, Shard};

/// The only truth: one message per turn of a run. `rewind.journal.<shard>.<run>`
pub const JOURNAL: &str = "REWIND_JOURNAL";
/// Work queue of what runs are to be told, and the timers that tell them later.
pub const COMMANDS: &str = "REWIND_COMMANDS";
/// Work queue of calls for host-tool workers. `rewind.host.<tool>.<run>.<seq>`
pub const HOST: &str = "REWIND_HOST";
/// KV: live nodes, who owns which shard, which coordinator leads.
pub const CLUSTER: &str = "REWIND_CLUSTER";
/// KV: toolsets and compiled scripts, by digest.
pub const CATALOG: &str = "REWIND_CATALOG";
/// Object store: payloads too large for a message, by digest.
pub const BLOBS: &str = "REWIND_BLOBS";
/// KV: what results of tools without an output schema looked like, by toolset.
pub const OBSERVED: &str = "REWIND_OBSERVED";
/// KV: at-most-once host calls that a worker has begun, for a day.
pub const BEGUN: &str = "REWIND_BEGUN";
/// KV: which runs use which blobs.
pub const REFS: &str = "REWIND_REFS";
/// KV: ids of runs that were purged, for a year.
pub const PURGED: &str = "REWIND_PURGED";
/// KV: hashes of API keys.
pub const KEYS: &str = "REWIND_KEYS";

pub const JOURNAL_ALL: &str = "rewind.journal.>";
pub const COMMAND_ALL: &str = "rewind.cmd.>";
pub const TIMER_ALL: &str = "rewind.timer.>";
pub const HOST_ALL: &str = "rewind.host.>";
/// Core NATS, not stored: calls that nobody waits for any more.
pub const ABANDONED_ALL: &str = "rewind.abandoned.>";

pub fn journal(run: &RunId) -> String {
    format!("rewind.journal.{}.{run}", run.shard())
}
pub fn journal_of_shard(shard: Shard) -> String {
    format!("rewind.journal.{shard}.>")
}
pub fn command(run: &RunId) -> String {
    format!("rewind.cmd.{}.{run}", run.shard())
}
pub fn commands_of_shard(shard: Shard) -> String {
    format!("rewind.cmd.{shard}.>")
}
/// Name of the durable consumer through which a shard's owner takes commands.
pub fn command_consumer(shard: Shard) -> String {
    format!("shard-{shard}")
}
pub fn timer(run: &RunId, seq: Seq) -> String {
    format!("rewind.timer.{}.{run}.{seq}", run.shard())
}
pub fn timers_of_run(run: &RunId) -> String {
    format!("rewind.timer.{}.{run}.>", run.shard())
}
pub fn timers_of_shard(shard: Shard) -> String {
    format!("rewind.timer.{shard}.>")
}
pub fn host(tool: &str, run: &RunId, seq: Seq) -> String {
    format!("rewind.host.{}.{run}.{seq}", token(tool))
}
pub fn host_of_tool(tool: &str) -> String {
    format!("rewind.host.{}.>", token(tool))
}
pub fn host_of_run(run: &RunId) -> String {
    format!("rewind.host.*.{run}.>")
}
/// The key in [`REFS`] that says that this run uses this blob.
pub fn blob_ref(digest: Digest, run: &RunId) -> String {
    format!("{digest}.{run}")
}
/// The stream behind a bucket of keys and values (NATS' ADR-8).
pub fn bucket_stream(bucket: &str) -> String {
    format!("KV_{bucket}")
}
/// The subject of a key in that stream.
pub fn bucket_subject(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}
/// Name of the durable consumer that all workers of a host tool share.
pub fn host_consumer(tool: &str) -> String {
    format!("tool-{}", token(tool))
}
pub fn abandoned(run: &RunId, seq: Seq) -> String {
    format!("rewind.abandoned.{run}.{seq}")
}

/// The run that a journal, command, timer or host subject is about.
pub fn run_of(subject: &str) -> Option<RunId> {
    subject.split('.').nth(3)?.parse().ok()
}

/// Any text as one subject token: letters, digits, `_` and `-` stay, every other byte becomes `=` and
/// two upper-case hex digits (as in quoted-printable, RFC 2045).
pub fn token(text: &str) -> String {
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            token.push(char::from(byte));
        } else {
            token.push_str(&format!("={byte:02X}"));
        }
    }
    token
}

/// Headers of Rewind's messages.
pub mod header {
    /// Journal: the run's summary as JSON ([`crate::journal::Summary`]).
    pub const SUMMARY: &str = "Rewind-Run";
    /// Journal: the run's status, for people who look at the stream.
    pub const STATUS: &str = "Rewind-Status";
    /// Journal: names one append, so that one whose acknowledgement was lost is known again.
    pub const APPEND: &str = "Rewind-Append";
    /// Commands: what the body is (`start`, `wake`, `answer`, `deferred`, `decide`, `cancel`).
    pub const COMMAND: &str = "Rewind-Command";
    /// `start` commands: sequence of the journal's first message, which is the body.
    pub const SEQUENCE: &str = "Rewind-Sequence";
    /// Host calls: the idempotency key, `{run}/{seq}`.
    pub const KEY: &str = "Rewind-Key";
    /// Host calls: number of this attempt, from 1, not counting redeliveries.
    pub const ATTEMPT: &str = "Rewind-Attempt";
    /// Host calls: milliseconds that one attempt may take, from when a worker has it.
    pub const TIMEOUT_MS: &str = "Rewind-Timeout-Ms";
    /// Host calls: `at_most_once` when the call must not be handled a second time; absent otherwise.
    pub const DELIVERY: &str = "Rewind-Delivery";
    /// Host calls: the end user for whom the run acts.
    pub const NAMESPACE: &str = "Rewind-Namespace";
    /// Host calls: the subject to publish the answer to.
    pub const REPLY: &str = "Rewind-Reply";
    /// Host calls and answers: the body's digest in the object store; the body itself is empty.
    pub const BLOB: &str = "Rewind-Blob";
    pub const TRACEPARENT: &str = "traceparent";
    pub const TRACESTATE: &str = "tracestate";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_tool_name_is_one_token() {
        assert_eq!(token("lookup_order"), "lookup_order");
        assert_eq!(token("a.b >*=ü"), "a=2Eb=20=3E=2A=3D=C3=BC");
    }

    #[test]
    fn the_run_is_found_in_every_subject() {
        let run = RunId::new(1);
        for subject in [journal(&run), command(&run), timer(&run, 7), host("a.b", &run, 7)] {
            assert_eq!(run_of(&subject), Some(run.clone()), "{subject}");
        }
    }
}
