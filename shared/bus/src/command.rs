//! Commands: what a run is told by others. A work queue, one consumer a shard.

use std::time::Duration;

use async_nats::{
    HeaderMap,
    jetstream::{
        self,
        consumer::{AckPolicy, pull},
    },
};
use bytes::Bytes;
use futures::StreamExt;
use rewind_model::{Digest, ErrorCode, Json, Outcome, Payload, RunId, Seq, Shard, ToolFailure};
use rewind_run::{Entry, Verdict};
use serde::{Deserialize, Serialize};

use crate::{Bus, BusError, error::unavailable, names, names::header};

/// Redelivery of what an owner took and did not acknowledge. A take-over does not wait for it.
const ACK_WAIT: Duration = Duration::from_secs(30);
const BATCH: usize = 200;

/// A command, decoded. Its body on the wire is JSON, so that `nats` tooling shows it.
#[derive(Debug)]
pub enum Command {
    /// A run was created; its journal's first message comes along, to save reading it.
    Start { sequence: u64, entry: Entry },
    /// A timer of this call may be due. With no call: look at the run.
    Wake { seq: Option<Seq> },
    /// A host worker's answer.
    Answer(Answer),
    /// A host worker keeps a call, and answers it later.
    Deferred { seq: Seq, attempt: u32 },
    /// Somebody's decision about a parked call.
    Decide { seq: Seq, verdict: Verdict },
    /// The run is to end.
    Cancel,
}

/// What a host worker says about a call.
#[derive(Debug)]
pub struct Answer {
    pub seq: Seq,
    pub attempt: u32,
    pub outcome: Outcome,
    /// The worker ran out of the attempt's time: the run's policy decides whether to try again.
    pub timed_out: bool,
}

/// Body of an `answer` command: exactly one of `ok`, `error` and `blob`.
#[derive(Debug, Serialize, Deserialize)]
struct AnswerBody {
    v: u8,
    seq: Seq,
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    ok: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<AnswerError>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blob: Option<BlobBody>,
}

