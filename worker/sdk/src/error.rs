use rewind_bus::{BusError, command::details_with_code};
use rewind_model::{ErrorCode, Json, ToolFailure};

const LONGEST_MESSAGE: usize = 8 << 10;
const LONGEST_CODE: usize = 64;
const LARGEST_DETAILS: usize = 64 << 10;

/// Why a worker cannot run.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    #[error("a worker without tools has nothing to do: add one with `tool(name, handler)`")]
    NoTools,
    #[error("the tool {0:?} was added twice")]
    DuplicateTool(String),
    #[error("a tool's name has 1 to 128 bytes, and {0:?} has not")]
    ToolName(String),
    #[error("a concurrency of {0} is not possible: choose 1 to 10000")]
    Concurrency(usize),
    #[error("cannot listen for SIGTERM and SIGINT: {0}")]
    Signals(std::io::Error),
    #[error(transparent)]
    Bus(#[from] BusError),
}

/// A handler's failure, which the script catches as a `ToolError` with code `tool_failed`.
///
/// Its message, code and details go to the script, and from there perhaps to a model: put no secret
/// into them. For that reason no error turns into one by itself; say what the script may know.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    kind: ErrorCode,
    code: Option<String>,
    message: String,
    retryable: bool,
    details: Option<Json>,
}

impl ToolError {
    /// Of the message, the first 8 KiB are kept.
    pub fn new(message: impl Into<String>) -> Self {
        Self::of_kind(ErrorCode::ToolFailed, message)
    }

    pub(crate) fn of_kind(kind: ErrorCode, message: impl Into<String>) -> Self {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
        Self { kind, code: None, message, retryable: kind.retryable(), details: None }
    }

    /// The tool's own code, such as `order_not_found`. The script finds it as `error.details.code`
    /// (`error.code` is Rewind's: `tool_failed`). Of the text, the first 64 bytes are kept.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        let mut code = code.into();
        code.truncate(code.floor_char_boundary(LONGEST_CODE));
        self.code = Some(code);
        self
    }

    /// Tells the script that the same call may succeed later. Rewind itself does not call again: a tool
    /// that answered was not interrupted.
    #[must_use]
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// More for the script, best an object. Over 64 KiB they are left out, and the message says so.
    #[must_use]
    pub fn details(mut self, details: serde_json::Value) -> Self {
        let details = Json::from(details);
        if details.len() > LARGEST_DETAILS {
            self.message.push_str(&format!(" (details of {} bytes left out)", details.len()));
        } else {
            self.details = Some(details);
        }
        self
    }

    pub(crate) fn into_failure(self) -> ToolFailure {
        let details = match &self.code {
            Some(code) => Some(details_with_code(self.details, code)),
            None => self.details,
        };
        ToolFailure { code: self.kind, message: self.message, retryable: self.retryable, details }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_authors_code_goes_into_the_details() {
        let error = ToolError::new("no such order").code("order_not_found").details(json!({"order_id": "o-1"}));
        let failure = error.into_failure();
        assert_eq!(failure.code, ErrorCode::ToolFailed);
        assert_eq!(failure.details.expect("details").as_str(), r#"{"code":"order_not_found","order_id":"o-1"}"#);
    }

    #[test]
    fn an_error_is_bounded() {
        let failure = ToolError::new("ü".repeat(9_000)).details(json!("x".repeat(70_000))).into_failure();
        assert!(failure.message.len() < LONGEST_MESSAGE + 100 && failure.message.ends_with("left out)"));
        assert_eq!(failure.details, None);
    }
}
