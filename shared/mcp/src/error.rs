use std::time::Duration;

/// Why a list or a call failed. `server` is the server's URL without user info and query.
///
/// Texts that came from a server are cut to a few hundred bytes; values of headers appear in none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The endpoint itself is wrong; nothing was sent.
    #[error("this is no usable MCP endpoint: {reason}")]
    InvalidEndpoint { reason: String },
    /// The arguments are not a JSON object; nothing was sent.
    #[error("the arguments of {tool:?} are not a JSON object")]
    InvalidArguments { tool: String },
    /// Refused, no such name, TLS, or no connection could be opened: the call was not sent.
    #[error("MCP server {server} cannot be reached: {reason}")]
    Unreachable { server: String, reason: String },
    /// Something answers there, and it does not speak MCP. It did not take the call.
    #[error("what answers at {server} is not an MCP server: {reason}")]
    NotMcp { server: String, reason: String },
    /// HTTP 401 or 403: the server did not take the call.
    #[error("MCP server {server} refused the credentials (HTTP {status})")]
    Unauthorized { server: String, status: u16 },
    /// The request may have reached the tool, and the answer was lost.
    #[error("the answer of MCP server {server} was lost: {reason}")]
    Interrupted { server: String, reason: String },
    /// `sent` is whether the request may have reached the tool by then.
    #[error("MCP server {server} did not answer within {after:?}")]
    Timeout { server: String, after: Duration, sent: bool },
    /// The server answered with a JSON-RPC error.
    #[error("MCP server {server} answered with error {code}: {message}")]
    Protocol { server: String, code: i64, message: String },
    /// `limit` in bytes.
    #[error("the answer of MCP server {server} is over the limit of {limit} bytes")]
    TooLarge { server: String, limit: usize },
    /// The tool list has no end, or is over a limit.
    #[error("the tool list of MCP server {server} cannot be used: {reason}")]
    UnusableList { server: String, reason: String },
    /// The tool wants something that Rewind does not do (ask the user, run as a task).
    #[error("the tool at MCP server {server} answered with {what:?}, which Rewind does not support")]
    Unsupported { server: String, what: String },
}

impl McpError {
    /// May the tool have seen the call? When `false`, sending it again repeats nothing.
    pub fn may_have_been_sent(&self) -> bool {
        match self {
            Self::InvalidEndpoint { .. }
            | Self::InvalidArguments { .. }
            | Self::Unreachable { .. }
            | Self::NotMcp { .. }
            | Self::Unauthorized { .. } => false,
            Self::Timeout { sent, .. } => *sent,
            Self::Interrupted { .. }
            | Self::Protocol { .. }
            | Self::TooLarge { .. }
            | Self::UnusableList { .. }
            | Self::Unsupported { .. } => true,
        }
    }

    /// May the same request succeed later, with nothing changed on this side? Whether it may be
    /// *repeated* is for [`McpError::may_have_been_sent`] and the call's policy to say.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Interrupted { .. } | Self::Timeout { .. } => true,
            Self::InvalidEndpoint { .. }
            | Self::InvalidArguments { .. }
            | Self::NotMcp { .. }
            | Self::Unauthorized { .. }
            | Self::Protocol { .. }
            | Self::TooLarge { .. }
            | Self::UnusableList { .. }
            | Self::Unsupported { .. } => false,
        }
    }
}

/// The beginning of a text that a server sent, on one line, fit for an error message.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 300;
    let mut line: String = text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    line
}

/// An error and its causes, without the URL that `reqwest` would put in (it may hold a secret).
pub(crate) fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    excerpt(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_bounded_line() {
        assert_eq!(excerpt("a\nb"), "a b");
        let long = "é".repeat(1_000);
        assert_eq!(excerpt(&long).chars().count(), 301);
    }
}