#[derive(Debug, Serialize, Deserialize)]
struct AnswerError {
    /// One of [`worker_code`]'s, or the tool's own, which the script finds in `details.code`.
    #[serde(default = "tool_failed")]
    code: String,
    message: String,
    #[serde(default)]
    retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<Json>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BlobBody {
    sha256: Digest,
    bytes: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct DecideBody {
    v: u8,
    seq: Seq,
    verdict: Verdict,
}

#[derive(Debug, Serialize, Deserialize)]
struct DeferredBody {
    v: u8,
    seq: Seq,
    attempt: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct WakeBody {
    v: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq: Option<Seq>,
}

fn tool_failed() -> String {
    ErrorCode::ToolFailed.to_string()
}

/// The codes of Rewind that a worker may give. The others say what a worker cannot know.
fn worker_code(text: &str) -> Option<ErrorCode> {
    use ErrorCode::{InvalidArguments, InvalidResult, OutcomeUnknown, Timeout, TooLarge, ToolFailed, Unavailable};
    [ToolFailed, InvalidArguments, InvalidResult, OutcomeUnknown, Timeout, Unavailable, TooLarge]
        .into_iter()
        .find(|code| code.as_str() == text)
}

/// A tool's own error code, as the script sees it: the member `code` of `details`. Details that are no
/// object move to `details.details`; a `code` that they have already stays.
pub fn details_with_code(details: Option<Json>, code: &str) -> Json {
    use serde_json::{Map, value::RawValue};
    let raw = |json: &Json| json.to::<Box<RawValue>>().ok();
    let code = Json::from(serde_json::Value::from(code));
    // Raw values, so that a number that no double holds stays exact.
    let mut members = match details.as_ref().map(Json::to::<std::collections::BTreeMap<String, Box<RawValue>>>) {
        Some(Ok(members)) => members,
        Some(Err(_)) => details.as_ref().and_then(raw).map(|raw| ("details".into(), raw)).into_iter().collect(),
        None => std::collections::BTreeMap::new(),
    };
    if let Some(code) = raw(&code) {
        members.entry("code".into()).or_insert(code);
    }
    Json::of(&members).unwrap_or_else(|_| Json::from(serde_json::Value::Object(Map::new())))
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// A command as it came, with its acknowledgement still to be given.
#[derive(Debug)]
pub struct Delivered {
    pub run: RunId,
    pub command: Result<Command, String>,
    pub ack: Ack,
}

/// Gives the queue the word that a message is dealt with; dropped, the message comes again.
pub struct Ack(jetstream::message::Acker);

impl Ack {
    pub(crate) fn new(acker: jetstream::message::Acker) -> Self {
        Self(acker)
    }

    /// Fire and forget: a lost acknowledgement costs a repeated command, which changes nothing.
    pub async fn done(self) {
        if let Err(error) = self.0.ack().await {
            tracing::debug!(%error, "an acknowledgement could not be sent; the message will come again");
        }
    }
}

impl std::fmt::Debug for Ack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ack")
    }
}

impl Bus {
    /// Tells the owner of the run that it was created.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn command_start(&self, run: &RunId, sequence: u64, entry: &Entry) -> Result<(), BusError> {
        let malformed =
            |error: rewind_run::EntryError| BusError::Malformed { what: run.to_string(), why: error.to_string() };
        let mut headers = command_headers("start");
        headers.insert(header::SEQUENCE, sequence.to_string().as_str());
        let body = entry.to_bytes().map_err(malformed)?;
        self.publish_plain("start a run", names::command(run), headers, body.into()).await.map(drop)
    }

    /// Makes the owner look at the run (and at one call's timer).
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn command_wake(&self, run: &RunId, seq: Option<Seq>) -> Result<(), BusError> {
        self.publish_plain("wake a run", names::command(run), command_headers("wake"), wake_body(seq)).await.map(drop)
    }

    /// Tells the run what somebody has decided about one of its parked calls.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn command_decide(&self, run: &RunId, seq: Seq, verdict: Verdict) -> Result<(), BusError> {
        let body = serde_json::to_vec(&DecideBody { v: 1, seq, verdict })
            .map_err(|error| BusError::Malformed { what: "a decision".into(), why: error.to_string() })?;
        let headers = command_headers("decide");
        self.publish_plain("decide about a call", names::command(run), headers, body.into()).await.map(drop)
    }

    /// Tells the run, by the subject that a host call named, that its worker answers the call later.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn command_deferred(&self, reply: &str, seq: Seq, attempt: u32) -> Result<(), BusError> {
        let body = serde_json::to_vec(&DeferredBody { v: 1, seq, attempt })
            .map_err(|error| BusError::Malformed { what: "a deferral".into(), why: error.to_string() })?;
        let headers = command_headers("deferred");
        self.publish_plain("defer a call", reply.to_owned(), headers, body.into()).await.map(drop)
    }

    /// Tells the run to end.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn command_cancel(&self, run: &RunId) -> Result<(), BusError> {
        let headers = command_headers("cancel");
        self.publish_plain("cancel a run", names::command(run), headers, Bytes::new()).await.map(drop)
    }

    /// A host worker's answer, to the subject that the call named.
    ///
    /// # Errors
    /// When NATS does not answer, or the answer is over `max_payload`: put it into a blob first.
    pub async fn command_answer(&self, reply: &str, answer: &Answer) -> Result<(), BusError> {
        let (ok, error, blob) = match &answer.outcome {
            Outcome::Ok(Payload::Inline(json)) => (Some(json.clone()), None, None),
            Outcome::Ok(Payload::Blob { digest, size }) => {
                (None, None, Some(BlobBody { sha256: *digest, bytes: *size }))
            }
            Outcome::Err(failure) => {
                let failure = failure.clone();
                let error = AnswerError {
                    code: failure.code.to_string(),
                    message: failure.message,
                    retryable: failure.retryable,
                    details: failure.details,
                };
                (None, Some(error), None)
            }
        };
        let body = AnswerBody { v: 1, seq: answer.seq, attempt: answer.attempt, ok, error, blob };
        let body = serde_json::to_vec(&body)
            .map_err(|error| BusError::Malformed { what: "an answer".into(), why: error.to_string() })?;
        self.publish_plain("answer a call", reply.to_owned(), command_headers("answer"), body.into()).await.map(drop)
    }

    /// The commands of a shard, from its new owner on. What the owner before took and did not
    /// acknowledge comes at once: the consumer is made anew, which also ends the old owner's.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn take_commands(
        &self,
        shard: Shard,
    ) -> Result<impl futures::Stream<Item = Result<Delivered, String>> + Send + use<>, BusError> {
        let stream = self.jetstream.get_stream_no_info(names::COMMANDS).await.map_err(unavailable("take commands"))?;
        let name = names::command_consumer(shard);
        // There is none the first time.
        let _ = stream.delete_consumer(&name).await;
        let config = pull::Config {
            durable_name: Some(name),
            description: Some("Rewind: commands for the owner of a shard".into()),
            filter_subject: names::commands_of_shard(shard),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            // What it knows is what is not acknowledged, and that is in the stream; in a file it would
            // cost the server a write and a rename for every few commands, on each of the shards.
            memory_storage: true,
            max_ack_pending: 5_000,
            ..Default::default()
        };
        let consumer = stream.create_consumer(config).await.map_err(unavailable("take commands"))?;
        let messages = consumer
            .stream()
            .max_messages_per_batch(BATCH)
            .expires(Duration::from_secs(60))
            .heartbeat(Duration::from_secs(10))
            .messages()
            .await
            .map_err(unavailable("take commands"))?;
        Ok(messages.filter_map(async |message| match message {
            Ok(message) => delivered(message).map(Ok),
            Err(error) => Some(Err(error.to_string())),
        }))
    }
}

