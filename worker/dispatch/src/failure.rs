//! What a failed attempt is to the script.

use rewind_mcp::McpError;
use rewind_model::{ErrorCode, Outcome, ToolFailure};
use rewind_run::ParkReason;

use crate::Sent;

pub(crate) fn of_mcp(error: &McpError) -> Sent {
    // It goes on when it has others: with the same key, since the server did not take it.
    if let McpError::Unauthorized { .. } = error {
        return Sent::Parked(ParkReason::Credentials, error.to_string());
    }
    let failure = ToolFailure { retryable: error.retryable(), ..ToolFailure::new(code(error), error.to_string()) };
    if error.retryable() {
        Sent::Interrupted { failure, sent: error.may_have_been_sent() }
    } else {
        Sent::Answered(Outcome::Err(failure))
    }
}

fn code(error: &McpError) -> ErrorCode {
    match error {
        McpError::Timeout { .. } => ErrorCode::Timeout,
        McpError::InvalidArguments { .. } => ErrorCode::InvalidArguments,
        McpError::Unauthorized { .. } => ErrorCode::Credentials,
        McpError::TooLarge { .. } => ErrorCode::TooLarge,
        McpError::Protocol { .. } | McpError::Unsupported { .. } => ErrorCode::ToolFailed,
        // `McpError` is open to new kinds; what is not known to be an answer is no answer.
        _ => ErrorCode::Unavailable,
    }
}
