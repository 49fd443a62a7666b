//! Whatever a handler does, its call is answered.

mod support;

use std::time::{Duration, Instant};

use rewind_model::{ErrorCode, Json, Outcome, Payload, RunId};
use rewind_sdk::{Answers, Ctx, Token, ToolError, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use support::{Nats, Run, failure, start, value, within};

#[derive(Deserialize)]
struct RefundArgs {
    items: Vec<Item>,
}
#[derive(Deserialize)]
struct Item {
    cents: u64,
}
#[derive(Serialize)]
struct Refunded {
    cents: u64,
    key: String,
    seen: Value,
}

async fn refund(ctx: Ctx, args: RefundArgs) -> Result<Refunded, ToolError> {
    ctx.heartbeat().await.expect("NATS is there");
    let seen = json!({
        "run": ctx.run().as_str(), "seq": ctx.seq(), "attempt": ctx.attempt(), "namespace": ctx.namespace(),
        "traceparent": ctx.traceparent(), "tracestate": ctx.tracestate(), "cancelled": ctx.is_cancelled(),
        "in_time": ctx.deadline() > Instant::now() && ctx.remaining() > Duration::from_secs(1),
    });
    Ok(Refunded { cents: args.items.iter().map(|item| item.cents).sum(), key: ctx.idempotency_key().into(), seen })
}

#[tokio::test]
async fn a_typed_call_and_its_typed_result() {
    let nats = Nats::start().await;
    let mut run = Run::new(&nats.bus().await).await;
    let worker = start(Worker::builder(nats.url()).tool("refund", refund)).await;

    let answer = run.ask("refund", 7, json!({ "items": [{ "cents": 3 }, { "cents": 4 }] })).await;

    let trace = run.call("refund", 7, Value::Null).trace;
    let seen = json!({
        "run": run.id.as_str(), "seq": 7, "attempt": 1, "namespace": "ada",
        "traceparent": trace.traceparent, "tracestate": null, "cancelled": false, "in_time": true,
    });
    assert_eq!(value(&answer), json!({ "cents": 7, "key": format!("{}/7", run.id), "seen": seen }));
    assert_eq!((answer.attempt, answer.timed_out), (1, false));
    assert_eq!(worker.stop().await.answered, 1);
}

#[tokio::test]
async fn arguments_of_another_type_are_refused_with_the_place() {
    let nats = Nats::start().await;
    let mut run = Run::new(&nats.bus().await).await;
    let worker = start(Worker::builder(nats.url()).tool("refund", refund)).await;

    let answer = run.ask("refund", 1, json!({ "items": [{ "cents": 3 }, { "cents": "four" }] })).await;

    assert_eq!(failure(&answer).code, ErrorCode::InvalidArguments);
    assert!(failure(&answer).message.starts_with("items[1].cents: invalid type"), "{:?}", failure(&answer));
    worker.stop().await;
}

#[tokio::test]
async fn an_error_keeps_what_its_author_said() {
    let nats = Nats::start().await;
    let mut run = Run::new(&nats.bus().await).await;
    let fail = async |_: Ctx, _: Value| {
        let error = ToolError::new("no such order").code("order_not_found").retryable(true);
        Err::<(), _>(error.details(json!({ "order_id": "o-9" })))
    };
    let worker = start(Worker::builder(nats.url()).tool("fail", fail)).await;

    let answer = run.ask("fail", 1, json!({})).await;

    let failed = failure(&answer);
    assert_eq!(
        (failed.code, failed.message.as_str(), failed.retryable),
        (ErrorCode::ToolFailed, "no such order", true)
    );
    let details: Value = failed.details.as_ref().expect("details").to().expect("JSON");
    assert_eq!(details, json!({ "code": "order_not_found", "order_id": "o-9" }));
    worker.stop().await;
}

#[tokio::test]
async fn a_panic_is_an_answer_without_its_text_and_the_worker_goes_on() {
    let nats = Nats::start().await;
    let mut run = Run::new(&nats.bus().await).await;
    let worker = Worker::builder(nats.url()).concurrency(1).tool("maybe", async |_: Ctx, args: Value| {
        assert_ne!(args["panic"], json!(true), "the password is hunter2");
        Ok::<_, ToolError>("fine")
    });
    let worker = start(worker).await;

    let panicked = run.ask("maybe", 1, json!({ "panic": true })).await;
    let fine = run.ask("maybe", 2, json!({ "panic": false })).await;

    assert_eq!(failure(&panicked).code, ErrorCode::ToolFailed);
    assert!(failure(&panicked).message.contains("panicked") && !failure(&panicked).message.contains("hunter2"));
    assert_eq!(value(&fine), json!("fine"));
    worker.stop().await;
}

#[tokio::test]
async fn a_handler_over_its_time_is_dropped_and_the_next_attempt_takes_its_place() {
    let nats = Nats::start().await;
    let mut run = Run::new(&nats.bus().await).await;
    let (dropped, mut is_dropped) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::builder(nats.url()).tool("slow", move |ctx: Ctx, _: Value| {
        let dropped = dropped.clone();
        async move {
            if ctx.attempt() == 2 {
                return Ok::<_, ToolError>("in time");
            }
            let _guard = Guard(dropped);
            std::future::pending().await
        }
    });
    let worker = start(worker).await;
    let mut call = run.call("slow", 1, json!({}));
    call.timeout = Duration::from_millis(50);

    run.bus.queue_host_call(&call).await.expect("queued");
    let first = run.answer().await;
    // At once: the first attempt's acknowledgement may still be on its way.
    call.attempt = 2;
    run.bus.queue_host_call(&call).await.expect("queued");
    let second = run.answer().await;

    assert_eq!((failure(&first).code, first.timed_out, first.attempt), (ErrorCode::Timeout, true, 1));
    within("the handler's end", is_dropped.recv()).await.expect("dropped");
    assert_eq!((value(&second), second.attempt), (json!("in time"), 2));
    worker.stop().await;
}

struct Guard(tokio::sync::mpsc::UnboundedSender<()>);
impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test]
async fn large_arguments_and_results_go_by_the_blob_store() {
    let nats = Nats::start().await;
    let mut run = Run::new(&nats.bus().await).await;
    let worker = Worker::builder(nats.url())
        .tool("echo", async |_: Ctx, args: Value| Ok::<_, ToolError>(args))
        .tool("grow", async |_: Ctx, bytes: usize| Ok::<_, ToolError>("x".repeat(bytes)));
    let worker = start(worker).await;

    // Arguments by blob, the result by blob.
    let large = json!({ "text": "ü".repeat(400_000) });
    let mut call = run.call("echo", 1, large.clone());
    run.bus.payload_to_blob(&call.key.run, &mut call.arguments).await.expect("stored");
    run.bus.queue_host_call(&call).await.expect("queued");
    let echoed = run.answer().await;
    let Outcome::Ok(payload @ Payload::Blob { size, .. }) = &echoed.outcome else { panic!("{echoed:?}") };
    let json = run.bus.payload_json(payload).await.expect("the blob");
    assert_eq!((json.to::<Value>().expect("JSON"), json.len() as u64), (large, *size));

    // At the limit a result is inline; over 16 MiB it is an error.
    let inline = run.ask("grow", 2, json!((256 << 10) - 2)).await;
    assert!(matches!(inline.outcome, Outcome::Ok(Payload::Inline(_))));
    let whole = run.ask("grow", 3, json!((16 << 20) - 2)).await;
    assert!(matches!(whole.outcome, Outcome::Ok(Payload::Blob { size, .. }) if size == 16 << 20));
    let over = run.ask("grow", 4, json!((16 << 20) - 1)).await;
    assert_eq!(failure(&over).code, ErrorCode::TooLarge);

    // A blob that is gone.
    let mut call = run.call("echo", 5, json!({}));
    call.arguments = Payload::Blob { digest: rewind_model::Digest::of("never stored"), size: 1 };
    run.bus.queue_host_call(&call).await.expect("queued");
    assert_eq!(failure(&run.answer().await).code, ErrorCode::Unavailable);
    worker.stop().await;
}

