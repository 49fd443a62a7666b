//! Starting a run: check, then one append that makes it exist, then word to the shard's owner.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use rewind_bus::{
    BusError,
    journal::{Listed, Summary},
};
use rewind_model::{
    Digest, Limits, Payload, ProblemCode, RunId, StartRun, Timestamp, ToolsetId, TraceContext, parse_duration,
};
use rewind_run::{Cassette, Clock, Entry, History, Past, Record, Run, Spec};
use rewind_schema::Validator;

use crate::{
    app::App,
    body::{BODY_LIMIT, Wrong, read_json},
    idempotency::{check_key, not_purged, request_digest, run_id, same_request, started_before},
    refusal::Refusal,
    registry::Pinned,
    run_view,
    typecheck::Verdict,
    webhooks::Endpoint,
};

const LONGEST_NAMESPACE: usize = 128;
/// Workflows of a toolset that are named to who asked for another one.
const MOST_NAMED: usize = 20;
const MOST_LABELS: usize = 32;
const LONGEST_LABEL_KEY: usize = 64;
const LONGEST_LABEL_VALUE: usize = 256;

/// What became of a request to start a run.
#[derive(Debug)]
pub(crate) enum Started {
    New(Box<rewind_model::Run>),
    /// The idempotency key had started it before.
    Before(RunId),
}

/// Starts a run, or finds the one that the idempotency key started.
///
/// Three round trips to NATS when toolset and script are known: what has been observed of results, the
/// append, on whose acknowledgement the run exists whatever happens next, and the command to the owner
/// of its shard. An idempotency key is looked up before anything else: the time of the request, the servers and
/// the toolsets may have changed since it started its run.
///
/// # Errors
/// `invalid-request`, `unknown-toolset`, `script-rejected`, `script-too-large`, `idempotency-conflict`,
/// `busy`, `store-unavailable`.
pub(crate) async fn start(app: &App, request: StartRun, headers: &HeaderMap) -> Result<Started, Refusal> {
    check_bounds(&request)?;
    check_key(request.idempotency_key.as_deref())?;
    let now = Timestamp::now();
    let keyed = request.idempotency_key.is_some();
    let run = run_id(request.idempotency_key.as_deref(), request.namespace.as_deref(), now);
    let digest = request_digest(&request);
    if keyed && let Some(before) = started_before(app, &run, digest).await? {
        return Ok(before);
    }
    check_webhook(app, request.webhook.as_deref())?;
    let pinned = app.registry.get(&app.store, &request.toolset).await?;
    let (toolset, source) = script(app, &pinned, &request).await?;
    let pinned = app.registry.get(&app.store, &toolset).await?;
    let learned = pinned.learned(&app.store, &toolset).await?;
    let verdict = app.checker.check(&app.store, &pinned, &learned, &source).await?;
    if !verdict.diagnostics.is_empty() {
        return Err(Refusal::script(verdict.diagnostics.clone(), verdict.warnings.clone()));
    }
    let past = past(app, &request, &run, now).await?;
    let spec = Spec {
        toolset,
        script: verdict.digest,
        request: digest,
        trace: trace(headers, &run),
        calls_in_flight: Limits::DEFAULT.calls_in_flight,
        parent: None,
        deadline: request.deadline.as_deref().map(|text| parse_deadline(text, now)).transpose()?,
        input: Payload::Inline(request.input),
        namespace: request.namespace,
        labels: request.labels,
        webhook: request.webhook,
        past,
        plan: request.plan,
    };
    create(app, run, spec, keyed, &verdict, now).await
}

/// Makes the run exist, unless it did before. `keyed`: its id is a function of an idempotency key.
///
/// # Errors
/// `idempotency-conflict`, `run-purged`, `busy`, `store-unavailable`.
pub(crate) async fn create(
    app: &App,
    run: RunId,
    mut spec: Spec,
    keyed: bool,
    verdict: &Verdict,
    now: Timestamp,
) -> Result<Started, Refusal> {
    if keyed {
        not_purged(app, &run).await?;
    }
    let input = app.store.ask(|bus| bus.payload_json(&spec.input)).await?;
    if spec.input.inline_size() > Limits::DEFAULT.inline_bytes {
        app.store.ask(|bus| bus.payload_to_blob(&run, &mut spec.input)).await?;
    }
    let digest = spec.request;
    let created = Record::Created { at: now, spec: Box::new(spec) };
    let summary = summary(&run, &created, now)?;
    let entry = Entry::new(vec![created]);
    match app.store.attempt(|bus| bus.append_once(&run, &summary, &entry, 0)).await? {
        Ok(sequence) => {
            let mut view = run_view::of_summary(run.clone(), summary.clone());
            view.input = Some(input);
            view.warnings.clone_from(&verdict.warnings);
            app.projection.apply(Listed { run: run.clone(), sequence, summary });
            tell_owner(app, &run, sequence, entry).await;
            Ok(Started::New(Box::new(view)))
        }
        Err(BusError::Fenced { .. }) => same_request(app, run, digest).await,
        Err(error) => Err(error.into()),
    }
}

