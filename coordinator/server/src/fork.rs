//! A run's past: for a fork that goes on from it, and as a cassette.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use rewind_bus::{BusError, journal::Stored};
use rewind_model::{Digest, ForkRun, Json, Limits, Payload, ProblemCode, Run, RunId, Timestamp};
use rewind_run::{Cassette, Clock, History, Past, Record, Spec};

use crate::{
    app::App,
    body::Body,
    idempotency::{check_key, run_id, spec_of, started_before},
    path::Path,
    refusal::Refusal,
    run_view,
    start::{Started, check_labels, check_webhook, create, parse_deadline, store_history, trace},
};

/// Payloads over this are moved out of a history that is a large one.
const SMALL: usize = 16 << 10;
/// Bytes of a history from which on it is a large one, and at most.
const LARGE: usize = 16 << 20;
const LARGEST: usize = 64 << 20;

/// A run as its journal has it at a moment.
struct Source {
    spec: Spec,
    clock: Clock,
    history: History,
}

/// Start a run from a run's history: calls that are the same (number, tool, arguments) get the outcome that they
/// had there, and are not made again; from the first one that differs on it is live. The run that is forked goes
/// on, or waits, as it did.
#[utoipa::path(post, path = "/v1/runs/{id}/fork", tag = "runs", request_body = ForkRun,
    params(("id" = String, Path, description = "`run_` and 32 hex digits.")),
    responses((status = 201, description = "Started.", body = Run),
        (status = 200, description = "The idempotency key had started this run before.", body = Run)))]
pub(crate) async fn fork(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(request): Body<ForkRun>,
) -> Result<Response, Refusal> {
    let id = parse_run(&id)?;
    let (status, run) = match start(&app, &id, request, &headers).await? {
        Started::New(run) => (StatusCode::CREATED, *run),
        Started::Before(id) => (StatusCode::OK, run_view::read(&app, &id).await?),
    };
    let location = [(header::LOCATION, format!("/v1/runs/{}", run.id))];
    Ok((status, location, axum::Json(run)).into_response())
}

/// A run's calls and what they got so far, as one JSON document: for `cassette` of `POST /v1/runs`.
#[utoipa::path(get, path = "/v1/runs/{id}/cassette", tag = "runs",
    params(("id" = String, Path, description = "`run_` and 32 hex digits.")),
    responses((status = 200, description = "The cassette, laid out for people.", body = String,
        content_type = "application/json")))]
pub(crate) async fn cassette(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Refusal> {
    let id = parse_run(&id)?;
    let _place = app.histories.acquire().await;
    let Source { spec, clock, mut history } = source(&app, &id).await?;
    let mut left = LARGEST as u64;
    for payload in history.payloads_mut() {
        left = left.checked_sub(payload.size()).ok_or_else(|| too_large(&id))?;
        *payload = Payload::Inline(app.store.ask(|bus| bus.payload_json(payload)).await?);
    }
    let input = app.store.ask(|bus| bus.payload_json(&spec.input)).await?;
    let made = |error: &dyn std::fmt::Display| Refusal::internal("make a cassette", error);
    let cassette = Cassette::new(id, spec.toolset, clock, input, history).map_err(|error| made(&error))?;
    let json = Json::of(&cassette).map_err(|error| made(&error))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], json.pretty()).into_response())
}

async fn start(app: &App, from: &RunId, request: ForkRun, headers: &HeaderMap) -> Result<Started, Refusal> {
    let key = request.idempotency_key.clone();
    check_key(key.as_deref())?;
    request.labels.as_ref().map_or(Ok(()), check_labels)?;
    let digest = request_digest(from, &request)?;
    let now = Timestamp::now();
    if key.is_some() {
        let named = run_id(key.as_deref(), namespace(app, from).await?.as_deref(), now);
        if let Some(before) = started_before(app, &named, digest).await? {
            return Ok(before);
        }
    }
    check_webhook(app, request.webhook.as_deref())?;
    let _place = app.histories.acquire().await;
    let Source { spec, clock, mut history } = source(app, from).await?;
    let toolset = request.toolset.unwrap_or(spec.toolset);
    let pinned = app.registry.get(&app.store, &toolset).await?;
    let learned = pinned.learned(&app.store, &toolset).await?;
    let script = match request.script {
        Some(script) => script,
        None => {
            let compiled = app.store.ask(|bus| bus.script(spec.script)).await?;
            compiled.ok_or_else(|| Refusal::internal("fork the run", &"its script is not in the catalog"))?.source
        }
    };
    let verdict = app.checker.check(&app.store, &pinned, &learned, &script).await?;
    if !verdict.diagnostics.is_empty() {
        return Err(Refusal::script(verdict.diagnostics.clone(), verdict.warnings.clone()));
    }
    let run = run_id(key.as_deref(), spec.namespace.as_deref(), now);
    shrink(app, from, &run, &mut history).await?;
    let input = request.input.map_or(spec.input, Payload::Inline);
    take_over(app, from, &run, &history, &input).await?;
    let history = store_history(app, &run, &history).await?;
    let spec = Spec {
        toolset,
        script: verdict.digest,
        input,
        namespace: spec.namespace,
        labels: request.labels.unwrap_or(spec.labels),
        request: digest,
        trace: trace(headers, &run),
        calls_in_flight: Limits::DEFAULT.calls_in_flight,
        parent: None,
        deadline: request.deadline.as_deref().map(|text| parse_deadline(text, now)).transpose()?,
        webhook: request.webhook.or(spec.webhook),
        past: Some(Past { history, clock, forked_from: Some(from.clone()) }),
        plan: false,
    };
    create(app, run, spec, key.is_some(), &verdict, now).await
}

