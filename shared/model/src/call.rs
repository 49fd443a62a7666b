//! A call, what it is named by, and how it can end.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Digest, Json, RunId};

/// The number of a call in its run, from 1, in the order in which the script made them.
pub type Seq = u32;

/// The idempotency key of a call, `{run_id}/{seq}`: the same on every attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub run: RunId,
    pub seq: Seq,
}

impl Key {
    /// The run that this call of a workflow is: a function of the key, so that it is started once however
    /// often the call is made.
    pub fn workflow_run(&self) -> RunId {
        RunId::of_bytes(Digest::of(format!("workflow {self}").as_bytes()).as_bytes())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.run, self.seq)
    }
}
impl FromStr for Key {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (run, seq) = text.split_once('/').ok_or("a key is {run_id}/{seq}")?;
        Ok(Self {
            run: run.parse().map_err(|error: crate::IdError| error.to_string())?,
            seq: seq.parse().map_err(|_| format!("{seq:?} is no call number"))?,
        })
    }
}
impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A tool as a script names it: the export of `rewind:tools` (an MCP server's name, `host`,
/// `workflows`, `http`) and the tool's own name, verbatim. Written `export.name`; an export is an
/// identifier, so the first dot divides the two whatever the tool's name holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName {
    pub export: String,
    pub name: String,
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no tool name: write export.name, such as \"github.create_issue\"")]
pub struct ToolNameError(String);

impl ToolName {
    pub fn new(export: impl Into<String>, name: impl Into<String>) -> Self {
        Self { export: export.into(), name: name.into() }
    }
}
impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.export, self.name)
    }
}
impl FromStr for ToolName {
    type Err = ToolNameError;
    fn from_str(text: &str) -> Result<Self, ToolNameError> {
        let (export, name) = text.split_once('.').ok_or_else(|| ToolNameError(text.into()))?;
        Ok(Self::new(export, name))
    }
}
impl Serialize for ToolName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for ToolName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A JSON value, in the record itself or, over [`crate::Limits::inline_bytes`], in the blob store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Payload {
    Inline(Json),
    /// `size` in bytes.
    Blob {
        digest: Digest,
        size: u64,
    },
}

impl Payload {
    /// Bytes of the JSON text, wherever it is kept.
    pub fn size(&self) -> u64 {
        match self {
            Payload::Inline(json) => json.len() as u64,
            Payload::Blob { size, .. } => *size,
        }
    }

    /// Where it is kept, if it is as a blob.
    pub fn blob(&self) -> Option<Digest> {
        match self {
            Payload::Inline(_) => None,
            Payload::Blob { digest, .. } => Some(*digest),
        }
    }

    /// Bytes that this payload adds to the memory of whoever holds it.
    pub fn inline_size(&self) -> usize {
        match self {
            Payload::Inline(json) => json.len(),
            Payload::Blob { .. } => 0,
        }
    }

    /// The digest of the JSON text: equal texts are equal whether kept inline or as a blob.
    pub fn digest(&self) -> Digest {
        match self {
            Payload::Inline(json) => Digest::of(json.as_str()),
            Payload::Blob { digest, .. } => *digest,
        }
    }
}

/// How a call ended. Recorded once, never changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok(Payload),
    Err(ToolFailure),
}

/// What the script sees as a `ToolError` (it adds the tool and the key, which the call knows).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ToolFailure {
    pub code: ErrorCode,
    pub message: String,
    pub retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Json>,
}

impl ToolFailure {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: code.retryable(), details: None }
    }
}

/// `ToolError.code`, as scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The arguments do not match the pinned schema; nothing was sent.
    InvalidArguments,
    /// The tool answered, with an error.
    ToolFailed,
    /// The tool answered with something that its declared output schema refuses.
    InvalidResult,
    /// Every attempt took longer than the policy's timeout.
    Timeout,
    /// The tool could not be reached, or the connection broke, on every attempt.
    Unavailable,
    /// An at-most-once call was interrupted after it may have been sent.
    OutcomeUnknown,
    /// A person rejected the parked call.
    Rejected,
    /// The credentials for the tool were refused.
    Credentials,
    /// Rewind refuses to make this call (an address that is not allowed).
    Refused,
    /// Arguments or result over the size limit.
    TooLarge,
    /// The run was cancelled.
    Cancelled,
    /// A cassette holds no such call.
    NotRecorded,
}

impl ErrorCode {
    /// May the same call succeed when the script makes it again later?
    pub fn retryable(self) -> bool {
        match self {
            ErrorCode::Timeout | ErrorCode::Unavailable => true,
            ErrorCode::InvalidArguments
            | ErrorCode::ToolFailed
            | ErrorCode::InvalidResult
            | ErrorCode::OutcomeUnknown
            | ErrorCode::Rejected
            | ErrorCode::Credentials
            | ErrorCode::Refused
            | ErrorCode::TooLarge
            | ErrorCode::Cancelled
            | ErrorCode::NotRecorded => false,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::InvalidArguments => "invalid_arguments",
            ErrorCode::ToolFailed => "tool_failed",
            ErrorCode::InvalidResult => "invalid_result",
            ErrorCode::Timeout => "timeout",
            ErrorCode::Unavailable => "unavailable",
            ErrorCode::OutcomeUnknown => "outcome_unknown",
            ErrorCode::Rejected => "rejected",
            ErrorCode::Credentials => "credentials",
            ErrorCode::Refused => "refused",
            ErrorCode::TooLarge => "too_large",
            ErrorCode::Cancelled => "cancelled",
            ErrorCode::NotRecorded => "not_recorded",
        }
    }
}
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
