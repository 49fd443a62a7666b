use rewind_model::{Key, Outcome, Payload, ToolFailure, ToolName, TraceContext};
use rewind_run::ParkReason;

/// One attempt of one call. Every attempt of a call has the same key and the same arguments.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub key: Key,
    /// From 1.
    pub number: u32,
    pub tool: ToolName,
    pub arguments: Payload,
    /// The script asked for the whole MCP result.
    pub raw: bool,
    pub namespace: Option<String>,
    pub at_most_once: bool,
    /// Somebody let it go though it does not match what its tool is by now: it is not parked for that again.
    pub approved: bool,
    /// Of the run: the attempt's own is made from it.
    pub trace: TraceContext,
}

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// The tool answered, or can never be asked.
    Answered(Outcome),
    /// No answer came. `sent`: the tool may have got the call.
    Interrupted { failure: ToolFailure, sent: bool },
    /// It was not sent, and somebody has to decide what is to be done: it does not match what the server's tool
    /// is by now, or the server refused the credentials. The text says how.
    Parked(ParkReason, String),
    /// It is in a queue; the answer comes as a command.
    Queued,
}