/// What a run on a cassette, or a plan, begins with.
async fn past(app: &App, request: &StartRun, run: &RunId, now: Timestamp) -> Result<Option<Past>, Refusal> {
    let _place = if request.cassette.is_some() { Some(app.histories.acquire().await) } else { None };
    let (history, clock) = match &request.cassette {
        Some(json) => {
            let wrong = |why: String| Refusal::invalid(format!("cassette: {why}"));
            let cassette: Cassette =
                read_json(json.as_str().as_bytes()).map_err(|(Wrong::Syntax(why) | Wrong::Value(why))| wrong(why))?;
            let clock = cassette.clock.clone();
            (cassette.history().map_err(|error| wrong(error.to_string()))?, clock)
        }
        None if request.plan => (History::new(), Clock { seed: run.clone(), started: now }),
        None => return Ok(None),
    };
    let history = store_history(app, run, &history).await?;
    Ok(Some(Past { history, clock, forked_from: None }))
}

/// # Errors
/// `store-unavailable`.
pub(crate) async fn store_history(app: &App, run: &RunId, history: &History) -> Result<Digest, Refusal> {
    let bytes = history.to_bytes().map_err(|error| Refusal::internal("store a history", &error))?;
    app.store.ask(|bus| bus.put_blob_of(run, &bytes)).await
}

/// A time, or how long from now.
pub(crate) fn parse_deadline(text: &str, now: Timestamp) -> Result<Timestamp, Refusal> {
    let at = parse_duration(text).map(|after| now.plus(after)).or_else(|_| text.parse());
    let at = at.map_err(|_| {
        Refusal::invalid("deadline: a duration such as \"30m\" or a time such as \"2026-12-01T10:00:00Z\"")
    })?;
    if at <= now { Err(Refusal::invalid(format!("deadline: {at} is over"))) } else { Ok(at) }
}

/// The toolset that the run has, and its TypeScript: what was given, or the workflow's own.
async fn script(app: &App, pinned: &Pinned, request: &StartRun) -> Result<(ToolsetId, String), Refusal> {
    let name = match (&request.script, &request.workflow) {
        (Some(script), None) => return Ok((request.toolset.clone(), script.clone())),
        (None, Some(name)) => name,
        (Some(_), Some(_)) | (None, None) => return Err(Refusal::invalid("give either `script` or `workflow`")),
    };
    let shown: String = name.chars().take(128).collect();
    let workflow = pinned.toolset.workflows.get(name).ok_or_else(|| {
        let known = pinned.toolset.workflows.keys().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Refusal::invalid(format!("workflow: the toolset has no workflow {shown:?}; it has: {known}"))
    })?;
    if let Some(schema) = &workflow.input_schema
        && let Ok((validator, _)) = Validator::new(schema, &Limits::DEFAULT)
        && let Err(violations) = validator.validate_json(request.input.as_str())
    {
        let said: Vec<_> = violations.iter().map(ToString::to_string).collect();
        return Err(Refusal::invalid(format!("input: {}", said.join("; "))));
    }
    let source = app.store.ask(|bus| bus.get_blob(workflow.script)).await?;
    let source = String::from_utf8(source).map_err(|error| Refusal::internal("read a workflow's script", &error))?;
    Ok((workflow.toolset.clone().unwrap_or_else(|| request.toolset.clone()), source))
}

/// The shard's owner learns of the run at once. If it cannot be told now, that is tried on; and
/// whoever takes the shard over finds the run in the journal anyway.
async fn tell_owner(app: &App, run: &RunId, sequence: u64, entry: Entry) {
    let told = app.store.ask(|bus| bus.command_start(run, sequence, &entry)).await;
    let (Err(_), Some(bus)) = (told, app.store.handle()) else { return };
    let (run, stopping) = (run.clone(), app.stopping.clone());
    app.tasks.spawn(async move {
        let mut wait = std::time::Duration::from_millis(100);
        while let Err(error) = bus.command_start(&run, sequence, &entry).await {
            tracing::debug!(%run, %error, "the owner of a new run could not be told; trying again");
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(std::time::Duration::from_secs(5)),
                () = stopping.cancelled() => return,
            }
        }
    });
}

