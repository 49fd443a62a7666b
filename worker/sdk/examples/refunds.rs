//! A worker with two host tools, `lookup_order` and `refund`: the example to copy.
//!
//! ```text
//! cargo run -p rewind-sdk --example refunds -- --nats nats://127.0.0.1:4222 --effects refunds.jsonl
//! ```
//!
//! A refund moves money, so a repeated call must not refund twice. The ledger below remembers each
//! idempotency key in the same breath as the refund; in a service of your own that is a row with a
//! unique key, in the transaction that does the work.

use std::{
    collections::HashSet,
    fs::File,
    io::{BufRead, BufReader, IsTerminal, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use clap::Parser;
use rewind_sdk::{Ctx, ToolError, Worker};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

#[derive(Parser)]
struct Args {
    /// Address of NATS, such as `nats://user:password@host:4222`.
    #[arg(long, env = "REWIND_NATS", default_value = "nats://127.0.0.1:4222", hide_env_values = true)]
    nats: String,
    /// The ledger: every attempt at a refund as a line of JSON. Workers may share it, and find in it
    /// what was refunded before they started.
    #[arg(long, default_value = "refunds.jsonl")]
    effects: PathBuf,
    /// How long the bank takes to confirm a refund whose call names no `delay_ms`.
    #[arg(long, default_value = "2s", value_parser = rewind_sdk::parse_duration)]
    refund_takes: Duration,
    /// How many calls are handled at a time.
    #[arg(long, default_value_t = 32)]
    concurrency: usize,
}

#[derive(Deserialize)]
struct LookupArgs {
    order_id: String,
}

#[derive(Clone, Serialize)]
struct Order {
    order_id: &'static str,
    total_cents: u64,
    customer: &'static str,
    status: &'static str,
}

#[derive(Deserialize)]
struct RefundArgs {
    order_id: String,
    amount_cents: u64,
    delay_ms: Option<u64>,
}

#[derive(Serialize)]
struct Refunded {
    refund_id: String,
    order_id: String,
    amount_cents: u64,
}

const ORDERS: [Order; 4] = [
    Order { order_id: "o-1001", total_cents: 12_900, customer: "Ada Lovelace", status: "open" },
    Order { order_id: "o-1002", total_cents: 4_250, customer: "Alan Turing", status: "shipped" },
    Order { order_id: "o-1003", total_cents: 99_999, customer: "Grace Hopper", status: "open" },
    Order { order_id: "o-1004", total_cents: 700, customer: "Edsger Dijkstra", status: "open" },
];

fn find(order_id: &str) -> Result<Order, ToolError> {
    ORDERS.iter().find(|order| order.order_id == order_id).cloned().ok_or_else(|| {
        // What the script catches: `error.code` is "tool_failed", `error.details.code` is this one.
        ToolError::new(format!("there is no order {order_id:?}")).code("order_not_found")
    })
}

async fn lookup_order(_ctx: Ctx, args: LookupArgs) -> Result<Order, ToolError> {
    find(&args.order_id)
}

async fn refund(ledger: Arc<Ledger>, takes: Duration, ctx: Ctx, args: RefundArgs) -> Result<Refunded, ToolError> {
    let order = find(&args.order_id)?;
    if args.amount_cents == 0 || args.amount_cents > order.total_cents {
        let error = ToolError::new(format!("{} cents cannot be refunded of {}", args.amount_cents, order.total_cents));
        return Err(error.code("amount_not_refundable").details(json!({ "total_cents": order.total_cents })));
    }
    let (key, attempt) = (ctx.idempotency_key().to_owned(), ctx.attempt());
    let refund_id = format!("r-{}", &hex::encode(Sha256::digest(&key))[..16]);
    // Files block the thread: off the runtime with them.
    let effect = tokio::task::spawn_blocking(move || ledger.record(&key, attempt)).await;
    let effect = effect.map_err(|_| ToolError::new("the ledger failed"))?.map_err(|error| {
        // The operator reads the cause; the script learns only that it may try again.
        tracing::error!(%error, "the ledger cannot be written");
        ToolError::new("the ledger cannot be written").retryable(true)
    })?;
    if effect {
        // The money is on its way; the bank's confirmation takes a while.
        tokio::time::sleep(args.delay_ms.map_or(takes, Duration::from_millis)).await;
    }
    Ok(Refunded { refund_id, order_id: args.order_id, amount_cents: args.amount_cents })
}

/// What was refunded, by idempotency key. One line is both the effect and the memory of it, so no crash
/// can come between them.
struct Ledger(Mutex<Open>);

struct Open {
    file: File,
    /// How much of the file is in `refunded`. Another worker may have written more.
    read: u64,
    refunded: HashSet<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    tool: String,
    key: String,
    attempt: u32,
    effect: bool,
    at: String,
}

impl Ledger {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::options().create(true).read(true).append(true).open(path)?;
        Ok(Self(Mutex::new(Open { file, read: 0, refunded: HashSet::new() })))
    }

    /// Refunds, unless it was done under this key before. True if it did.
    fn record(&self, key: &str, attempt: u32) -> std::io::Result<bool> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.file.lock()?;
        let recorded = open.record(key, attempt);
        open.file.unlock()?;
        recorded
    }
}

impl Open {
    fn record(&mut self, key: &str, attempt: u32) -> std::io::Result<bool> {
        self.catch_up()?;
        let effect = !self.refunded.contains(key);
        let at = OffsetDateTime::now_utc().format(&Rfc3339).map_err(std::io::Error::other)?;
        let line = Line { tool: "refund".into(), key: key.into(), attempt, effect, at };
        self.file.write_all(format!("{}\n", serde_json::to_string(&line)?).as_bytes())?;
        self.file.sync_data()?;
        self.catch_up()?;
        Ok(effect)
    }

    fn catch_up(&mut self) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(self.read))?;
        let mut lines = BufReader::new(&self.file);
        let mut text = String::new();
        loop {
            text.clear();
            let bytes = lines.read_line(&mut text)?;
            if !text.ends_with('\n') {
                // The end; or half a line of a worker that lost its power, which nobody was told of.
                return if bytes == 0 { Ok(()) } else { self.file.set_len(self.read) };
            }
            self.read += bytes as u64;
            let line: Line = serde_json::from_str(&text)?;
            if line.effect {
                self.refunded.insert(line.key);
            }
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal()).init();
    let args = Args::parse();
    let ledger = Arc::new(Ledger::open(&args.effects)?);
    let stopped = Worker::builder(args.nats)
        .name("refunds")
        .concurrency(args.concurrency)
        .tool("lookup_order", lookup_order)
        .tool("refund", move |ctx, call| refund(Arc::clone(&ledger), args.refund_takes, ctx, call))
        .on_ready(|| report("ready: lookup_order, refund"))
        .run()
        .await?;
    report(&format!("answered {} calls, gave {} back", stopped.answered, stopped.given_back));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the lines that whoever starts the worker waits for")]
fn report(line: &str) {
    println!("{line}");
}
