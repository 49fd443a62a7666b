//! Starting, reading and listing runs. No node is there: a run stays queued, or a test plays the node.

mod support;

use std::time::Duration;

use reqwest::Method;
use rewind_bus::{Bus, journal::Summary};
use rewind_model::{Json, Limits, NodeId, Payload, RunId, Timestamp, ToolName};
use rewind_run::{Call, End, Entry, Record, Run, Terms};
use serde_json::{Value, json};
use support::{Coordinator, Nats, SCRIPT, eventually, send};

fn start(toolset: &str) -> Value {
    json!({"toolset": toolset, "script": SCRIPT, "input": {"id": "A-1"}})
}

/// Does what a node does at the end of a run.
async fn complete(bus: &Bus, run: &RunId, result: &str) {
    let end = End::Completed { result: Payload::Inline(Json::parse(result).expect("JSON")) };
    adopt(bus, run, vec![Record::Ended { at: Timestamp::now(), end }]).await;
}

/// Takes the run over, and appends `records`.
async fn adopt(bus: &Bus, run: &RunId, mut records: Vec<Record>) {
    let stored = bus.read(run).await.expect("read");
    let last = stored.last().expect("created").sequence;
    let created_at = stored[0].entry.records[0].at();
    records.insert(0, Record::Adopted { at: Timestamp::now(), node: NodeId::random(), epoch: 1 });
    let mut state = Run::new(run.clone(), Limits::DEFAULT);
    for record in stored.iter().flat_map(|stored| &stored.entry.records).chain(&records) {
        state.fold(record).expect("legal");
    }
    let summary = Summary::of(&state, created_at).expect("created");
    bus.append(run, &summary, &Entry::new(records), last).await.expect("appended");
}

fn id(run: &Value) -> RunId {
    run["id"].as_str().expect("an id").parse().expect("a run's id")
}

#[tokio::test]
async fn a_run_is_recorded_listed_and_read() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let toolset = coordinator.toolset().await;
    let mut body = start(&toolset);
    body["labels"] = json!({"team": "a"});
    body["namespace"] = json!("user@example.com");
    let answer = coordinator
        .request(Method::POST, "/v1/runs")
        .json(&body)
        .header("traceparent", TRACE)
        .send()
        .await
        .expect("an answer");
    assert_eq!(answer.status(), 201);
    let location = answer.headers()["location"].to_str().expect("text").to_owned();
    let run: Value = answer.json().await.expect("a run");
    assert_eq!(
        (&run["status"], &run["toolset"], &run["input"]),
        (&json!("queued"), &json!(toolset), &json!({"id": "A-1"}))
    );
    assert_eq!(coordinator.get(&location).await, (200, run.clone()));

    for (query, found) in [
        ("", true),
        ("?status=queued", true),
        ("?status=failed", false),
        ("?label=team%3Da", true),
        ("?label=team%3Db", false),
        ("?namespace=user@example.com", true),
        ("?namespace=other", false),
        (&*format!("?toolset={toolset}"), true),
    ] {
        let (_, page) = coordinator.get(&format!("/v1/runs{query}")).await;
        assert_eq!(!page["items"].as_array().expect("a list").is_empty(), found, "{query}: {page}");
    }

    // What a node will find.
    let stored = nats.bus().await.read(&id(&run)).await.expect("read");
    let [Record::Created { spec, .. }] = &stored[0].entry.records[..] else { panic!("{stored:?}") };
    assert_eq!(spec.trace.traceparent, TRACE);
    let script = nats.bus().await.script(spec.script).await.expect("read").expect("stored");
    assert!(script.javascript.contains("export default async function main(input)"), "{}", script.javascript);
    assert!(script.source_map.contains("\"mappings\"") && script.source == SCRIPT);
    let (_, journal) = coordinator.get(&format!("{location}/journal")).await;
    assert_eq!(journal, json!({"items": [], "logs": [], "adoptions": [], "appends": 1}));
}

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn the_same_key_is_the_same_run_and_for_another_request_a_conflict() {
    let nats = Nats::start();
    let (one, two) = (Coordinator::start(&nats).await, Coordinator::start(&nats).await);
    let mut body = start(&one.toolset().await);
    body["idempotency_key"] = json!("order-1");
    // At the same moment, at two coordinators.
    let (first, second) = tokio::join!(one.post("/v1/runs", &body), two.post("/v1/runs", &body));
    assert_eq!(first.1["id"], second.1["id"]);
    let mut statuses = [first.0, second.0];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 201]);
    body["input"] = json!({"id": "A-2"});
    let (status, problem) = one.post("/v1/runs", &body).await;
    assert_eq!((status, &problem["type"]), (409, &json!("/problems/idempotency-conflict")));
    body["namespace"] = json!("another");
    assert_eq!(one.post("/v1/runs", &body).await.0, 201);
}

