//! The nouns of Rewind: ids, the toolset document, calls and their outcomes, the API's shapes.
//!
//! Nothing here does IO. Every type that crosses a process boundary is defined here or in
//! `rewind-run` (the journal's records), so that a reader finds each wire format in one place.

mod api;
mod call;
mod digest;
mod duration;
mod id;
mod json;
mod limits;
mod listed;
mod policy;
mod pretty;
mod problem;
mod timestamp;
mod toolset;
mod trace;
mod unique;

pub use api::*;
pub use call::{ErrorCode, Key, Outcome, Payload, Seq, ToolFailure, ToolName, ToolNameError};
pub use digest::Digest;
pub use duration::{DurationError, format_duration, parse_duration};
pub use id::{EventId, Id, IdError, IdKind, NodeId, RunId, Shard, ToolsetId};
pub use json::Json;
pub use limits::Limits;
pub use listed::{ListedTool, MalformedTool};
pub use policy::{Approval, Delivery, Policy, Retry};
pub use problem::ProblemCode;
pub use timestamp::Timestamp;
pub use toolset::{HttpTool, McpServer, Tool, ToolKind, Toolset, ToolsetError, Transport, Workflow};
pub use trace::TraceContext;
