//! Calls outlive workers, connections and servers.

mod support;

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rewind_bus::host::Queued;
use rewind_model::ErrorCode;
use rewind_sdk::{Ctx, Stopped, ToolError, Worker};
use serde_json::{Value, json};
use support::{Nats, Run, failure, start, until, value, within};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::{Semaphore, mpsc},
};

/// The example, as a process.
async fn refunds(nats: &Nats, effects: &std::path::Path) -> Child {
    let tests = std::env::current_exe().expect("this test's path");
    let example = tests.ancestors().nth(2).expect("target/<profile>").join("examples/refunds");
    let mut worker = Command::new(example)
        .args(["--nats", &nats.url(), "--effects"])
        .arg(effects)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the examples are built with the tests");
    let stdout = worker.stdout.take().expect("piped");
    let ready = within("a ready worker", BufReader::new(stdout).lines().next_line()).await.expect("readable");
    assert!(ready.expect("a line").starts_with("ready"));
    worker
}

fn effects(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[tokio::test]
async fn a_call_of_a_killed_worker_goes_to_another_one_and_has_its_effect_once() {
    let nats = Nats::start().await;
    let bus = nats.bus().await;
    let mut run = Run::new(&bus).await;
    let ledger = tempfile::NamedTempFile::new().expect("a file");
    let silence = Duration::from_millis(300);
    bus.host_queue_or_new("refund", silence).await.expect("a queue with less patience than usual");
    let mut first = refunds(&nats, ledger.path()).await;

    run.queue("refund", 1, json!({ "order_id": "o-1001", "amount_cents": 500, "delay_ms": 60_000 })).await;
    until("the effect", async || effects(ledger.path()).first().cloned()).await;
    first.kill().await.expect("killed");
    let _second = refunds(&nats, ledger.path()).await;
    let answer = run.answer().await;

    assert_eq!(value(&answer)["amount_cents"], json!(500));
    // The answer names the attempt that the run knows; the handler knows of the redelivery.
    assert_eq!(answer.attempt, 1);
    let attempts: Vec<_> =
        effects(ledger.path()).iter().map(|line| (line["attempt"].clone(), line["effect"].clone())).collect();
    assert_eq!(attempts, [(json!(1), json!(true)), (json!(2), json!(false))]);
}

#[tokio::test]
async fn heartbeats_keep_a_long_call_and_only_its_worker_has_it() {
    let nats = Nats::start().await;
    let bus = nats.bus().await;
    let mut run = Run::new(&bus).await;
    let silence = Duration::from_millis(200);
    bus.host_queue_or_new("long", silence).await.expect("a queue");
    let attempts = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&attempts);
    let worker = Worker::builder(nats.url()).tool("long", move |ctx: Ctx, _: Value| {
        seen.fetch_add(1, Ordering::SeqCst);
        async move {
            // The fact to wait for is that time has passed: five times the queue's silence.
            tokio::time::sleep(silence * 5).await;
            Ok::<_, ToolError>(json!({ "attempt": ctx.attempt(), "cancelled": ctx.is_cancelled() }))
        }
    });
    let worker = start(worker).await;

    let answer = run.ask("long", 1, json!({})).await;

    assert_eq!(value(&answer), json!({ "attempt": 1, "cancelled": false }));
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
    worker.stop().await;
}

#[tokio::test]
async fn an_abandoned_call_is_told_to_its_handler_and_leaves_no_answer() {
    let nats = Nats::start().await;
    let bus = nats.bus().await;
    let mut run = Run::new(&bus).await;
    let (event, mut events) = mpsc::unbounded_channel();
    let worker = Worker::builder(nats.url()).tool("wait", move |ctx: Ctx, args: Value| {
        let event = event.clone();
        async move {
            if args["wait"] == json!(true) {
                event.send("started").expect("the test listens");
                ctx.cancelled().await;
                event.send("cancelled").expect("the test listens");
            }
            Ok::<_, ToolError>("done")
        }
    });
    let worker = start(worker).await;

    run.queue("wait", 1, json!({ "wait": true })).await;
    assert_eq!(within("a start", events.recv()).await, Some("started"));
    bus.abandon_host_call("wait", &run.id, 1).await.expect("abandoned");
    assert_eq!(within("the news", events.recv()).await, Some("cancelled"));

    // The next answer is the next call's: `ask` checks its number.
    assert_eq!(value(&run.ask("wait", 2, json!({})).await), json!("done"));
    assert_eq!(worker.stop().await, Stopped { answered: 1, given_back: 0 });
}