#[tokio::test]
async fn a_key_finds_its_run_after_its_deadline() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let mut body = start(&coordinator.toolset().await);
    body["deadline"] = json!(Timestamp::now().plus(Duration::from_secs(3)).to_string());
    let unkeyed = body.clone();
    body["idempotency_key"] = json!("order-1");
    let (status, first) = coordinator.post("/v1/runs", &body).await;
    assert_eq!(status, 201, "{first}");
    eventually("the deadline is over", || async {
        (coordinator.post("/v1/runs", &unkeyed).await.0 == 422).then_some(())
    })
    .await;
    let (status, again) = coordinator.post("/v1/runs", &body).await;
    assert_eq!((status, &again["id"]), (200, &first["id"]), "{again}");
    body["labels"] = json!({"a": "b"});
    assert_eq!(coordinator.post("/v1/runs", &body).await.0, 409);
}

#[tokio::test]
async fn a_key_finds_its_fork_after_the_source_was_purged() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let bus = nats.bus().await;
    let mut body = start(&coordinator.toolset().await);
    body["namespace"] = json!("ada");
    let (_, source) = coordinator.post("/v1/runs", &body).await;
    let path = format!("/v1/runs/{}/fork", id(&source));
    let keyed = json!({"idempotency_key": "again"});
    let (status, fork) = coordinator.post(&path, &keyed).await;
    assert_eq!((status, &fork["forked_from"]), (201, &source["id"]), "{fork}");

    complete(&bus, &id(&source), "1").await;
    bus.purge_run(&id(&source)).await.expect("purged");
    assert_eq!(coordinator.post(&path, &json!({})).await.0, 410);
    let (status, again) = coordinator.post(&path, &keyed).await;
    assert_eq!((status, &again["id"]), (200, &fork["id"]), "{again}");
    let (status, other) = coordinator.post(&path, &json!({"idempotency_key": "again", "input": {"id": "B"}})).await;
    assert_eq!((status, &other["type"]), (409, &json!("/problems/idempotency-conflict")));

    complete(&bus, &id(&fork), "1").await;
    bus.purge_run(&id(&fork)).await.expect("purged");
    assert_eq!(coordinator.post(&path, &keyed).await.0, 410);
    let long = json!({"idempotency_key": "x".repeat(257)});
    assert_eq!(coordinator.post(&path, &long).await.0, 422);
}

#[tokio::test]
async fn a_recording_that_is_null_runs_nothing() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let mut body = start(&coordinator.toolset().await);
    body["cassette"] = Value::Null;
    let (status, problem) = coordinator.post("/v1/runs", &body).await;
    assert_eq!((status, &problem["type"]), (422, &json!("/problems/invalid-request")));
    assert!(problem["detail"].as_str().expect("a detail").starts_with("cassette: it is null"), "{problem}");
    assert_eq!(coordinator.get("/v1/runs").await.1["items"], json!([]));
}

#[tokio::test]
async fn a_wrong_script_starts_nothing() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let mut body = start(&coordinator.toolset().await);
    body["script"] = json!(SCRIPT.replace("lookup_order", "lookup_ordr"));
    let (status, problem) = coordinator.post("/v1/runs", &body).await;
    assert_eq!((status, &problem["type"]), (422, &json!("/problems/script-rejected")));
    assert_eq!(problem["diagnostics"][0]["line"], 3);
    assert_eq!(coordinator.get("/v1/runs").await.1["items"], json!([]));
}

