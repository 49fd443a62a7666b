//! Answers that are problems (RFC 9457).

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use rewind_bus::BusError;
use rewind_mcp::McpError;
use rewind_model::{Diagnostic, Problem, ProblemCode};

/// Why a request is not done. The one error type of the API.
#[derive(Debug)]
pub(crate) struct Refusal {
    code: ProblemCode,
    detail: String,
    diagnostics: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl Refusal {
    pub(crate) fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), diagnostics: Vec::new(), warnings: Vec::new() }
    }

    /// A request of the right JSON with a wrong value in it.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(ProblemCode::InvalidRequest, detail)
    }

    /// A fault of this program: the log has the reason, the client does not.
    pub(crate) fn internal(what: &str, why: &dyn std::fmt::Display) -> Self {
        tracing::error!(what, %why, "a request failed for a reason of our own");
        Self::new(ProblemCode::Internal, format!("could not {what}; the log of the coordinator has the reason"))
    }

    /// The script does not type-check.
    pub(crate) fn script(diagnostics: Vec<Diagnostic>, warnings: Vec<Diagnostic>) -> Self {
        let errors = diagnostics.len();
        let detail = match diagnostics.first() {
            Some(first) if errors == 1 => format!("{}:{}:{}: {}", first.file, first.line, first.column, first.message),
            Some(first) => {
                format!("{}:{}:{}: {} (and {} more)", first.file, first.line, first.column, first.message, errors - 1)
            }
            None => "the type-checker refused it".to_owned(),
        };
        Self { code: ProblemCode::ScriptRejected, detail, diagnostics, warnings }
    }

    /// What kept the MCP server called `name` from being registered.
    pub(crate) fn server(name: &str, error: &McpError) -> Self {
        let code = match error {
            McpError::InvalidEndpoint { .. } => ProblemCode::InvalidToolset,
            McpError::Unreachable { .. } | McpError::Timeout { .. } => ProblemCode::ServerUnreachable,
            McpError::NotMcp { .. } => ProblemCode::ServerNotMcp,
            // The error may grow variants; all that is not the network's is the server's.
            _ => ProblemCode::ServerFailed,
        };
        Self::new(code, format!("mcp_servers.{name}: {error}"))
    }

    /// Seconds after which the same request may succeed.
    fn retry_after(&self) -> Option<&'static str> {
        match self.code {
            ProblemCode::StoreUnavailable => Some("2"),
            ProblemCode::Busy => Some("1"),
            _ => None,
        }
    }
}

impl From<BusError> for Refusal {
    fn from(error: BusError) -> Self {
        match error {
            BusError::Unavailable { what, why } => {
                tracing::warn!(what, why, "NATS does not answer");
                Self::new(ProblemCode::StoreUnavailable, format!("NATS does not answer ({what})"))
            }
            error => Self::internal("use the store", &error),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = self.retry_after().map(|seconds| [(header::RETRY_AFTER, seconds)]);
        let challenge = (status == StatusCode::UNAUTHORIZED).then_some([(header::WWW_AUTHENTICATE, "Bearer")]);
        let problem = Problem {
            kind: format!("/problems/{}", self.code.slug()),
            title: self.code.title().to_owned(),
            status: status.as_u16(),
            detail: Some(self.detail),
            diagnostics: self.diagnostics,
            warnings: self.warnings,
        };
        let body = axum::Json(problem);
        (status, retry_after, challenge, [(header::CONTENT_TYPE, "application/problem+json")], IntoBody(body))
            .into_response()
    }
}

/// A body without its own content type, which would come after the one that is set before it.
struct IntoBody(axum::Json<Problem>);

impl IntoResponse for IntoBody {
    fn into_response(self) -> Response {
        Response::new(self.0.into_response().into_body())
    }
}
