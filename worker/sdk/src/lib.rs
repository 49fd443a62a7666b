//! Host tools for Rewind: the functions of your own service that scripts call as `host.<name>(…)`.
//!
//! ```no_run
//! use rewind_sdk::{Ctx, ToolError, Worker};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize)]
//! struct RefundArgs { order_id: String, amount_cents: u64 }
//! #[derive(Serialize)]
//! struct Refunded { refund_id: String }
//!
//! async fn refund(ctx: Ctx, args: RefundArgs) -> Result<Refunded, ToolError> {
//!     // The same key on every attempt: whoever moves the money refuses to move it twice.
//!     let refund_id = format!("{} of {} ({})", args.amount_cents, args.order_id, ctx.idempotency_key());
//!     Ok(Refunded { refund_id })
//! }
//!
//! # async fn main_() -> Result<(), rewind_sdk::WorkerError> {
//! let done = Worker::builder("nats://127.0.0.1:4222").concurrency(32).tool("refund", refund).run().await?;
//! println!("answered {} calls", done.answered);
//! # Ok(())
//! # }
//! ```
//!
//! # What a handler may rely on, and what it must do
//!
//! A call is delivered **at least once**: a worker that died, lost its connection, or overran its time
//! may have done the work already. Every attempt carries the same [`Ctx::idempotency_key`]; a handler
//! with an effect remembers the key in the same transaction as the effect, and answers a repeated call
//! without doing it again. `examples/refunds.rs` shows how.
//!
//! A call that a person answers, or a machine after days, takes no worker meanwhile: the handler keeps
//! [`Ctx::complete_later`]'s token and returns, and any process answers by [`Answers`].
//!
//! The worker never loses a call: whatever a handler does (an error, a panic, arguments that are not
//! its type, too much time), the script gets an answer; whatever happens to the worker, the queue gives
//! the call to another one. Arguments and results of any size within Rewind's limits come and go by the
//! blob store without the handler's doing. The protocol is written down in `worker/README.md`.

mod call;
mod ctx;
mod error;
mod later;
mod live;
mod puller;
mod retry;
mod tool;
mod worker;

pub use ctx::Ctx;
pub use error::{ToolError, WorkerError};
pub use later::{Answers, Token, TokenError};
pub use rewind_model::{RunId, parse_duration};
pub use worker::{Stopped, Worker, WorkerBuilder};
