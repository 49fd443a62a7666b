//! What people decide: about parked calls, and that a run is to end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use rewind_model::{
    Approve, Key, MadeDecision, NodeId, Page, ParkedCall, Payload, ProblemCode, Reject, Run, RunId, Seq, Timestamp,
    ToolName,
};
use rewind_run::{Call, ParkReason, Record, Verdict};
use tokio::time::Instant;

use crate::{
    app::App, body::Body, journal_view::excerpt, path::Path, projection::Position, query::Query, refusal::Refusal,
    run_view,
};

/// A request is answered after this long, whether its run's node has heard of it or not.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at the journal.
const LOOK: Duration = Duration::from_millis(3);
const LONGEST_LOOK: Duration = Duration::from_millis(500);
const LONGEST_NAME: usize = 256;
const LONGEST_MESSAGE: usize = 8 << 10;
const DEFAULT_LIMIT: usize = 50;
const LARGEST_LIMIT: usize = 200;
/// Bytes of a call's arguments that are shown.
const EXCERPT: usize = 8 << 10;

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
        ("run" = Option<String>, Query, description = "The run whose calls are asked for."),
        ("limit" = Option<usize>, Query, description = "Of this page: 50 by default, at most 200."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.")),
    responses((status = 200, description = "A page of parked calls.", body = Page<ParkedCall>)))]
pub(crate) async fn parked(
    State(app): State<Arc<App>>,
    mut query: Query,
) -> Result<axum::Json<Page<ParkedCall>>, Refusal> {
    let namespace = query.one("namespace")?;
    let only: Option<RunId> = query.parsed("run", str::parse)?;
    let limit = query.parsed("limit", parse_limit)?.unwrap_or(DEFAULT_LIMIT);
    let cursor = query.parsed("cursor", str::parse::<Cursor>)?;
    query.finish()?;
    if !app.projection.caught_up() {
        return Err(Refusal::new(ProblemCode::StoreUnavailable, "the list of runs is still being read"));
    }
    let (mut after, mut within) = cursor.map_or((None, None), |Cursor { after, within }| (after, within));
    within = within.or_else(|| only.clone().map(|run| (run, 0)));
    let mut items = Vec::new();
    loop {
        // A run of which the last page did not show all is looked at again.
        let (run, position) = match within.take() {
            Some((run, seq)) => ((run, seq), None),
            None if only.is_some() => return Ok(axum::Json(Page { items, next_cursor: None })),
            None => match app.projection.next_parked(namespace.as_deref(), after.as_ref()) {
                Some(position) => ((position.run().clone(), 0), Some(position)),
                None => return Ok(axum::Json(Page { items, next_cursor: None })),
            },
        };
        let (run, from) = run;
        after = position.or(after);
        // One that cannot be read keeps nobody from the others.
        let calls = match find_all(&app, &run).await {
            Ok(calls) => calls,
            Err(error) if only.is_some() => return Err(error),
            Err(error) => {
                tracing::warn!(%run, ?error, "the parked calls of a run cannot be shown");
                continue;
            }
        };
        let wanted = |found: &Found| namespace.is_none() || found.namespace == namespace;
        let waiting = calls
            .into_iter()
            .filter(|found| found.decided.is_none() && !found.run_ended && found.seq > from && wanted(found));
        for found in waiting {
            if items.len() == limit {
                let last = items.last().map_or(0, |call: &ParkedCall| if call.run == run { call.seq } else { from });
                let cursor = Cursor { after, within: Some((run, last)) };
                return Ok(axum::Json(Page { items, next_cursor: Some(cursor.to_string()) }));
            }
            items.push(shown(&app, &run, found).await);
        }
    }
}

/// Where a page of parked calls begins: after a run in the list, and within one that was not shown whole.
struct Cursor {
    after: Option<Position>,
    within: Option<(RunId, Seq)>,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(after) = &self.after {
            write!(f, "{after}")?;
        }
        match &self.within {
            Some((run, seq)) => write!(f, "~{run}~{seq}"),
            None => Ok(()),
        }
    }
}

impl std::str::FromStr for Cursor {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "no cursor of this list";
        let (after, within) = text.split_once('~').unwrap_or((text, ""));
        let after = if after.is_empty() { None } else { Some(after.parse().map_err(|_| WRONG)?) };
        let within = match within.split_once('~') {
            Some((run, seq)) => Some((run.parse().map_err(|_| WRONG)?, seq.parse().map_err(|_| WRONG)?)),
            None => None,
        };
        Ok(Self { after, within })
    }
}

fn parse_limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=LARGEST_LIMIT).contains(limit));
    limit.ok_or_else(|| format!("a number from 1 to {LARGEST_LIMIT}"))
}

