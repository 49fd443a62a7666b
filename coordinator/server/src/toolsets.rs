//! `/v1/toolsets`.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use rewind_bus::catalog::Registration;
use rewind_model::{
    CheckScript, CheckedScript, FoundTool, FoundTools, ProblemCode, RegisterToolset, RegisteredToolset, RegistryEntry,
    Rendering, ToolName, ToolsetId,
};

use crate::{
    app::App,
    body::Body,
    path::Path,
    pin,
    query::Query,
    refusal::Refusal,
    registry::{Learned, Pinned},
};

/// Register a toolset: every MCP server in it is asked for its tools, and what they say is pinned. With
/// `base` no server is asked: its tools are taken over.
#[utoipa::path(post, path = "/v1/toolsets", tag = "toolsets", request_body = RegisterToolset, responses(
    (status = 201, description = "Registered.", body = RegisteredToolset),
    (status = 200, description = "The same toolset was registered before.", body = RegisteredToolset)))]
pub(crate) async fn register(
    State(app): State<Arc<App>>,
    Body(request): Body<RegisterToolset>,
) -> Result<Response, Refusal> {
    let document = pin::pin(&app, request).await?;
    let (id, new) = app.registry.put(&app.store, &document).await?;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    let location = [(header::LOCATION, format!("/v1/toolsets/{id}"))];
    let registration = document.registration;
    let body = RegisteredToolset { id, tools: registration.tools, warnings: registration.warnings };
    Ok((status, location, axum::Json(body)).into_response())
}

/// Read a toolset, and what was said when it was registered. With `canonical`: exactly the bytes (RFC
/// 8785) whose SHA-256 is its id.
#[utoipa::path(get, path = "/v1/toolsets/{id}", tag = "toolsets",
    params(("id" = String, Path, description = "`ts_` and 64 hex digits."),
        ("canonical" = Option<bool>, Query, allow_reserved, description = "The document alone, as its id is computed.")),
    responses((status = 200, description = "The toolset.", body = RegistryEntry)))]
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    mut query: Query,
) -> Result<Response, Refusal> {
    let canonical = query.parsed("canonical", flag)?.unwrap_or(false);
    query.finish()?;
    let id = parse_id(&id)?;
    let pinned = app.registry.get(&app.store, &id).await?;
    if canonical {
        let json = [(header::CONTENT_TYPE, "application/json")];
        return Ok((json, pinned.canonical.clone()).into_response());
    }
    let registration = app.store.ask(|bus| bus.registration(&id)).await?.unwrap_or_default();
    let observed = pinned.learned(&app.store, &id).await?.results();
    let toolset = pinned.toolset.clone();
    let Registration { tools, warnings, base, .. } = registration;
    let entry = RegistryEntry { id, toolset, base, tools, warnings, observed };
    Ok(axum::Json(entry).into_response())
}

/// The TypeScript declarations of a toolset's module `rewind:tools`, as text.
#[utoipa::path(get, path = "/v1/toolsets/{id}/declarations", tag = "toolsets",
    params(("id" = String, Path, description = "`ts_` and 64 hex digits."),
        ("rendering" = Option<Rendering>, Query, description = "`full` (default): for the type-checker and editors; `compact`: for a model's prompt.")),
    responses((status = 200, description = "The declarations.", body = String, content_type = "text/plain")))]
pub(crate) async fn declarations(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    mut query: Query,
) -> Result<Response, Refusal> {
    let rendering = query.parsed("rendering", parse_rendering)?.unwrap_or(Rendering::Full);
    query.finish()?;
    let id = parse_id(&id)?;
    let pinned = app.registry.get(&app.store, &id).await?;
    let learned = pinned.learned(&app.store, &id).await?;
    let rendered = tokio::task::spawn_blocking(move || pinned.rendering(&learned, rendering).to_owned()).await;
    let text = rendered.map_err(|error| Refusal::internal("render the declarations", &error))?;
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

/// Find tools by name and description, the best hits first; all of them, by name, without a query. For
/// toolsets that are too large for a prompt.
#[utoipa::path(get, path = "/v1/toolsets/{id}/tools", tag = "toolsets",
    params(("id" = String, Path, description = "`ts_` and 64 hex digits."),
        ("query" = Option<String>, Query, description = "Words of what is wanted, such as `create issue`."),
        ("limit" = Option<usize>, Query, description = "At most this many hits: 1 to 1000, 10 by default.")),
    responses((status = 200, description = "The hits.", body = FoundTools)))]
pub(crate) async fn tools(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    mut query: Query,
) -> Result<axum::Json<FoundTools>, Refusal> {
    let words = query.one("query")?;
    let limit = query.parsed("limit", parse_limit)?.unwrap_or(10);
    query.finish()?;
    let id = parse_id(&id)?;
    let pinned = app.registry.get(&app.store, &id).await?;
    let learned = pinned.learned(&app.store, &id).await?;
    let found = tokio::task::spawn_blocking(move || found(&pinned, &learned, words.as_deref(), limit)).await;
    found.map(axum::Json).map_err(|error| Refusal::internal("search the toolset", &error))
}

fn found(pinned: &Pinned, learned: &Learned, words: Option<&str>, limit: usize) -> FoundTools {
    let hits: Vec<(ToolName, Option<f32>)> = match words {
        Some(words) => {
            let hits = pinned.search().find(words, limit);
            hits.into_iter().map(|(tool, score)| (tool.clone(), Some(score))).collect()
        }
        None => pinned.toolset.tools().take(limit).map(|(tool, _)| (tool, None)).collect(),
    };
    let tools = hits.into_iter().map(|(tool, score)| {
        let signature = rewind_schema::signature(&pinned.toolset, learned.observations(), &tool).unwrap_or_default();
        FoundTool { tool, score, signature }
    });
    FoundTools { tools: tools.collect() }
}

fn parse_limit(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|limit| (1..=1_000).contains(limit)).ok_or("a number from 1 to 1000")
}

/// Type-check a script against a toolset without running it.
#[utoipa::path(post, path = "/v1/toolsets/{id}/check", tag = "toolsets", request_body = CheckScript,
    params(("id" = String, Path, description = "`ts_` and 64 hex digits.")),
    responses((status = 200, description = "What was found; `ok` is whether a run would start.", body = CheckedScript)))]
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Body(request): Body<CheckScript>,
) -> Result<axum::Json<CheckedScript>, Refusal> {
    let id = parse_id(&id)?;
    let pinned = app.registry.get(&app.store, &id).await?;
    let learned = pinned.learned(&app.store, &id).await?;
    let verdict = app.checker.check(&app.store, &pinned, &learned, &request.script).await?;
    let ok = verdict.diagnostics.is_empty();
    Ok(axum::Json(CheckedScript { ok, diagnostics: verdict.diagnostics.clone(), warnings: verdict.warnings.clone() }))
}

/// What is no id names no toolset.
pub(crate) fn parse_id(text: &str) -> Result<ToolsetId, Refusal> {
    text.parse().map_err(|error: rewind_model::IdError| Refusal::new(ProblemCode::UnknownToolset, error.to_string()))
}

fn parse_rendering(text: &str) -> Result<Rendering, &'static str> {
    match text {
        "full" => Ok(Rendering::Full),
        "compact" => Ok(Rendering::Compact),
        _ => Err("one of `full`, `compact`"),
    }
}

/// `?canonical` alone means yes.
fn flag(text: &str) -> Result<bool, &'static str> {
    match text {
        "" | "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("one of `true`, `false`"),
    }
}