fn check_bounds(request: &StartRun) -> Result<(), Refusal> {
    let header_safe = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    // The body may be larger for the sake of a cassette.
    if request.input.len() > BODY_LIMIT {
        let detail = format!("input: the limit is {BODY_LIMIT} bytes");
        return Err(Refusal::new(ProblemCode::BodyTooLarge, detail));
    }
    if let Some(namespace) = &request.namespace
        && !((1..=LONGEST_NAMESPACE).contains(&namespace.len()) && header_safe(namespace))
    {
        // It travels in headers, to host workers.
        return Err(Refusal::invalid(format!("namespace: 1 to {LONGEST_NAMESPACE} visible ASCII characters")));
    }
    if request.cassette.as_ref().is_some_and(|cassette| cassette.as_str() == "null") {
        // It must not run live because a harness found no recording.
        return Err(Refusal::invalid(
            "cassette: it is null; give a document of GET /v1/runs/{id}/cassette, or leave it out",
        ));
    }
    check_labels(&request.labels)
}

/// Where a run's events are to be sent.
///
/// # Errors
/// `invalid-request`.
pub(crate) fn check_webhook(app: &App, webhook: Option<&str>) -> Result<(), Refusal> {
    let Some(text) = webhook else { return Ok(()) };
    Endpoint::parse(text).map_err(|why| Refusal::invalid(format!("webhook: {why}")))?;
    if app.webhooks.keys.is_none() {
        return Err(Refusal::invalid(
            "webhook: none is sent here; the operator has to set REWIND_WEBHOOK_SECRET of the coordinators",
        ));
    }
    Ok(())
}

pub(crate) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Refusal> {
    if labels.len() > MOST_LABELS {
        return Err(Refusal::invalid(format!("labels: {} of them; the limit is {MOST_LABELS}", labels.len())));
    }
    for (key, value) in labels {
        let fits = (1..=LONGEST_LABEL_KEY).contains(&key.len()) && value.len() <= LONGEST_LABEL_VALUE;
        if !fits || key.contains('=') {
            let shown: String = key.chars().take(LONGEST_LABEL_KEY).collect();
            return Err(Refusal::invalid(format!(
                "labels: {shown:?}: a key has 1 to {LONGEST_LABEL_KEY} bytes and no `=`, a value at most {LONGEST_LABEL_VALUE} bytes"
            )));
        }
    }
    Ok(())
}

/// The caller's trace goes on in the run; without one the run begins its own.
pub(crate) fn trace(headers: &HeaderMap, run: &RunId) -> TraceContext {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let given = text("traceparent").and_then(|parent| TraceContext::parse(parent, text("tracestate")));
    given.unwrap_or_else(|| TraceContext::of_run(run))
}

fn summary(run: &RunId, created: &Record, now: Timestamp) -> Result<Summary, Refusal> {
    let mut state = Run::new(run.clone(), Limits::DEFAULT);
    state.fold(created).map_err(|illegal| Refusal::internal("start the run", &illegal))?;
    Summary::of(&state, now).ok_or_else(|| Refusal::internal("start the run", &"it has no summary"))
}

#[cfg(test)]
mod tests {
    use rewind_model::Json;

    use super::*;
    use crate::idempotency::tests::request;

    #[test]
    fn what_travels_in_headers_is_bounded() {
        assert!(check_bounds(&StartRun { namespace: Some("user@example.com".into()), ..request() }).is_ok());
        for bad in ["", "a\r\nb: c", "ü", &"x".repeat(129)] {
            assert!(check_bounds(&StartRun { namespace: Some(bad.into()), ..request() }).is_err(), "{bad}");
        }
        let many = (0..33).map(|n| (n.to_string(), String::new())).collect();
        assert!(check_bounds(&StartRun { labels: many, ..request() }).is_err());
        assert!(check_bounds(&StartRun { labels: [("a=b".into(), "c".into())].into(), ..request() }).is_err());
        assert!(check_bounds(&StartRun { cassette: Some(Json::null()), ..request() }).is_err());
    }
}
