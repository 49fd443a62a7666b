//! Registered toolsets: reading them, searching them, checking scripts against them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{RunId, RunStatus, ToolName, Toolset, ToolsetId, ToolsetWarning};

/// Answer of `GET /v1/toolsets/{id}`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegistryEntry {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: ToolsetId,
    /// What the id is the digest of; `?canonical` gives the very bytes.
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub toolset: Toolset,
    /// The toolset that it was derived from. Not part of its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub base: Option<ToolsetId>,
    /// Number of tools that scripts may call, by export.
    pub tools: BTreeMap<String, usize>,
    /// What was said when the toolset was last registered. Not part of its id.
    pub warnings: Vec<ToolsetWarning>,
    /// Number of results from which the result types of tools without an output schema were learned.
    #[serde(default)]
    pub observed: BTreeMap<String, u64>,
}

/// Answer of `GET /v1/toolsets/{id}/drift`: what its servers say now, held against what is pinned.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Drift {
    /// Tools that have changed, and servers that could not be asked.
    pub changes: Vec<ToolChange>,
    /// Runs of the toolset that have not ended, whose scripts no longer type-check against what the servers list now:
    /// a call of theirs that does not match will be parked. The newest first, at most 1,000.
    pub runs: Vec<DriftingRun>,
    /// Runs whose scripts were not checked, since there are too many different ones.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub unchecked: Vec<RunId>,
}

/// A run that a change may stop: if it is not past the calls that its script's diagnostics are about.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DriftingRun {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: RunId,
    pub status: RunStatus,
    /// Where its script no longer fits, at most 10.
    pub diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolChange {
    /// `server.tool`, or `server` alone.
    pub tool: String,
    /// `changed`, `gone`, or `unreachable` (of a server).
    pub change: String,
    /// A line each.
    pub difference: Vec<String>,
}

/// Answer of a search for tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FoundTools {
    pub tools: Vec<FoundTool>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FoundTool {
    /// `export.name`
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub tool: ToolName,
    /// The higher, the better the hit; absent where nothing was searched for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// The tool's type as in the compact rendering, before it the types that it uses.
    pub signature: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rendering {
    Full,
    Compact,
}

/// Body of `POST /v1/toolsets/{id}/check`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CheckScript {
    pub script: String,
}

/// Answer of a check: `ok` is whether a run with this script would start.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckedScript {
    pub ok: bool,
    pub diagnostics: Vec<Diagnostic>,
    pub warnings: Vec<Diagnostic>,
}

/// A finding of the type-checker, at a place in the user's script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Diagnostic {
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in UTF-16 code units, as TypeScript counts.
    pub column: u32,
    /// TypeScript's, such as `TS2345`; `RW…` for Rewind's own.
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