#[tokio::test]
async fn a_long_poll_ends_with_the_run_or_with_its_time() {
    let nats = Nats::start();
    let (one, two) = (Coordinator::start(&nats).await, Coordinator::start(&nats).await);
    let bus = nats.bus().await;
    let (_, run) = one.post("/v1/runs", &start(&one.toolset().await)).await;
    let path = format!("/v1/runs/{}?wait=", id(&run));
    let (_, waited) = one.get(&format!("{path}50ms")).await;
    assert_eq!(waited["status"], "queued");
    let (first, second) = (format!("{path}60s"), format!("{path}60s"));
    let run_id = id(&run);
    let (a, b, ()) =
        tokio::join!(one.get(&first), two.get(&second), complete(&bus, &run_id, "12345678901234567890123"));
    for (status, ended) in [a, b] {
        assert_eq!((status, &ended["status"]), (200, &json!("completed")));
        assert!(ended.get("ended_at").is_some());
    }
    let text = one
        .request(Method::GET, &format!("/v1/runs/{run_id}"))
        .send()
        .await
        .expect("an answer")
        .text()
        .await
        .expect("text");
    assert!(text.contains("\"result\":12345678901234567890123"), "not rounded: {text}");
    let (_, journal) = one.get(&format!("/v1/runs/{run_id}/journal")).await;
    assert_eq!((&journal["appends"], &journal["adoptions"][0]["epoch"]), (&json!(2), &json!(1)));
}

#[tokio::test]
async fn calls_that_nobody_works_on_are_told_from_others() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let bus = nats.bus().await;
    let mut body = start(&coordinator.toolset().await);
    body["namespace"] = json!("ada");
    let (_, run) = coordinator.post("/v1/runs", &body).await;
    let called = |seq, approval| Record::Called {
        at: Timestamp::now(),
        seq,
        call: Call::Tool {
            tool: ToolName::new("host", "lookup_order"),
            arguments: Payload::Inline(Json::null()),
            raw: false,
            terms: Terms { approval, ..Terms::default() },
            origin: None,
        },
    };
    adopt(&bus, &id(&run), vec![called(1, false), called(2, true)]).await;
    let statuses = async || {
        let (_, journal) = coordinator.get(&format!("/v1/runs/{}/journal", id(&run))).await;
        let calls = journal["items"].as_array().expect("calls").iter();
        calls.map(|call| call["status"].as_str().expect("a status").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(statuses().await, ["no_worker", "parked"], "no worker was ever there");
    let queue = bus.host_queue("lookup_order").await.expect("a queue");
    assert_eq!(statuses().await, ["no_worker", "parked"], "none is there now");
    let worker = tokio::spawn(async move { queue.take(1, Duration::from_secs(30)).await.map(|calls| calls.len()) });
    eventually("a worker asks for calls", || async { (statuses().await[0] == "pending").then_some(()) }).await;
    worker.abort();

    let (status, parked) = coordinator.get(&format!("/v1/parked?run={}", id(&run))).await;
    let [call] = &parked["items"].as_array().expect("a list")[..] else { panic!("{parked}") };
    assert_eq!((status, &call["seq"], &call["namespace"]), (200, &json!(2), &json!("ada")));
    let (_, none) = coordinator.get(&format!("/v1/parked?run={}&namespace=bob", id(&run))).await;
    assert_eq!(none["items"], json!([]));
    assert_eq!(coordinator.get(&format!("/v1/parked?run=run_{}", "0".repeat(32))).await.0, 404);
}

#[tokio::test]
async fn a_large_input_is_kept_as_a_blob_and_read_whole() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let mut body = start(&coordinator.toolset().await);
    body["input"]["id"] = json!("x".repeat(600 << 10));
    let (status, run) = coordinator.post("/v1/runs", &body).await;
    assert_eq!(status, 201);
    let stored = nats.bus().await.read(&id(&run)).await.expect("read");
    let [Record::Created { spec, .. }] = &stored[0].entry.records[..] else { panic!("{stored:?}") };
    assert!(matches!(spec.input, Payload::Blob { .. }));
    let (_, again) = coordinator.get(&format!("/v1/runs/{}", id(&run))).await;
    assert_eq!(again["input"], body["input"]);
}

