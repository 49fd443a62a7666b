use serde::{Deserialize, Serialize};

/// What an API problem (RFC 9457) is about. Its `type` is `/problems/{slug}`, a page of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProblemCode {
    MalformedJson,
    InvalidRequest,
    BodyTooLarge,
    Unauthorized,
    NotFound,
    MethodNotAllowed,
    UnsupportedMediaType,
    UnknownToolset,
    UnknownRun,
    RunPurged,
    UnknownCall,
    AlreadyDecided,
    UnknownDelivery,
    ServerUnreachable,
    ServerNotMcp,
    ServerFailed,
    InvalidToolset,
    ScriptRejected,
    ScriptTooLarge,
    IdempotencyConflict,
    Busy,
    StoreUnavailable,
    Internal,
}

impl ProblemCode {
    pub const ALL: [ProblemCode; 23] = [
        Self::MalformedJson,
        Self::InvalidRequest,
        Self::BodyTooLarge,
        Self::Unauthorized,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::UnsupportedMediaType,
        Self::UnknownToolset,
        Self::UnknownRun,
        Self::RunPurged,
        Self::UnknownCall,
        Self::AlreadyDecided,
        Self::UnknownDelivery,
        Self::ServerUnreachable,
        Self::ServerNotMcp,
        Self::ServerFailed,
        Self::InvalidToolset,
        Self::ScriptRejected,
        Self::ScriptTooLarge,
        Self::IdempotencyConflict,
        Self::Busy,
        Self::StoreUnavailable,
        Self::Internal,
    ];

    /// (slug, HTTP status, title, what to do about it)
    fn parts(self) -> (&'static str, u16, &'static str, &'static str) {
        match self {
            Self::MalformedJson => (
                "malformed-json",
                400,
                "The body is not JSON",
                "Send one JSON value; the detail names line and column.",
            ),
            Self::InvalidRequest => (
                "invalid-request",
                422,
                "The request has a wrong shape",
                "The detail names the field; unknown fields are refused so that a typing error is not silently ignored.",
            ),
            Self::BodyTooLarge => (
                "body-too-large",
                413,
                "The body is over the size limit",
                "Send a smaller body; the detail names the limit in bytes.",
            ),
            Self::Unauthorized => {
                ("unauthorized", 401, "The API key is missing or wrong", "Send `Authorization: Bearer <key>`.")
            }
            Self::NotFound => ("not-found", 404, "There is nothing at this path", "See `/openapi.json` for the paths."),
            Self::MethodNotAllowed => (
                "method-not-allowed",
                405,
                "This path does not take this method",
                "See `/openapi.json` for the methods of each path.",
            ),
            Self::UnsupportedMediaType => (
                "unsupported-media-type",
                415,
                "The body is not declared as JSON",
                "Send `Content-Type: application/json`.",
            ),
            Self::UnknownToolset => (
                "unknown-toolset",
                404,
                "There is no such toolset",
                "Register it with `POST /v1/toolsets`; ids are digests, so a toolset keeps its id in every installation.",
            ),
            Self::UnknownRun => {
                ("unknown-run", 404, "There is no such run", "`GET /v1/runs` lists the runs that exist.")
            }
            Self::RunPurged => (
                "run-purged",
                410,
                "The run was purged",
                "Runs that have ended are kept for a time that the operator sets, and then removed with all that belongs to them.",
            ),
            Self::UnknownCall => (
                "unknown-call",
                404,
                "There is no such parked call",
                "`GET /v1/parked` lists the calls that wait for a decision.",
            ),
            Self::AlreadyDecided => (
                "already-decided",
                409,
                "There is nothing left to decide",
                "The detail says what was decided, by whom and when, or that the run has ended; a decision is not taken back.",
            ),
            Self::UnknownDelivery => (
                "unknown-delivery",
                404,
                "There is no such dead delivery",
                "`GET /v1/webhooks/dead` lists those that can be sent again; one that was is there no more.",
            ),
            Self::ServerUnreachable => (
                "server-unreachable",
                502,
                "An MCP server cannot be reached",
                "The detail names the server. Nothing was stored; register again once it answers.",
            ),
            Self::ServerNotMcp => (
                "server-not-mcp",
                502,
                "What answers is not an MCP server",
                "Check the URL: it must be the server's streamable-HTTP endpoint. Nothing was stored.",
            ),
            Self::ServerFailed => (
                "server-failed",
                502,
                "An MCP server failed while its tools were listed",
                "The detail names the server and what it answered. Nothing was stored.",
            ),
            Self::InvalidToolset => {
                ("invalid-toolset", 422, "The toolset cannot be pinned", "The detail names the part and why.")
            }
            Self::ScriptRejected => (
                "script-rejected",
                422,
                "The script does not type-check",
                "`diagnostics` has each error with line, column and a hint; nothing was started.",
            ),
            Self::ScriptTooLarge => {
                ("script-too-large", 413, "The script is over the size limit", "The detail names the limit in bytes.")
            }
            Self::IdempotencyConflict => (
                "idempotency-conflict",
                409,
                "The idempotency key was used for another run",
                "The same key with the same request returns the same run; use another key for another run.",
            ),
            Self::Busy => ("busy", 503, "Too much is under way", "Try again after the time in `Retry-After`."),
            Self::StoreUnavailable => (
                "store-unavailable",
                503,
                "NATS does not answer",
                "Nothing was lost; try again after the time in `Retry-After`.",
            ),
            Self::Internal => (
                "internal",
                500,
                "Rewind failed",
                "This is a fault in Rewind; its log names it under the same trace id.",
            ),
        }
    }

    pub fn slug(self) -> &'static str {
        self.parts().0
    }
    /// The HTTP status that goes with it.
    pub fn status(self) -> u16 {
        self.parts().1
    }
    pub fn title(self) -> &'static str {
        self.parts().2
    }
    /// What a person does about it, in Markdown.
    pub fn remedy(self) -> &'static str {
        self.parts().3
    }
}