/// A call that was parked, and what has become of it.
struct Found {
    seq: Seq,
    tool: ToolName,
    namespace: Option<String>,
    arguments: Payload,
    reason: ParkReason,
    detail: String,
    since: Timestamp,
    decided: Option<(String, MadeDecision)>,
    /// Decisions about it when it was parked before.
    before: Vec<(String, MadeDecision)>,
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
    let number: Option<Seq> = seq.parse().ok();
    // One call has one address: neither `01` nor `+1`.
    let number = number.filter(|number| number.to_string() == seq);
    let seq = number.ok_or_else(|| unknown(&seq.chars().take(40).collect::<String>()))?;
    for (member, text, limit) in [("by", &by, LONGEST_NAME), ("message", &message, LONGEST_MESSAGE)] {
        if text.as_ref().is_some_and(|text| text.len() > limit) {
            return Err(Refusal::invalid(format!("{member}: at most {limit} bytes")));
        }
        if text.as_ref().is_some_and(|text| text.chars().any(|c| c.is_control() && c != '\n')) {
            return Err(Refusal::invalid(format!("{member}: no control characters")));
        }
    }
    // A name that no other request has.
    let decision = NodeId::random().to_string();
    let mut told = false;
    let mut look = LOOK;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = find_all(app, &run).await?.into_iter().find(|found| found.seq == seq);
        let found = found.ok_or_else(|| unknown(&seq.to_string()))?;
        // It may be parked again by now, for another reason.
        if let Some((_, made)) = found.before.into_iter().find(|(made, _)| *made == decision) {
            return Ok(axum::Json(made).into_response());
        }
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
        tokio::time::sleep(look).await;
        look = (look * 2).min(LONGEST_LOOK);
    }
}

fn too_late(made: &MadeDecision) -> Refusal {
    let what = if made.approved { "approved" } else { "rejected" };
    let by = made.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    Refusal::new(ProblemCode::AlreadyDecided, format!("call {} was {what}{by} at {}", made.key, made.at))
}

/// Every call of a run that was ever parked, by when it was parked last.
async fn find_all(app: &App, run: &RunId) -> Result<Vec<Found>, Refusal> {
    let stored = app.store.ask(|bus| bus.read(run)).await?;
    if stored.is_empty() {
        return Err(run_view::missing(app, run).await?);
    }
    let mut calls: BTreeMap<Seq, (ToolName, Payload)> = BTreeMap::new();
    let mut found: BTreeMap<Seq, Found> = BTreeMap::new();
    let (mut ended, mut namespace) = (false, None);
    for record in stored.into_iter().flat_map(|stored| stored.entry.records) {
        let mut decided = |seq: Seq, decision: String, approved: bool, by: Option<String>, at: Timestamp| {
            if let Some(found) = found.get_mut(&seq) {
                let key = Key { run: run.clone(), seq };
                found.decided = Some((decision, MadeDecision { key, approved, by, at }));
            }
        };
        let (seq, reason, detail, since) = match record {
            Record::Called { at, seq, call: Call::Tool { tool, arguments, terms, .. } } => {
                let detail = format!("the policy of {tool} asks for an approval of every call");
                calls.insert(seq, (tool, arguments));
                if !terms.approval {
                    continue;
                }
                (seq, ParkReason::Approval, detail, at)
            }
            Record::Parked { at, seq, reason, detail, .. } => (seq, reason, detail, at),
            Record::Approved { at, seq, decision, by } => {
                decided(seq, decision, true, by, at);
                continue;
            }
            Record::Rejected { at, seq, decision, by, .. } => {
                decided(seq, decision, false, by, at);
                continue;
            }
            Record::Created { spec, .. } => {
                namespace = spec.namespace;
                continue;
            }
            Record::Ended { .. } => {
                ended = true;
                continue;
            }
            _ => continue,
        };
        if let Some((tool, arguments)) = calls.get(&seq) {
            let (tool, arguments) = (tool.clone(), arguments.clone());
            let earlier = found.remove(&seq).map(|earlier| (earlier.before, earlier.decided));
            let (mut before, last) = earlier.unwrap_or_default();
            before.extend(last);
            let namespace = namespace.clone();
            let (decided, run_ended) = (None, false);
            let parked = Found { seq, tool, namespace, arguments, reason, detail, since, decided, before, run_ended };
            found.insert(seq, parked);
        }
    }
    Ok(found.into_values().map(|found| Found { run_ended: ended, ..found }).collect())
}

/// As the API shows it: of long arguments the beginning.
async fn shown(app: &App, run: &RunId, found: Found) -> ParkedCall {
    let mut arguments = excerpt(&found.arguments, EXCERPT);
    if let Payload::Blob { digest, .. } = &found.arguments
        && let Ok(head) = app.store.ask(|bus| bus.blob_head(*digest, EXCERPT)).await
    {
        arguments.text = String::from_utf8_lossy(&head).into_owned();
    }
    ParkedCall {
        run: run.clone(),
        seq: found.seq,
        key: Key { run: run.clone(), seq: found.seq },
        tool: found.tool,
        namespace: found.namespace,
        arguments,
        reason: found.reason.as_str().to_owned(),
        detail: Some(found.detail),
        since: found.since,
    }
}

fn parse_run(text: &str) -> Result<RunId, Refusal> {
    text.parse().map_err(|error: rewind_model::IdError| Refusal::new(ProblemCode::UnknownRun, error.to_string()))
}