pub(crate) fn command_headers(kind: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::COMMAND, kind);
    headers
}

pub(crate) fn wake_body(seq: Option<Seq>) -> Bytes {
    match serde_json::to_vec(&WakeBody { v: 1, seq }) {
        Ok(body) => body.into(),
        Err(_) => Bytes::from_static(b"{\"v\":1}"),
    }
}

fn delivered(message: jetstream::Message) -> Option<Delivered> {
    let run = names::run_of(&message.subject);
    let (message, acker) = message.split();
    let ack = Ack::new(acker);
    match run {
        Some(run) => Some(Delivered { run, command: decode(&message), ack }),
        None => {
            tracing::error!(subject = %message.subject, "a command for no run: left in its queue");
            None
        }
    }
}

fn decode(message: &async_nats::Message) -> Result<Command, String> {
    let headers = message.headers.as_ref().ok_or("it has no headers")?;
    let kind = headers.get(header::COMMAND).ok_or("it has no Rewind-Command header")?;
    match kind.as_str() {
        "start" => {
            let sequence = headers.get(header::SEQUENCE).and_then(|value| value.as_str().parse().ok());
            let entry = Entry::from_bytes(&message.payload).map_err(|error| error.to_string())?;
            Ok(Command::Start { sequence: sequence.ok_or("it has no Rewind-Sequence header")?, entry })
        }
        "wake" => {
            let body: WakeBody = serde_json::from_slice(&message.payload).map_err(|error| error.to_string())?;
            Ok(Command::Wake { seq: body.seq })
        }
        "decide" => {
            let body: DecideBody = serde_json::from_slice(&message.payload).map_err(|error| error.to_string())?;
            Ok(Command::Decide { seq: body.seq, verdict: body.verdict })
        }
        "deferred" => {
            let body: DeferredBody = serde_json::from_slice(&message.payload).map_err(|error| error.to_string())?;
            Ok(Command::Deferred { seq: body.seq, attempt: body.attempt })
        }
        "cancel" => Ok(Command::Cancel),
        "answer" => answer(&message.payload).or_else(|why| refused_answer(&message.payload, why)).map(Command::Answer),
        other => Err(format!("{other:?} is no command")),
    }
}