/// The namespace of a run, and so of its forks. When the run was purged, those that are left know it.
async fn namespace(app: &App, run: &RunId) -> Result<Option<String>, Refusal> {
    if let Some(spec) = spec_of(app, run).await? {
        return Ok(spec.namespace);
    }
    match app.projection.a_fork_of(run) {
        Some(fork) => Ok(fork.namespace),
        None if app.projection.caught_up() => Err(run_view::missing(app, run).await?),
        None => Err(Refusal::new(ProblemCode::StoreUnavailable, "the list of runs is still being read")),
    }
}

/// The blobs become the fork's, too. From then on it needs nothing of the other run any more: that may be purged.
async fn take_over(app: &App, from: &RunId, run: &RunId, history: &History, input: &Payload) -> Result<(), Refusal> {
    let mut blobs: Vec<Digest> = history.blobs().collect();
    if let Payload::Blob { digest, .. } = input {
        blobs.push(*digest);
    }
    app.store.ask(|bus| bus.refer(run, &blobs)).await?;
    for digest in blobs {
        let there = app.store.attempt(|bus| bus.blob_size(digest)).await?;
        if let Err(BusError::BlobMissing(_)) = there {
            // It was purged while it was read.
            return Err(run_view::missing(app, from).await?);
        }
        there?;
    }
    Ok(())
}

/// Tells one request from another under the same key.
fn request_digest(from: &RunId, request: &ForkRun) -> Result<Digest, Refusal> {
    let json = Json::of(request).map_err(|error| Refusal::internal("fork the run", &error))?;
    Ok(Digest::of_parts([b"fork".as_slice(), from.as_str().as_bytes(), json.as_str().as_bytes()]))
}

async fn source(app: &App, id: &RunId) -> Result<Source, Refusal> {
    let stored = app.store.ask(|bus| bus.read(id)).await?;
    let first = stored.first().and_then(|stored| stored.entry.records.first().cloned());
    let Some(Record::Created { at, spec }) = first else {
        return Err(run_view::missing(app, id).await?);
    };
    let past = match &spec.past {
        Some(past) => {
            let bytes = app.store.ask(|bus| bus.get_blob(past.history)).await?;
            Some(History::from_bytes(&bytes).map_err(|error| Refusal::internal("read a history", &error))?)
        }
        None => None,
    };
    let clock = match &spec.past {
        Some(past) => past.clock.clone(),
        None => Clock { seed: id.clone(), started: at },
    };
    let records: Vec<Record> = stored.into_iter().flat_map(|Stored { entry, .. }| entry.records).collect();
    let history = History::of_run(id.clone(), &records, past.as_ref())
        .map_err(|illegal| Refusal::internal("read the run's history", &illegal))?;
    Ok(Source { spec: *spec, clock, history })
}

/// Of a large history, what can be read when it is needed is kept apart.
async fn shrink(app: &App, from: &RunId, run: &RunId, history: &mut History) -> Result<(), Refusal> {
    let inline = |history: &mut History| history.payloads_mut().map(|payload| payload.inline_size()).sum::<usize>();
    if inline(history) <= LARGE {
        return Ok(());
    }
    for payload in history.payloads_mut().filter(|payload| payload.inline_size() > SMALL) {
        app.store.ask(|bus| bus.payload_to_blob(run, payload)).await?;
    }
    if inline(history) > LARGEST { Err(too_large(from)) } else { Ok(()) }
}

fn too_large(run: &RunId) -> Refusal {
    let detail =
        format!("the arguments and results of {run} are over {LARGEST} bytes together, which is the limit here");
    Refusal::invalid(detail)
}

fn parse_run(text: &str) -> Result<RunId, Refusal> {
    text.parse().map_err(|error: rewind_model::IdError| Refusal::new(ProblemCode::UnknownRun, error.to_string()))
}