#[tokio::test]
async fn a_stopping_worker_finishes_what_it_has_and_takes_no_more() {
    let nats = Nats::start().await;
    let bus = nats.bus().await;
    let mut run = Run::new(&bus).await;
    let gate = Arc::new(Semaphore::new(0));
    let (event, mut started) = mpsc::unbounded_channel();
    let pass = Arc::clone(&gate);
    let worker = Worker::builder(nats.url()).concurrency(2).tool("gated", move |ctx: Ctx, _: Value| {
        event.send(ctx.seq()).expect("the test listens");
        let pass = Arc::clone(&pass);
        async move {
            pass.acquire().await.expect("open").forget();
            Ok::<_, ToolError>(ctx.seq())
        }
    });
    let worker = start(worker).await;

    run.queue("gated", 1, json!({})).await;
    assert_eq!(within("a start", started.recv()).await, Some(1));
    let stopping = worker.stopping();
    gate.add_permits(1);
    let stopped = within("the end", stopping).await.expect("no panic").expect("an end");
    run.queue("gated", 2, json!({})).await;

    assert_eq!(stopped, Stopped { answered: 1, given_back: 0 });
    assert_eq!(value(&run.answer().await), json!(1));
    assert!(started.try_recv().is_err());
    let again = bus.queue_host_call(&run.call("gated", 2, json!({}))).await.expect("NATS answers");
    assert_eq!(again, Queued::Already);
}

#[tokio::test]
async fn what_a_stopping_worker_cannot_finish_goes_to_another_one_at_once() {
    let nats = Nats::start().await;
    let bus = nats.bus().await;
    let mut run = Run::new(&bus).await;
    let (event, mut events) = mpsc::unbounded_channel();
    let worker = Worker::builder(nats.url()).drain_limit(Duration::ZERO).tool("endless", move |_: Ctx, _: Value| {
        event.send(()).expect("the test listens");
        std::future::pending::<Result<(), ToolError>>()
    });
    let worker = start(worker).await;

    run.queue("endless", 1, json!({})).await;
    within("a start", events.recv()).await;
    assert_eq!(worker.stop().await, Stopped { answered: 0, given_back: 1 });
    let other =
        Worker::builder(nats.url()).tool("endless", async |ctx: Ctx, _: Value| Ok::<_, ToolError>(ctx.attempt()));
    let other = start(other).await;

    assert_eq!(value(&run.answer().await), json!(2));
    other.stop().await;
}

#[tokio::test]
async fn no_more_calls_are_taken_than_there_is_room_for() {
    const ROOM: usize = 3;
    let nats = Nats::start().await;
    let bus = nats.bus().await;
    let mut run = Run::new(&bus).await;
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new(Semaphore::new(0));
    let (event, mut started) = mpsc::unbounded_channel();
    let tool = {
        let (now, most, gate) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&gate));
        move |_: Ctx, _: Value| {
            let (now, most, gate, event) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&gate), event.clone());
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                event.send(()).expect("the test listens");
                gate.acquire().await.expect("open").forget();
                now.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, ToolError>(())
            }
        }
    };
    for seq in 1..=20 {
        run.queue(if seq % 2 == 0 { "even" } else { "odd" }, seq, json!({})).await;
    }
    let worker = Worker::builder(nats.url()).concurrency(ROOM).tool("even", tool.clone()).tool("odd", tool);
    let worker = start(worker).await;

    for _ in 0..ROOM {
        within("a start", started.recv()).await;
    }
    // Nothing was taken that is not being handled: a second worker could have all the rest at once.
    let mut left = 0;
    for name in ["even", "odd"] {
        let queue = bus.host_queue(name).await.expect("a queue");
        let calls = queue.take(20, Duration::ZERO).await.expect("calls");
        left += calls.len();
        for call in calls {
            call.give_back().await.expect("given back");
        }
    }
    assert_eq!(left, 20 - ROOM);
    gate.add_permits(20);
    for _ in 0..20 {
        run.answer().await;
    }
    assert_eq!(most.load(Ordering::SeqCst), ROOM);
    worker.stop().await;
}