/// A worker answered something that is no answer: it has let go of the call, so the call ends here,
/// saying why, unless not even its number can be read.
fn refused_answer(payload: &[u8], why: String) -> Result<Answer, String> {
    #[derive(Deserialize)]
    struct Which {
        seq: Seq,
        #[serde(default)]
        attempt: u32,
    }
    let Ok(Which { seq, attempt }) = serde_json::from_slice(payload) else { return Err(why) };
    let failure = ToolFailure::new(ErrorCode::InvalidResult, format!("the worker's answer is not valid: {why}"));
    Ok(Answer { seq, attempt, outcome: Outcome::Err(failure), timed_out: false })
}

fn answer(payload: &[u8]) -> Result<Answer, String> {
    let body: AnswerBody = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    if body.v != 1 {
        return Err(format!("its version is {}, and this build reads version 1", body.v));
    }
    let mut timed_out = false;
    let outcome = match (body.ok, body.error, body.blob) {
        (Some(json), None, None) => Outcome::Ok(Payload::Inline(json)),
        (None, Some(error), None) => {
            let AnswerError { code: text, message, retryable, details } = error;
            let (code, details) = match worker_code(&text) {
                Some(code) => (code, details),
                None => (ErrorCode::ToolFailed, Some(details_with_code(details, &text))),
            };
            timed_out = code == ErrorCode::Timeout;
            Outcome::Err(ToolFailure { code, message, retryable, details })
        }
        (None, None, Some(blob)) => Outcome::Ok(Payload::Blob { digest: blob.sha256, size: blob.bytes }),
        _ => return Err("an answer holds exactly one of `ok`, `error` and `blob`".into()),
    };
    Ok(Answer { seq: body.seq, attempt: body.attempt, outcome, timed_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_exactly_one_outcome() {
        let null = answer(br#"{"v":1,"seq":3,"attempt":1,"ok":null}"#).expect("null is an answer");
        assert_eq!(null.outcome, Outcome::Ok(Payload::Inline(Json::null())));
        let failed = answer(br#"{"v":1,"seq":3,"attempt":1,"error":{"message":"no such order"}}"#).expect("an error");
        assert!(matches!(failed.outcome, Outcome::Err(failure) if failure.code == ErrorCode::ToolFailed));
        for bad in
            ["{}", r#"{"v":1,"seq":3,"attempt":1}"#, r#"{"v":1,"seq":3,"attempt":1,"ok":1,"error":{"message":""}}"#]
        {
            assert!(answer(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_tools_own_code_is_found_in_the_details() {
        let details = |body: &str| match answer(body.as_bytes()).expect("an error").outcome {
            Outcome::Err(ToolFailure { code: ErrorCode::ToolFailed, details: Some(details), .. }) => {
                details.into_string()
            }
            other => panic!("{other:?}"),
        };
        let body =
            |rest: &str| format!(r#"{{"v":1,"seq":3,"attempt":1,"error":{{"code":"no_order","message":"m"{rest}}}}}"#);
        assert_eq!(details(&body("")), r#"{"code":"no_order"}"#);
        assert_eq!(
            details(&body(r#","details":{"id":12345678901234567890123}"#)),
            r#"{"code":"no_order","id":12345678901234567890123}"#
        );
        assert_eq!(details(&body(r#","details":[1]"#)), r#"{"code":"no_order","details":[1]}"#);
        // What only Rewind can know, a worker cannot say.
        assert_eq!(details(&body("").replace("no_order", "cancelled")), r#"{"code":"cancelled"}"#);
    }

    #[test]
    fn a_wrong_answer_ends_its_call() {
        for bad in [r#"{"v":1,"seq":3,"attempt":2}"#, r#"{"v":2,"seq":3,"attempt":2,"ok":1}"#] {
            let why = answer(bad.as_bytes()).expect_err(bad);
            let refused = refused_answer(bad.as_bytes(), why).expect("its number is there");
            assert_eq!((refused.seq, refused.attempt), (3, 2));
            assert!(matches!(refused.outcome, Outcome::Err(failure) if failure.code == ErrorCode::InvalidResult));
        }
        assert!(refused_answer(b"no JSON", "why".into()).is_err());
    }
}