#[tokio::test]
async fn pages_of_the_list_hold_every_run_once() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let body = start(&coordinator.toolset().await);
    for _ in 0..7 {
        assert_eq!(coordinator.post("/v1/runs", &body).await.0, 201);
    }
    let (mut seen, mut query) = (Vec::new(), "?limit=3".to_owned());
    loop {
        let (_, page) = coordinator.get(&format!("/v1/runs{query}")).await;
        seen.extend(page["items"].as_array().expect("a list").iter().map(|run| run["id"].to_string()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        query = format!("?limit=3&cursor={cursor}");
    }
    assert_eq!(seen.len(), 7);
    assert_eq!(seen.iter().collect::<std::collections::BTreeSet<_>>().len(), 7);
}

#[tokio::test]
async fn without_nats_the_api_says_so_and_goes_on_when_it_is_back() {
    let mut nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let body = start(&coordinator.toolset().await);
    let (_, before) = coordinator.post("/v1/runs", &body).await;
    nats.kill();
    let path = format!("/v1/runs/{}", id(&before));
    let answer = eventually("a request is refused", || async {
        let answer = coordinator.request(Method::GET, &path).send().await.ok()?;
        (answer.status() == 503).then_some(answer)
    })
    .await;
    assert!(answer.headers().contains_key("retry-after"));
    assert_eq!(answer.json::<Value>().await.expect("a problem")["type"], "/problems/store-unavailable");
    let started = std::time::Instant::now();
    assert_eq!(coordinator.post("/v1/runs", &body).await.0, 503);
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(coordinator.anonymous(Method::GET, "/healthz").send().await.expect("an answer").status(), 200);
    let (status, readiness) = send(coordinator.anonymous(Method::GET, "/readyz")).await;
    assert_eq!((status, &readiness["status"]), (503, &json!("waiting for NATS")));

    nats.restart();
    coordinator.ready().await;
    let after = eventually("a run starts", || async {
        let (status, run) = coordinator.post("/v1/runs", &body).await;
        (status == 201).then_some(run)
    })
    .await;
    // The projection follows on: what somebody else appends wakes who waits.
    let (bus, run) = (nats.bus().await, id(&after));
    let waiting = format!("/v1/runs/{run}?wait=60s");
    let (ended, ()) = tokio::join!(coordinator.get(&waiting), complete(&bus, &run, "1"));
    assert_eq!(ended.1["result"], 1);
    let (_, page) = coordinator.get("/v1/runs").await;
    assert_eq!(page["items"].as_array().expect("a list").len(), 2);
}

#[tokio::test]
async fn the_listener_answers_before_nats_does() {
    let coordinator = Coordinator::spawn(&format!("nats://127.0.0.1:{}", support::free_port()));
    let answer =
        eventually("it answers", || async { coordinator.request(Method::GET, "/v1/runs").send().await.ok() }).await;
    assert_eq!(answer.status(), 503);
    assert!(answer.headers().contains_key("retry-after"));
    assert_eq!(send(coordinator.anonymous(Method::GET, "/readyz")).await.0, 503);
}

#[tokio::test]
async fn told_to_stop_it_answers_who_waits_and_ends() {
    let nats = Nats::start();
    let mut coordinator = Coordinator::start(&nats).await;
    let (_, run) = coordinator.post("/v1/runs", &start(&coordinator.toolset().await)).await;
    let request = coordinator.request(Method::GET, &format!("/v1/runs/{}?wait=60s", id(&run)));
    let waiting = tokio::spawn(send(request));
    assert_eq!(coordinator.get("/v1/runs").await.0, 200);
    assert_eq!(coordinator.terminate().await, Some(0));
    // Under way, it was answered; not yet begun, the connection was refused.
    if let Ok((status, run)) = waiting.await {
        assert_eq!((status, &run["status"]), (200, &json!("queued")));
    }
}
