//! A run as the API shows it.

use rewind_bus::journal::{Ends, Summary};
use rewind_model::{ProblemCode, Run, RunId};
use rewind_run::{End, Record};

use crate::{app::App, refusal::Refusal};

/// The whole run, from the two ends of its journal.
///
/// # Errors
/// `unknown-run`, `run-purged`, `store-unavailable`.
pub(crate) async fn read(app: &App, id: &RunId) -> Result<Run, Refusal> {
    match app.store.ask(|bus| bus.ends(id)).await? {
        Some(ends) => of(app, id, ends).await,
        None => Err(missing(app, id).await?),
    }
}

/// Why a run that has no journal cannot be shown: `unknown-run`, or `run-purged`.
///
/// # Errors
/// `store-unavailable`.
pub(crate) async fn missing(app: &App, id: &RunId) -> Result<Refusal, Refusal> {
    let purged = app.store.ask(|bus| bus.is_purged(id)).await?;
    Ok(match purged {
        true => Refusal::new(ProblemCode::RunPurged, format!("{id} has ended, and its time here is over")),
        false => Refusal::new(ProblemCode::UnknownRun, format!("there is no run {id}")),
    })
}

async fn of(app: &App, id: &RunId, ends: Ends) -> Result<Run, Refusal> {
    let Some(Record::Created { spec, .. }) = ends.first.records.into_iter().next() else {
        return Err(Refusal::internal("read the run", &format!("the journal of {id} does not begin with `created`")));
    };
    let mut run = of_summary(id.clone(), ends.summary);
    run.input = Some(app.store.ask(|bus| bus.payload_json(&spec.input)).await?);
    run.warnings = app.checker.warnings(&app.store, run.script).await?;
    match ends.last.records.into_iter().next_back() {
        Some(Record::Ended { end: End::Completed { result }, .. }) => {
            run.result = Some(app.store.ask(|bus| bus.payload_json(&result)).await?);
        }
        Some(Record::Ended { end: End::Failed { error }, .. }) => run.error = Some(error),
        _ => {}
    }
    Ok(run)
}

/// What a list shows: no input, no result, no warnings.
pub(crate) fn of_summary(id: RunId, summary: Summary) -> Run {
    Run {
        id,
        status: summary.status,
        toolset: summary.toolset,
        script: summary.script,
        namespace: summary.namespace,
        labels: summary.labels,
        input: None,
        result: None,
        error: None,
        warnings: Vec::new(),
        calls: summary.calls,
        parked: summary.parked,
        parent: summary.parent,
        forked_from: summary.forked_from,
        created_at: summary.created_at,
        started_at: summary.started_at,
        ended_at: summary.ended_at,
    }
}
