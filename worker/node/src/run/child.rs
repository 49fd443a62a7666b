//! Runs that a run starts: its calls of workflows.

use rewind_bus::{BusError, command::Answer, journal::Summary, names};
use rewind_dispatch::Sent;
use rewind_model::{Digest, ErrorCode, Json, Key, Limits, Outcome, Payload, RunId, Timestamp, ToolFailure, Workflow};
use rewind_run::{End, Entry, Parent, Record, Run, Spec};

use crate::context::Context;

/// Runs below runs.
const DEEPEST: u32 = 8;

/// Starts the child run of the call `key`, unless it has been started; what became of it, if it has ended.
pub(crate) async fn start(
    context: &Context,
    spec: &Spec,
    key: &Key,
    workflow: &Workflow,
    name: &str,
    input: &Payload,
) -> Sent {
    match try_start(context, spec, key, workflow, name, input).await {
        Ok(sent) => sent,
        Err(error) if error.retryable() => {
            Sent::Interrupted { failure: unavailable(name, &error.to_string()), sent: false }
        }
        Err(error) => Sent::Answered(Outcome::Err(unavailable(name, &error.to_string()))),
    }
}

fn unavailable(name: &str, why: &str) -> ToolFailure {
    ToolFailure::new(ErrorCode::Unavailable, format!("workflows.{name} was not started: {why}"))
}

async fn try_start(
    context: &Context,
    spec: &Spec,
    key: &Key,
    workflow: &Workflow,
    name: &str,
    input: &Payload,
) -> Result<Sent, BusError> {
    let depth = spec.parent.as_ref().map_or(0, |parent| parent.depth) + 1;
    if depth > DEEPEST {
        let message = format!("workflows.{name} was not started: runs below runs go {DEEPEST} deep");
        return Ok(Sent::Answered(Outcome::Err(ToolFailure::new(ErrorCode::Refused, message))));
    }
    let bus = &context.bus;
    let registration = bus.retry("read a registration", || bus.registration(&spec.toolset)).await?;
    let Some(script) = registration.and_then(|registration| registration.workflows.get(name).copied()) else {
        return Ok(Sent::Answered(Outcome::Err(unavailable(name, "its compiled script is not in the catalog"))));
    };
    let child = key.workflow_run();
    let now = Timestamp::now();
    let spec = Spec {
        toolset: workflow.toolset.clone().unwrap_or_else(|| spec.toolset.clone()),
        script,
        input: input.clone(),
        namespace: spec.namespace.clone(),
        labels: spec.labels.clone(),
        request: Digest::of(key.to_string().as_bytes()),
        trace: spec.trace.of_call(key, 1),
        calls_in_flight: Limits::DEFAULT.calls_in_flight,
        parent: Some(Parent { key: key.clone(), depth }),
        deadline: spec.deadline,
        webhook: spec.webhook.clone(),
        past: None,
        plan: false,
    };
    let created = Record::Created { at: now, spec: Box::new(spec) };
    let entry = Entry::new(vec![created.clone()]);
    let summary = summary(context, &child, &created, now)?;
    match bus.append(&child, &summary, &entry, 0).await {
        Ok(sequence) => {
            // If this node dies before, the owner of the child's shard finds the run in the journal.
            bus.retry("start a child run", || bus.command_start(&child, sequence, &entry)).await?;
            tracing::debug!(run = %child, parent = %key, workflow = name, "a workflow's run was started");
            Ok(Sent::Queued)
        }
        Err(BusError::Fenced { .. }) => {
            let ends = bus.retry("read a child run", || bus.ends(&child)).await?;
            let last = ends.and_then(|ends| ends.last.records.into_iter().next_back());
            Ok(match last {
                Some(Record::Ended { end, .. }) => Sent::Answered(outcome(&child, end)),
                _ => Sent::Queued,
            })
        }
        Err(error) => Err(error),
    }
}

fn summary(context: &Context, child: &RunId, created: &Record, now: Timestamp) -> Result<Summary, BusError> {
    let malformed = |why: String| BusError::Malformed { what: child.to_string(), why };
    let mut run = Run::new(child.clone(), context.limits);
    run.fold(created).map_err(|illegal| malformed(illegal.to_string()))?;
    Summary::of(&run, now).ok_or_else(|| malformed("it has no summary".into()))
}

/// A child's end, as its parent's script gets it.
fn outcome(child: &RunId, end: End) -> Outcome {
    let failed = |code: &str, message: String| {
        let details = serde_json::json!({"run": child, "code": code});
        ToolFailure {
            retryable: false,
            details: Some(Json::from(details)),
            ..ToolFailure::new(ErrorCode::ToolFailed, message)
        }
    };
    match end {
        End::Completed { result } => Outcome::Ok(result),
        End::Failed { error } => Outcome::Err(failed(&error.code, format!("{child} failed: {}", error.message))),
        End::Cancelled => Outcome::Err(failed("cancelled", format!("{child} was cancelled"))),
    }
}

/// Tells the parent how its child has ended. If this node dies before, the parent asks by itself.
pub(crate) async fn report(context: &Context, child: &RunId, parent: &Key, end: End) {
    let bus = &context.bus;
    let mut outcome = outcome(child, end);
    if let Outcome::Ok(payload) = &mut outcome
        && payload.inline_size() > context.limits.inline_bytes
        && let Err(error) = bus.payload_to_blob_surely(&parent.run, payload).await
    {
        tracing::error!(run = %child, %error, "the result of a child run could not be handed to its parent");
        return;
    }
    let answer = Answer { seq: parent.seq, attempt: 1, outcome, timed_out: false };
    let subject = names::command(&parent.run);
    if let Err(error) = bus.retry("tell the parent", || bus.command_answer(&subject, &answer)).await {
        tracing::error!(run = %child, %parent, %error, "the parent of a run could not be told that it has ended");
    }
}
