//! What people decide: about parked calls, and that a run is to end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use rewind_model::{
    Approve, Digest, Key, MadeDecision, Page, ParkedCall, Payload, ProblemCode, Reject, Run, RunId, Seq, Timestamp,
    ToolName,
};
use rewind_run::{Call, ParkReason, Record, Verdict};
use tokio::time::Instant;

use crate::{app::App, body::Body, projection::Position, query::Query, refusal::Refusal, run_view};

/// A request is answered after this long, whether its run's node has heard of it or not.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at the journal.
const LOOK: Duration = Duration::from_millis(20);
const LONGEST_NAME: usize = 256;
const LONGEST_MESSAGE: usize = 8 << 10;
/// Runs whose parked calls are on one page.
const PAGE: usize = 50;

/// Cancel a run, in whatever state it is. Calls that are under way are told; what they answer is let go.
#[utoipa::path(post, path = "/v1/runs/{id}/cancel", tag = "runs",
    params(("id" = String, Path, description = "`run_` and 32 hex digits.")),
    responses((status = 200, description = "The run has ended: by this, or before it.", body = Run),
        (status = 202, description = "It will be cancelled as soon as a node has it.", body = Run)))]
pub(crate) async fn cancel(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<Response, Refusal> {
    let id = parse_run(&id)?;
    let run = run_view::read(&app, &id).await?;
    if run.status.ended() {
        return Ok(axum::Json(run).into_response());
    }
    app.store.ask(|bus| bus.command_cancel(&id)).await?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let _ = tokio::time::timeout(LOOK, app.projection.until_ended(&id)).await;
        let run = run_view::read(&app, &id).await?;
        if run.status.ended() {
            return Ok(axum::Json(run).into_response());
        }
        if Instant::now() >= deadline || app.stopping.is_cancelled() {
            return Ok((StatusCode::ACCEPTED, axum::Json(run)).into_response());
        }
    }
}

/// Let a parked call go. The first decision about a call counts.
#[utoipa::path(post, path = "/v1/runs/{id}/calls/{seq}/approve", tag = "decisions", request_body = Approve,
    params(("id" = String, Path, description = "`run_` and 32 hex digits."),
        ("seq" = u32, Path, description = "The call's number.")),
    responses((status = 200, description = "The call goes out: by this, or by an approval before it.", body = MadeDecision),
        (status = 202, description = "Taken down; it counts as soon as a node has the run, unless another one is first.")))]
pub(crate) async fn approve(
    State(app): State<Arc<App>>,
    Path(call): Path<(String, String)>,
    Body(request): Body<Approve>,
) -> Result<Response, Refusal> {
    decide(&app, call, true, request.by, None).await
}

/// End a parked call: the script gets a `ToolError` with the code `rejected`. The first decision about a
/// call counts.
#[utoipa::path(post, path = "/v1/runs/{id}/calls/{seq}/reject", tag = "decisions", request_body = Reject,
    params(("id" = String, Path, description = "`run_` and 32 hex digits."),
        ("seq" = u32, Path, description = "The call's number.")),
    responses((status = 200, description = "The script is told: by this, or by a rejection before it.", body = MadeDecision),
        (status = 202, description = "Taken down; it counts as soon as a node has the run, unless another one is first.")))]
pub(crate) async fn reject(
    State(app): State<Arc<App>>,
    Path(call): Path<(String, String)>,
    Body(request): Body<Reject>,
) -> Result<Response, Refusal> {
    decide(&app, call, false, request.by, request.message).await
}

/// Calls that wait for a decision, with what is needed to make it; those of the newest runs first.
#[utoipa::path(get, path = "/v1/parked", tag = "decisions",
    params(("namespace" = Option<String>, Query, description = "The end user's."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.")),
    responses((status = 200, description = "A page of parked calls.", body = Page<ParkedCall>)))]
pub(crate) async fn parked(
    State(app): State<Arc<App>>,
    mut query: Query,
) -> Result<axum::Json<Page<ParkedCall>>, Refusal> {
    let namespace = query.one("namespace")?;
    let after = query.parsed("cursor", str::parse::<Position>)?;
    query.finish()?;
    if !app.projection.caught_up() {
        return Err(Refusal::new(ProblemCode::StoreUnavailable, "the list of runs is still being read"));
    }
    let (runs, next) = app.projection.parked(namespace.as_deref(), after.as_ref(), PAGE);
    let mut items = Vec::new();
    for run in runs {
        let found = find_all(&app, &run).await?;
        items.extend(found.into_iter().filter(|found| found.decided.is_none()).map(|found| found.call));
    }
    Ok(axum::Json(Page { items, next_cursor: next.map(|position| position.to_string()) }))
}

/// A call that was parked, and what has become of it.
struct Found {
    call: ParkedCall,
    decided: Option<(String, MadeDecision)>,
    run_ended: bool,
}