#[tokio::test]
async fn a_tools_name_may_be_any_text() {
    let nats = Nats::start().await;
    let mut run = Run::new(&nats.bus().await).await;
    let name = "billing.refund order*> ü";
    let worker =
        start(Worker::builder(nats.url()).tool(name, async |_: Ctx, args: Json| Ok::<_, ToolError>(args))).await;
    // A number that no double holds.
    let mut call = run.call(name, 1, Value::Null);
    call.arguments = Payload::Inline(Json::parse("{\"n\":12345678901234567890123}").expect("JSON"));

    run.bus.queue_host_call(&call).await.expect("queued");

    assert_eq!(run.answer().await.outcome, Outcome::Ok(call.arguments));
    worker.stop().await;
}

#[tokio::test]
async fn a_worker_that_is_set_up_wrong_says_so() {
    let nothing = async |_: Ctx, _: Value| Ok::<_, ToolError>(());
    let worker = || Worker::builder("nats://127.0.0.1:1");
    for (wrong, why) in [
        (worker(), "without tools"),
        (worker().tool("a", nothing).tool("a", nothing), "twice"),
        (worker().tool("", nothing), "1 to 128"),
        (worker().tool("a", nothing).concurrency(0), "concurrency of 0"),
        (Worker::builder("no url at all").tool("a", nothing), "URL"),
    ] {
        let error = wrong.run_until(std::future::pending()).await.expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// Days after its run was purged nobody asks for an answer any more, and nobody would remove it.
#[tokio::test]
async fn an_answer_to_a_run_that_was_purged_is_stored_nowhere() {
    let nats = Nats::start().await;
    let bus = nats.bus().await;
    let id = RunId::of_bytes(b"a run of old");
    bus.purge_run(&id).await.expect("purged");
    let answers = Answers::connect(&nats.url()).await.expect("connected");
    let token: Token = format!("later1.{id}.1.1").parse().expect("a token");
    answers.complete(&token, &"x".repeat(400_000)).await.expect("nothing is wrong with it");
    assert_eq!(bus.traces_of(&id).await.expect("listed"), [format!("$KV.REWIND_PURGED.{id}")]);
}

/// Whoever stores them: one of them remains, and when the last run is purged nothing does.
#[tokio::test]
async fn equal_blobs_that_are_stored_at_once_are_one() {
    let nats = Nats::start().await;
    let bus = nats.bus().await;
    let runs: Vec<RunId> = (0..8_u8).map(|n| RunId::of_bytes(&[n])).collect();
    let bytes = "x".repeat(700_000).into_bytes();
    let stored = futures::future::join_all(runs.iter().map(|run| bus.put_blob_of(run, &bytes))).await;
    let digest = stored.into_iter().map(|stored| stored.expect("stored")).next_back().expect("eight");
    assert_eq!(bus.subjects_with("$O.").await.expect("listed").len(), 2, "chunks, and what is said of them");
    for run in &runs {
        assert_eq!(bus.get_blob(digest).await.expect("it is there"), bytes);
        bus.purge_run(run).await.expect("purged");
    }
    assert_eq!(bus.subjects_with("$O.").await.expect("listed"), [""; 0]);
}
