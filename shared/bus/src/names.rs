//! Every subject, stream, bucket and header of Rewind on NATS.

use rewind_model::{Digest, EventId, EventType, RunId, Seq, Shard};

/// The only truth: one message per turn of a run. `rewind.journal.<shard>.<run>`
pub const JOURNAL: &str = "REWIND_JOURNAL";
/// Work queue of what runs are to be told, and the timers that tell them later.
pub const COMMANDS: &str = "REWIND_COMMANDS";
/// Work queue of calls for host-tool workers. `rewind.host.<tool>.<run>.<seq>`
pub const HOST: &str = "REWIND_HOST";
/// What harnesses are told. `rewind.event.<namespace>.<noun>.<what>.<run>[.<seq>.<n>]`
pub const EVENTS: &str = "REWIND_EVENTS";
/// Events that an endpoint did not take. `rewind.dead.<endpoint>.<event>`
pub const DEAD: &str = "REWIND_DEAD";
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
pub const EVENT_ALL: &str = "rewind.event.>";
/// Events that somebody sends again to one endpoint.
pub const RESEND_ALL: &str = "rewind.resend.>";
pub const DEAD_ALL: &str = "rewind.dead.>";
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
/// The key in [`REFS`] that says that a run (by its id), or something else, uses this blob.
pub fn blob_ref(digest: Digest, user: &str) -> String {
    format!("{digest}.{user}")
}
/// All of them that name the run.
pub fn blob_refs_of(run: &RunId) -> String {
    format!("*.{run}")
}
/// The stream behind a bucket of keys and values (NATS' ADR-8).
pub fn bucket_stream(bucket: &str) -> String {
    format!("KV_{bucket}")
}
/// The stream behind a bucket of objects (NATS' ADR-20).
pub fn objects_stream(bucket: &str) -> String {
    format!("OBJ_{bucket}")
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

/// Of an event: one subject for each thing that can happen once. `parking` is a call and how often it has been
/// parked by then. A run without a namespace has `-` for it.
pub fn event(namespace: Option<&str>, kind: EventType, run: &RunId, parking: Option<(Seq, u32)>) -> String {
    let namespace = match namespace {
        None => "-".to_owned(),
        Some("-") => "=2D".to_owned(),
        Some(namespace) => token(namespace),
    };
    let parking = parking.map_or_else(String::new, |(seq, n)| format!(".{seq}.{n}"));
    format!("rewind.event.{namespace}.{kind}.{run}{parking}")
}
/// The events of a run, whatever its namespace: those of the run itself, and those of its calls.
pub fn events_of_run(run: &RunId) -> [String; 2] {
    [format!("rewind.event.*.*.*.{run}"), format!("rewind.event.*.*.*.{run}.>")]
}
/// The event that a subject of [`event`] is of.
pub fn event_of(subject: &str) -> Option<EventId> {
    let mut parts = subject.split('.').skip(3);
    let kind = format!("{}.{}", parts.next()?, parts.next()?).parse().ok()?;
    let run = parts.next()?.parse().ok()?;
    let mut number = || parts.next().map_or(Some(0), |part| part.parse().ok());
    Some(EventId::of(kind, &run, number()?, number()?))
}
pub fn dead_of_event(event: &EventId) -> String {
    format!("rewind.dead.*.{event}")
}
/// Name of the durable consumer from which an endpoint is served.
pub fn event_consumer(endpoint: &str) -> String {
    format!("hook-{endpoint}")
}
/// `dead` is the sequence of the dead delivery, so that each is sent again once.
pub fn resend(endpoint: &str, event: &EventId, dead: u64) -> String {
    format!("rewind.resend.{endpoint}.{event}.{dead}")
}
pub fn resends_of(endpoint: &str) -> String {
    format!("rewind.resend.{endpoint}.>")
}
pub fn dead(endpoint: &str, event: &EventId) -> String {
    format!("rewind.dead.{endpoint}.{event}")
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
    /// Events: their id, `webhook-id` of the request.
    pub const EVENT: &str = "Rewind-Event";
    /// Events: such as `run.completed`.
    pub const TYPE: &str = "Rewind-Type";
    /// Events: the run that they are about.
    pub const RUN: &str = "Rewind-Run-Id";
    /// Events: the URL to which the run wants them sent.
    pub const WEBHOOK: &str = "Rewind-Webhook";
    /// Dead deliveries: scheme, host and port of the endpoint.
    pub const ENDPOINT: &str = "Rewind-Endpoint";
    /// Dead deliveries: what came of the last attempt.
    pub const WHY: &str = "Rewind-Why";
    /// Dead deliveries: how often it was tried, at most.
    pub const ATTEMPTS: &str = "Rewind-Attempts";
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
    fn what_can_happen_once_has_one_subject() {
        let run = RunId::of_bytes(b"r");
        let of = |namespace| event(namespace, EventType::RunFailed, &run, None);
        assert_eq!(of(Some("a.b")), format!("rewind.event.a=2Eb.run.failed.{run}"));
        assert_ne!(of(None), of(Some("-")));
        assert_eq!(event_of(&of(Some("a.b"))), Some(EventId::of(EventType::RunFailed, &run, 0, 0)));
        let parked = event(None, EventType::SchemaChanged, &run, Some((3, 2)));
        assert_eq!(event_of(&parked), Some(EventId::of(EventType::SchemaChanged, &run, 3, 2)));
        assert_eq!(parked, format!("rewind.event.-.tool.schema_changed.{run}.3.2"));
    }

    #[test]
    fn the_run_is_found_in_every_subject() {
        let run = RunId::new(1);
        for subject in [journal(&run), command(&run), timer(&run, 7), host("a.b", &run, 7)] {
            assert_eq!(run_of(&subject), Some(run.clone()), "{subject}");
        }
    }
}
