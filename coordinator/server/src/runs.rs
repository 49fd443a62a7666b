//! `/v1/runs`.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use rewind_model::{Journal, Page, ProblemCode, Run, RunId, StartRun, parse_duration};

use crate::{
    app::App,
    body::{Body, LARGE_BODY},
    journal_view,
    path::Path,
    projection::{Filter, Position},
    query::Query,
    refusal::Refusal,
    run_view, start,
};

/// A long poll is answered after this long at the latest; proxies cut longer ones.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const DEFAULT_LIMIT: usize = 50;
const LARGEST_LIMIT: usize = 200;

/// Start a run: the script is type-checked, recorded, and handed to the node that owns the run's shard.
/// The request's `traceparent` becomes the run's.
#[utoipa::path(post, path = "/v1/runs", tag = "runs", request_body = StartRun, responses(
    (status = 201, description = "Started.", body = Run),
    (status = 200, description = "The idempotency key had started this run before.", body = Run)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Body(request): Body<StartRun, LARGE_BODY>,
) -> Result<Response, Refusal> {
    let (status, run) = match start::start(&app, request, &headers).await? {
        start::Started::New(run) => (StatusCode::CREATED, *run),
        start::Started::Before(id) => (StatusCode::OK, run_view::read(&app, &id).await?),
    };
    let location = [(header::LOCATION, format!("/v1/runs/{}", run.id))];
    Ok((status, location, axum::Json(run)).into_response())
}

/// Read a run; with `wait`, when it has ended or that time is over.
#[utoipa::path(get, path = "/v1/runs/{id}", tag = "runs",
    params(("id" = String, Path, description = "`run_` and 32 hex digits."),
        ("wait" = Option<String>, Query, description = "Such as `30s`; at most `60s`.")),
    responses((status = 200, description = "The run as it is now.", body = Run)))]
pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    mut query: Query,
) -> Result<axum::Json<Run>, Refusal> {
    let wait = query.parsed("wait", parse_duration)?.unwrap_or_default().min(LONGEST_WAIT);
    query.finish()?;
    let id = parse_id(&id)?;
    if !wait.is_zero() {
        if app.projection.status(&id).is_none() {
            // A run that this coordinator has not heard of may be another one's, a moment old.
            let run = run_view::read(&app, &id).await?;
            if run.status.ended() {
                return Ok(axum::Json(run));
            }
        }
        tokio::select! {
            () = app.projection.until_ended(&id) => {}
            () = tokio::time::sleep(wait) => {}
            () = app.stopping.cancelled() => {}
        }
    }
    run_view::read(&app, &id).await.map(axum::Json)
}

/// List runs, newest first. Runs in a list have no input and no result.
#[utoipa::path(get, path = "/v1/runs", tag = "runs",
    params(("status" = Option<String>, Query, description = "`queued`, `running`, `waiting`, `completed`, `failed` or `cancelled`."),
        ("namespace" = Option<String>, Query, description = "The end user's."),
        ("toolset" = Option<String>, Query, description = "A toolset's id."),
        ("parent" = Option<String>, Query, description = "The run whose calls of workflows are asked for."),
        ("label" = Option<Vec<String>>, Query, description = "`key=value`; may be repeated, and all must match."),
        ("limit" = Option<u32>, Query, description = "Of this page: 50 by default, at most 200."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.")),
    responses((status = 200, description = "A page of runs.", body = Page<Run>)))]
pub(crate) async fn list(State(app): State<Arc<App>>, mut query: Query) -> Result<axum::Json<Page<Run>>, Refusal> {
    let filter = Filter {
        status: query.parsed("status", str::parse)?,
        namespace: query.one("namespace")?,
        toolset: query.parsed("toolset", str::parse)?,
        parent: query.parsed("parent", str::parse)?,
        labels: query.all("label").iter().map(|label| parse_label(label)).collect::<Result<_, _>>()?,
    };
    let limit = query.parsed("limit", parse_limit)?.unwrap_or(DEFAULT_LIMIT);
    let after = query.parsed("cursor", str::parse::<Position>)?;
    query.finish()?;
    if !app.projection.caught_up() {
        return Err(Refusal::new(ProblemCode::StoreUnavailable, "the list of runs is still being read"));
    }
    let (runs, next) = app.projection.list(&filter, after.as_ref(), limit);
    let items = runs.into_iter().map(|(id, summary)| run_view::of_summary(id, summary)).collect();
    Ok(axum::Json(Page { items, next_cursor: next.map(|position| position.to_string()) }))
}

/// A run's history: its calls in the order in which the script made them. Console lines and take-overs
/// are on the first page.
#[utoipa::path(get, path = "/v1/runs/{id}/journal", tag = "runs",
    params(("id" = String, Path, description = "`run_` and 32 hex digits."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.")),
    responses((status = 200, description = "The journal.", body = Journal)))]
pub(crate) async fn journal(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    mut query: Query,
) -> Result<axum::Json<Journal>, Refusal> {
    let after = query.parsed("cursor", str::parse::<u32>)?.unwrap_or(0);
    query.finish()?;
    journal_view::read(&app, &parse_id(&id)?, after).await.map(axum::Json)
}

/// What is no id names no run.
fn parse_id(text: &str) -> Result<RunId, Refusal> {
    text.parse().map_err(|error: rewind_model::IdError| Refusal::new(ProblemCode::UnknownRun, error.to_string()))
}

fn parse_label(text: &str) -> Result<(String, String), Refusal> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| Refusal::invalid("the query parameter `label`: write key=value"))?;
    Ok((key.to_owned(), value.to_owned()))
}

fn parse_limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(limit) if (1..=LARGEST_LIMIT).contains(&limit) => Ok(limit),
        _ => Err(format!("a number from 1 to {LARGEST_LIMIT}")),
    }
}
