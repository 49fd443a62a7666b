//! Idempotency keys: the same key with the same request is the same run, whenever it is asked for again.

use rewind_model::{Digest, ProblemCode, RunId, StartRun, Timestamp};
use rewind_run::{Record, Spec};

use crate::{app::App, refusal::Refusal, start::Started};

const LONGEST_KEY: usize = 256;

/// # Errors
/// `invalid-request`.
pub(crate) fn check_key(key: Option<&str>) -> Result<(), Refusal> {
    match key {
        Some(key) if !(1..=LONGEST_KEY).contains(&key.len()) => {
            Err(Refusal::invalid(format!("idempotency_key: 1 to {LONGEST_KEY} bytes")))
        }
        _ => Ok(()),
    }
}

/// The run that a key has started, if it has; `run` is what the key names.
///
/// # Errors
/// `idempotency-conflict`, `run-purged`, `store-unavailable`.
pub(crate) async fn started_before(app: &App, run: &RunId, digest: Digest) -> Result<Option<Started>, Refusal> {
    match spec_of(app, run).await? {
        Some(spec) => same(run, &spec, digest).map(Some),
        None => not_purged(app, run).await.map(|()| None),
    }
}

/// A run that a key names is not made a second time: the same calls with the same keys would be no news to the
/// tools.
///
/// # Errors
/// `run-purged`, `store-unavailable`.
pub(crate) async fn not_purged(app: &App, run: &RunId) -> Result<(), Refusal> {
    if !app.store.ask(|bus| bus.is_purged(run)).await? {
        return Ok(());
    }
    let detail = format!("the idempotency key belongs to {run}, which has ended, and its time here is over");
    Err(Refusal::new(ProblemCode::RunPurged, detail))
}

/// What a run was started with; `None` if it is not in the journal.
///
/// # Errors
/// `store-unavailable`.
pub(crate) async fn spec_of(app: &App, run: &RunId) -> Result<Option<Spec>, Refusal> {
    let ends = app.store.ask(|bus| bus.ends(run)).await?;
    Ok(ends.and_then(|ends| match ends.first.records.into_iter().next() {
        Some(Record::Created { spec, .. }) => Some(*spec),
        _ => None,
    }))
}

/// There is a run of this id already: is it of the same request?
///
/// # Errors
/// `idempotency-conflict`, `store-unavailable`.
pub(crate) async fn same_request(app: &App, run: RunId, digest: Digest) -> Result<Started, Refusal> {
    match spec_of(app, &run).await? {
        Some(spec) => same(&run, &spec, digest),
        None => Err(Refusal::internal("start the run", &format!("the journal of {run} does not begin with `created`"))),
    }
}

fn same(run: &RunId, spec: &Spec, digest: Digest) -> Result<Started, Refusal> {
    if spec.request == digest {
        return Ok(Started::Before(run.clone()));
    }
    let detail = format!("the idempotency key belongs to {run}, which was started by another request");
    Err(Refusal::new(ProblemCode::IdempotencyConflict, detail))
}

/// With an idempotency key: a function of it and the namespace, so that two requests at the same
/// moment, at two coordinators, meet in the journal's fence.
pub(crate) fn run_id(key: Option<&str>, namespace: Option<&str>, now: Timestamp) -> RunId {
    match key {
        Some(key) => {
            let scope: &[u8] = if namespace.is_some() { b"namespace" } else { b"none" };
            let parts = [scope, namespace.unwrap_or_default().as_bytes(), key.as_bytes()];
            RunId::of_bytes(Digest::of_parts(parts).as_bytes())
        }
        None => RunId::new(u64::try_from(now.unix_ms()).unwrap_or_default()),
    }
}

/// Tells one request from another under the same key. The input counts as the text that was sent.
pub(crate) fn request_digest(request: &StartRun) -> Digest {
    let labels = request.labels.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]);
    let namespace = request.namespace.as_deref().unwrap_or_default();
    let script = request.script.as_deref().unwrap_or_default();
    let parts = [request.toolset.as_str(), script, request.input.as_str(), namespace];
    let workflow = request.workflow.iter().flat_map(|name| [b"workflow", name.as_bytes()]);
    let deadline = request.deadline.iter().flat_map(|deadline| [b"deadline", deadline.as_bytes()]);
    let webhook = request.webhook.iter().flat_map(|webhook| [b"webhook", webhook.as_bytes()]);
    let cassette = request.cassette.iter().flat_map(|cassette| [b"cassette", cassette.as_str().as_bytes()]);
    let plan = request.plan.then_some(b"plan".as_slice());
    let mut later = workflow.chain(deadline).chain(webhook).chain(cassette).chain(plan).peekable();
    // Longer than a label: no labels are these members.
    let between = later.peek().map(|_| [0_u8; 512].as_slice());
    Digest::of_parts(parts.map(str::as_bytes).into_iter().chain(labels).chain(between).chain(later))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use rewind_model::{Json, ToolsetId};

    use super::*;

    #[test]
    fn a_key_is_bounded() {
        assert!([None, Some("k"), Some(&*"x".repeat(256))].into_iter().all(|key| check_key(key).is_ok()));
        assert!(check_key(Some("")).is_err() && check_key(Some(&"x".repeat(257))).is_err());
    }

    pub(crate) fn request() -> StartRun {
        StartRun {
            toolset: ToolsetId::of_bytes(b"t"),
            script: Some("s".into()),
            workflow: None,
            deadline: None,
            input: Json::null(),
            namespace: None,
            labels: BTreeMap::new(),
            idempotency_key: Some("k".into()),
            webhook: None,
            cassette: None,
            plan: false,
        }
    }

    #[test]
    fn a_key_names_one_run_in_each_namespace() {
        let id = |request: &StartRun| {
            let (key, namespace) = (request.idempotency_key.as_deref(), request.namespace.as_deref());
            run_id(key, namespace, Timestamp::from_unix_ms(0))
        };
        let with = |namespace: &str| StartRun { namespace: Some(namespace.into()), ..request() };
        assert_eq!(id(&request()), id(&StartRun { script: Some("other".into()), ..request() }));
        assert_ne!(id(&request()), id(&with("")));
        assert_ne!(id(&with("a")), id(&with("b")));
        let without = StartRun { idempotency_key: None, ..request() };
        assert_ne!(id(&without), id(&without));
    }

    #[test]
    fn every_part_of_a_request_tells_it_from_another() {
        let digest = request_digest(&request());
        let label = [("a".to_owned(), "b".to_owned())].into();
        for other in [
            StartRun { script: Some("s2".into()), ..request() },
            StartRun { workflow: Some("s".into()), ..request() },
            StartRun { deadline: Some("1h".into()), ..request() },
            StartRun { webhook: Some("s".into()), ..request() },
            StartRun { cassette: Some(Json::null()), ..request() },
            StartRun { plan: true, ..request() },
            StartRun { input: Json::parse("1").expect("JSON"), ..request() },
            StartRun { labels: label, ..request() },
            StartRun { toolset: ToolsetId::of_bytes(b"u"), ..request() },
        ] {
            assert_ne!(request_digest(&other), digest, "{other:?}");
        }
        let labelled = StartRun { labels: [("deadline".to_owned(), "1h".to_owned())].into(), ..request() };
        assert_ne!(request_digest(&labelled), request_digest(&StartRun { deadline: Some("1h".into()), ..request() }));
    }
}