#[tokio::test]
async fn more_tools_than_room_take_turns() {
    let nats = Nats::start().await;
    let mut run = Run::new(&nats.bus().await).await;
    let mut worker = Worker::builder(nats.url()).concurrency(1);
    for n in 0..3 {
        worker = worker.tool(format!("tool{n}"), async |ctx: Ctx, _: Value| Ok::<_, ToolError>(ctx.seq()));
    }
    let worker = start(worker).await;
    for seq in 0..6 {
        assert_eq!(value(&run.ask(&format!("tool{}", seq % 3), seq, json!({})).await), json!(seq));
    }
    worker.stop().await;
}

#[tokio::test]
async fn a_restart_of_nats_in_the_middle_loses_nothing() {
    let mut nats = Nats::start().await;
    let bus = nats.bus().await;
    let mut run = Run::new(&bus).await;
    let gate = Arc::new(Semaphore::new(0));
    let (event, mut started) = mpsc::unbounded_channel();
    let pass = Arc::clone(&gate);
    let worker = Worker::builder(nats.url()).tool("gated", move |ctx: Ctx, _: Value| {
        event.send(()).expect("the test listens");
        let pass = Arc::clone(&pass);
        async move {
            pass.acquire().await.expect("open").forget();
            Ok::<_, ToolError>(ctx.seq())
        }
    });
    let worker = start(worker).await;

    run.queue("gated", 1, json!({})).await;
    within("a start", started.recv()).await;
    nats.stop();
    // The handler ends while there is no NATS: its answer waits. The call may come again, since what the
    // queue knew of it was in the server's memory.
    gate.add_permits(10);
    nats.start_again();
    until("NATS is back", async || bus.ping().await.ok()).await;

    assert_eq!(value(&run.answer().await), json!(1));
    run.queue("gated", 2, json!({})).await;
    // An answer may come twice: the worker cannot know whether NATS had the first.
    let next = until("the next answer", async || Some(run.answer().await).filter(|answer| answer.seq == 2)).await;
    assert_eq!(value(&next), json!(2));
    worker.stop().await;
}

/// Neither a killed worker nor a server that forgets its consumers makes the call twice.
#[tokio::test]
async fn an_at_most_once_call_is_begun_once() {
    let mut nats = Nats::start().await;
    let bus = nats.bus().await;
    let mut run = Run::new(&bus).await;
    let ledger = tempfile::NamedTempFile::new().expect("a file");
    bus.host_queue_or_new("refund", Duration::from_millis(300)).await.expect("a queue");
    let mut first = refunds(&nats, ledger.path()).await;
    let mut call = run.call("refund", 1, json!({ "order_id": "o-1001", "amount_cents": 500, "delay_ms": 60_000 }));
    call.at_most_once = true;
    bus.queue_host_call(&call).await.expect("queued");
    until("the effect", async || effects(ledger.path()).first().cloned()).await;
    first.kill().await.expect("killed");
    // With its consumers the server forgets how often it delivered a call.
    nats.stop();
    nats.start_again();
    let _second = refunds(&nats, ledger.path()).await;
    let answer = run.answer().await;
    assert_eq!(failure(&answer).code, ErrorCode::OutcomeUnknown);
    assert_eq!(effects(ledger.path()).len(), 1, "the handler ran once");

    let mut other = run.call("refund", 2, json!({ "order_id": "o-1002", "amount_cents": 5 }));
    other.at_most_once = true;
    bus.queue_host_call(&other).await.expect("queued");
    assert_eq!(value(&run.answer().await)["amount_cents"], json!(5));
    let key = run.key(3);
    assert!(bus.begin_once(&key, "a").await.expect("noted"));
    assert!(bus.begin_once(&key, "a").await.expect("noted"), "its own note, the acknowledgement lost");
    assert!(!bus.begin_once(&key, "b").await.expect("noted"));
}
