//! `worker/README.md` is enough to write a worker from: the one that was written from it, in Python,
//! handles calls.

mod support;

use std::{process::Stdio, time::Duration};

use rewind_model::{ErrorCode, Outcome, Payload};
use serde_json::{Value, json};
use support::{Nats, Run, failure, repository, until, value, within};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

async fn minimal_worker(nats: &Nats) -> Child {
    let mut worker = Command::new(repository().join(".tools/py/bin/python"))
        .arg(repository().join("worker/sdk/tests/minimal_worker.py"))
        .arg(nats.url())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("`make tools` installs Python");
    let stdout = worker.stdout.take().expect("piped");
    let line = within("a ready worker", BufReader::new(stdout).lines().next_line()).await.expect("readable");
    assert_eq!(line.as_deref(), Some("ready"), "`make tools` installs nats-py");
    worker
}

#[tokio::test]
async fn a_worker_in_another_language_does_all_that_the_protocol_asks() {
    let nats = Nats::start().await;
    let mut run = Run::new(&nats.bus().await).await;
    let mut worker = minimal_worker(&nats).await;

    // A result, and all that a handler is told.
    let described = run.ask("describe it.", 1, json!({ "n": 1 })).await;
    let call = run.call("describe it.", 1, json!({ "n": 1 }));
    assert_eq!(
        value(&described),
        json!({
            "key": call.key.to_string(), "attempt": 1, "namespace": "ada",
            "traceparent": call.trace.traceparent, "arguments": { "n": 1 },
        })
    );
    assert_eq!(value(&run.ask("echo", 2, json!(null)).await), json!(null));

    // An error with a code of the tool's own.
    let refused = run.ask("refuse", 3, json!({})).await;
    let details: Value = failure(&refused).details.as_ref().expect("details").to().expect("JSON");
    assert_eq!(
        (failure(&refused).code, details),
        (ErrorCode::ToolFailed, json!({ "code": "order_not_found", "order_id": "o-9" }))
    );

    // Large payloads, both ways.
    let large = json!("ü".repeat(400_000));
    let mut call = run.call("echo", 4, large.clone());
    run.bus.payload_to_blob(&call.key.run, &mut call.arguments).await.expect("stored");
    run.bus.queue_host_call(&call).await.expect("queued");
    let echoed = run.answer().await;
    let Outcome::Ok(payload @ Payload::Blob { .. }) = &echoed.outcome else { panic!("{echoed:?}") };
    assert_eq!(run.bus.payload_json(payload).await.expect("the blob").to::<Value>().expect("JSON"), large);

    // Too much time, and another attempt.
    let mut call = run.call("endless", 5, json!({}));
    call.timeout = Duration::from_millis(50);
    for attempt in 1..=2 {
        call.attempt = attempt;
        run.bus.queue_host_call(&call).await.expect("queued");
        let late = run.answer().await;
        assert_eq!((late.seq, late.attempt, late.timed_out), (5, attempt, true));
    }

    // A call that nobody waits for, and an orderly end: it does not hold up the worker.
    let directory = tempfile::tempdir().expect("a directory");
    let begun = directory.path().join("begun");
    run.queue("endless", 6, json!({ "begun": begun })).await;
    until("the call's begin", async || begun.exists().then_some(())).await;
    run.bus.abandon_host_call("endless", &run.id, 6).await.expect("abandoned");
    let pid = i32::try_from(worker.id().expect("it runs")).expect("a process id");
    // SAFETY: sends a signal to a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    assert!(within("the worker's end", worker.wait()).await.expect("a status").success());
}
