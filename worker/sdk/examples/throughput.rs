//! Calls a second of a tool that does nothing, through a real queue: prints one line.
//!
//! ```text
//! cargo run --release -p rewind-sdk --example throughput -- --nats nats://127.0.0.1:4222
//! ```
//!
//! All calls are queued first, so that the worker is the only thing measured; the time is from the
//! first handler's start to the last answer that NATS has acknowledged.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use clap::Parser;
use futures::{StreamExt, TryStreamExt};
use rewind_bus::{Bus, host::HostCall};
use rewind_model::{Json, Key, Payload, RunId, Seq, TraceContext};
use rewind_sdk::{Ctx, ToolError, Worker};
use tokio::sync::Notify;

#[derive(Parser)]
struct Args {
    #[arg(long, env = "REWIND_NATS", default_value = "nats://127.0.0.1:4222", hide_env_values = true)]
    nats: String,
    #[arg(long, default_value_t = 50_000)]
    calls: Seq,
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let bus = Bus::connect(&args.nats.parse()?, "throughput").await?;
    let run = RunId::random();
    let tool = format!("nothing_{}", &run.as_str()[4..12]);
    futures::stream::iter(1..=args.calls)
        .map(|seq| queue(&bus, &tool, Key { run: run.clone(), seq }))
        .buffer_unordered(1_000)
        .try_collect::<()>()
        .await?;

    let (began, last) = (Arc::new(std::sync::OnceLock::new()), Arc::new(Notify::new()));
    let (begin, end, calls) = (Arc::clone(&began), Arc::clone(&last), args.calls);
    let handled = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let nothing = move |_: Ctx, arguments: serde_json::Value| {
        begin.get_or_init(Instant::now);
        if handled.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1 == calls {
            end.notify_one();
        }
        async move { Ok::<_, ToolError>(arguments) }
    };
    // The drain waits until the last answers are acknowledged.
    let worker = Worker::builder(args.nats).concurrency(args.concurrency).tool(tool.as_str(), nothing);
    let stopped = worker.run_until(async move { last.notified().await }).await?;
    let took = began.get().map_or(Duration::ZERO, Instant::elapsed);
    let rate = f64::from(args.calls) / took.as_secs_f64();
    report(&format!(
        "{} calls in {:.2?}: {rate:.0} calls/s at concurrency {}",
        stopped.answered, took, args.concurrency
    ));
    Ok(())
}

async fn queue(bus: &Bus, tool: &str, key: Key) -> Result<(), rewind_bus::BusError> {
    let call = HostCall {
        tool: tool.into(),
        trace: TraceContext::of_run(&key.run).of_call(&key, 1),
        key,
        attempt: 1,
        arguments: Payload::Inline(Json::from(serde_json::json!({ "order_id": "o-1001" }))),
        timeout: Duration::from_secs(30),
        namespace: None,
        at_most_once: false,
    };
    bus.queue_host_call(&call).await.map(drop)
}

#[expect(clippy::print_stdout, reason = "the figure is the point")]
fn report(line: &str) {
    println!("{line}");
}