async fn decide(
    app: &App,
    (run, seq): (String, String),
    approved: bool,
    by: Option<String>,
    message: Option<String>,
) -> Result<Response, Refusal> {
    let run = parse_run(&run)?;
    let unknown =
        |seq: &str| Refusal::new(ProblemCode::UnknownCall, format!("{run} has no call {seq} that was parked"));
    let seq: Seq = seq.parse().map_err(|_| unknown(&seq.chars().take(40).collect::<String>()))?;
    for (member, text, limit) in [("by", &by, LONGEST_NAME), ("message", &message, LONGEST_MESSAGE)] {
        if text.as_ref().is_some_and(|text| text.len() > limit) {
            return Err(Refusal::invalid(format!("{member}: at most {limit} bytes")));
        }
    }
    let decision = Digest::of(format!("{} {seq} {}", run, uuid()).as_bytes()).to_string();
    let mut told = false;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = find_all(app, &run).await?.into_iter().find(|found| found.call.seq == seq);
        let found = found.ok_or_else(|| unknown(&seq.to_string()))?;
        match found.decided {
            Some((winner, made)) if winner == decision || made.approved == approved => {
                return Ok(axum::Json(made).into_response());
            }
            Some((_, made)) => return Err(too_late(&made)),
            None if found.run_ended => {
                let detail = format!("{run} has ended: there is nothing left to decide");
                return Err(Refusal::new(ProblemCode::AlreadyDecided, detail));
            }
            None => {}
        }
        if !told {
            let verdict = Verdict { decision: decision.clone(), by: by.clone(), approved, message: message.clone() };
            app.store.ask(|bus| bus.command_decide(&run, seq, verdict)).await?;
            told = true;
        }
        if Instant::now() >= deadline || app.stopping.is_cancelled() {
            return Ok(StatusCode::ACCEPTED.into_response());
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn too_late(made: &MadeDecision) -> Refusal {
    let what = if made.approved { "approved" } else { "rejected" };
    let by = made.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    Refusal::new(ProblemCode::AlreadyDecided, format!("call {} was {what}{by} at {}", made.key, made.at))
}

/// Every call of a run that was ever parked.
async fn find_all(app: &App, run: &RunId) -> Result<Vec<Found>, Refusal> {
    let stored = app.store.ask(|bus| bus.read(run)).await?;
    if stored.is_empty() {
        return Err(Refusal::new(ProblemCode::UnknownRun, format!("there is no run {run}")));
    }
    let mut found: Vec<Found> = Vec::new();
    let mut calls: BTreeMap<Seq, (&ToolName, &Payload)> = BTreeMap::new();
    for record in stored.iter().flat_map(|stored| &stored.entry.records) {
        let key = |seq: Seq| Key { run: run.clone(), seq };
        let mut decided = |seq: Seq, decision: &str, made: MadeDecision| {
            if let Some(found) = found.iter_mut().find(|found| found.call.seq == seq) {
                found.decided = Some((decision.to_owned(), made));
            }
        };
        match record {
            Record::Called { at, seq, call: Call::Tool { tool, arguments, terms, .. } } => {
                calls.insert(*seq, (tool, arguments));
                if terms.approval {
                    let detail = format!("the policy of {tool} asks for an approval of every call");
                    let call =
                        parked_call(app, key(*seq), (tool, arguments), ParkReason::Approval, detail, *at).await?;
                    found.push(Found { call, decided: None, run_ended: false });
                }
            }
            Record::Parked { at, seq, reason, detail, .. } => {
                if let Some(call) = calls.get(seq) {
                    let call = parked_call(app, key(*seq), *call, *reason, detail.clone(), *at).await?;
                    // What was decided before was about another reason.
                    found.retain(|found| found.call.seq != *seq);
                    found.push(Found { call, decided: None, run_ended: false });
                }
            }
            Record::Approved { at, seq, decision, by } => {
                decided(*seq, decision, MadeDecision { key: key(*seq), approved: true, by: by.clone(), at: *at });
            }
            Record::Rejected { at, seq, decision, by, .. } => {
                decided(*seq, decision, MadeDecision { key: key(*seq), approved: false, by: by.clone(), at: *at });
            }
            Record::Ended { .. } => found.iter_mut().for_each(|found| found.run_ended = true),
            _ => {}
        }
    }
    Ok(found)
}

async fn parked_call(
    app: &App,
    key: Key,
    (tool, arguments): (&ToolName, &Payload),
    reason: ParkReason,
    detail: String,
    since: Timestamp,
) -> Result<ParkedCall, Refusal> {
    let arguments = app.store.ask(|bus| bus.payload_json(arguments)).await?;
    Ok(ParkedCall {
        run: key.run.clone(),
        seq: key.seq,
        key,
        tool: tool.clone(),
        arguments,
        reason: reason.as_str().to_owned(),
        detail: Some(detail),
        since,
    })
}

/// Something that no other request has.
fn uuid() -> String {
    rewind_model::NodeId::random().to_string()
}

fn parse_run(text: &str) -> Result<RunId, Refusal> {
    text.parse().map_err(|error: rewind_model::IdError| Refusal::new(ProblemCode::UnknownRun, error.to_string()))
}
