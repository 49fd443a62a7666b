//! Frames between a node and its sandbox processes: a little-endian `u32` length, then one
//! MessagePack value ([`ToSandbox`] one way, [`FromSandbox`] the other). Both ends are the same
//! build, so this format needs no version.

use rewind_model::{Json, Key, RunId, Seq, Timestamp, ToolFailure, ToolName};
use serde::{Deserialize, Serialize};

/// Bytes of one frame, its length prefix not counted.
pub const MAX_FRAME_BYTES: usize = 64 << 20;
/// Bytes of JSON that `main` may return.
pub const MAX_RESULT_BYTES: usize = 16 << 20;
/// Bytes of JSON of one call's arguments; over it the call rejects with `too_large` and has no `seq`.
pub const MAX_ARGUMENT_BYTES: usize = 4 << 20;
/// Bytes of JSON of the arguments of all calls that a script makes on one delivery.
pub const MAX_OUTGOING_BYTES: usize = 24 << 20;
/// Calls that a script may make on one delivery: more than a whole run may.
pub const MAX_CALLS_PER_DELIVERY: usize = 10_001;
/// Bytes of one line of `console`; the rest of it is cut.
pub const MAX_LOG_LINE_BYTES: usize = 8 << 10;
/// Bytes of all lines of a run, 64 added for each; what a script logs after that is dropped.
pub const MAX_LOG_BYTES: usize = 8 << 20;
/// Bytes that a call, a line or a delivery counts beyond what it holds.
const ITEM_OVERHEAD: usize = 64;

/// What a node tells a sandbox. `Load` and `Resolve` are each answered by exactly one [`Turn`].
#[derive(Debug, Serialize, Deserialize)]
pub enum ToSandbox {
    Load(Box<Load>),
    Resolve {
        run: RunId,
        deliveries: Vec<Delivery>,
    },
    /// Frees the run's engine. Not answered.
    Drop {
        run: RunId,
    },
}

/// What a sandbox tells its node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromSandbox {
    /// Once, before anything else: the process has confined itself.
    Ready { landlock: Landlock },
    /// The beginning of an answer that is too large for one frame; more of the same turn follows.
    Part(Box<Turn>),
    /// An answer, or the end of one.
    Turn(Box<Turn>),
}

/// Whether the kernel restricts the process's file access a second time, beneath seccomp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Landlock {
    Enforced,
    /// By a kernel that knows only some of its rules.
    Partial,
    /// The kernel has none.
    Absent,
}

/// Starts a script from its beginning.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Load {
    pub run: RunId,
    /// The run that decides its random numbers, where it is not this one: that whose past it has.
    pub seed: Option<RunId>,
    /// An ES2023 module as the type-checker emitted it.
    pub script: String,
    /// What `rewind:tools` exports besides `sleep` and `ToolError`.
    pub exports: Vec<Export>,
    pub input: Json,
    /// Script time until the first delivery.
    pub now: Timestamp,
    pub limits: ScriptLimits,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Export {
    /// A JavaScript identifier.
    pub name: String,
    /// Tool names, verbatim: any text.
    pub tools: Vec<String>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct ScriptLimits {
    pub heap_bytes: usize,
    pub stack_bytes: usize,
    /// CPU time of one delivery (or of the load), milliseconds.
    pub turn_cpu_ms: u64,
    /// CPU time of the whole run in this process, milliseconds.
    pub run_cpu_ms: u64,
}

/// One result for the script. Each is handed over alone, and all that the script does about it is
/// done, before the next one of the same frame: so a replay in one frame and a live run in many
/// see the same order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Delivery {
    pub seq: Seq,
    /// Script time from here on.
    pub at: Timestamp,
    pub value: Delivered,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Delivered {
    Value(Json),
    /// Rejects with a `ToolError`; the sandbox knows the tool and the key from the call.
    Failure(ToolFailure),
    /// The timer fired.
    Slept,
}

impl Delivery {
    pub(crate) fn size(&self) -> usize {
        let held = match &self.value {
            Delivered::Value(json) => json.len(),
            Delivered::Failure(failure) => failure.message.len() + failure.details.as_ref().map_or(0, Json::len),
            Delivered::Slept => 0,
        };
        ITEM_OVERHEAD + held
    }
}

/// What a script did since the frame that this answers: everything up to where it can only wait.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Turn {
    pub run: RunId,
    /// In the order in which the script made them; `seq` counts from 1 through the run, without gaps.
    pub calls: Vec<NewCall>,
    pub logs: Vec<Log>,
    /// Set once, when `main` has settled or the script cannot go on; nothing follows.
    pub end: Option<End>,
    /// Of this turn, microseconds.
    pub cpu_us: u64,
    /// Of the run's engine, after the turn.
    pub heap_bytes: u64,
}

impl Turn {
    /// Bytes that it takes in a frame, about.
    pub(crate) fn size(&self) -> usize {
        let calls: usize = self.calls.iter().map(|call| call.request.size()).sum();
        let logs: usize = self.logs.iter().map(Log::size).sum();
        calls + logs + ITEM_OVERHEAD
    }

    /// This turn and what the script did after it, as one.
    pub(crate) fn followed_by(mut self, mut next: Turn) -> Turn {
        self.calls.append(&mut next.calls);
        self.logs.append(&mut next.logs);
        Turn { calls: self.calls, logs: self.logs, cpu_us: self.cpu_us.saturating_add(next.cpu_us), ..next }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewCall {
    pub seq: Seq,
    pub request: Request,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// `raw` asks for the whole MCP result.
    Tool { tool: ToolName, arguments: Json, raw: bool },
    /// Script time of the call, plus what the script asked for.
    Sleep { until: Timestamp },
}

impl Request {
    pub(crate) fn size(&self) -> usize {
        let held = match self {
            Request::Tool { tool, arguments, .. } => tool.export.len() + tool.name.len() + arguments.len(),
            Request::Sleep { .. } => 0,
        };
        ITEM_OVERHEAD + held
    }
}

impl Log {
    pub(crate) fn size(&self) -> usize {
        ITEM_OVERHEAD + self.text.len()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// `debug`, `log`, `info`, `warn`, `error`.
    pub level: String,
    pub text: String,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Returned(Json),
    /// `main` returned what is no JSON: why.
    BadResult(String),
    Threw(Thrown),
    Limit(Limit),
    /// A delivery was for a call that the script has not made (a replay that went another way).
    UnknownCall(Seq),
}

/// An uncaught exception. The stack's positions are those of the emitted module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thrown {
    /// `Name: message`.
    pub message: String,
    pub stack: Option<String>,
    /// Set when it is a `ToolError` that Rewind made.
    pub tool_error: Option<ThrownToolError>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrownToolError {
    pub code: String,
    pub tool: Option<ToolName>,
    pub key: Option<Key>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// CPU of a turn or of the run.
    Cpu,
    /// The engine's heap, or more arguments at once than one delivery may hand over.
    Memory,
    Stack,
    /// The result is over [`MAX_RESULT_BYTES`] of JSON.
    Result,
    /// One delivery made over [`MAX_CALLS_PER_DELIVERY`] calls.
    Calls,
}
