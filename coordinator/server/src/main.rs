//! `rewind-coordinator`: the API, the registry of toolsets, the type-checker, the sharing out of shards.
//!
//! Any number of coordinators may run: each answers every request, and the one that leads assigns
//! shards to nodes. None holds a truth of its own; all of it is in NATS.
//!
//! ```text
//! app ─ auth ─ toolsets ─ registry ─ pin      (rewind-mcp lists, rewind-schema checks)
//!            ├ runs ─ start ─ typecheck       (tsc)
//!            └ projection, journal_view       (what is read)
//! lead ─ nodes ─ shards                       (who owns what)
//!      └ webhooks                             (who is told what happened)
//! ```

mod app;
mod auth;
mod body;
mod cache;
mod config;
mod decisions;
mod drift;
mod fork;
mod health;
mod idempotency;
mod journal_view;
mod lead;
mod listen;
mod nodes;
mod openapi;
mod path;
mod pin;
mod policies;
mod problem_pages;
mod projection;
mod query;
mod refusal;
mod registry;
mod retention;
mod run_view;
mod runs;
mod search;
mod select;
mod shards;
mod start;
mod store;
mod toolsets;
mod typecheck;
mod webhooks;
mod workflows;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match serve(config::Config::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Without a backtrace: `rewind dev` shows the last lines, and this has to be among them.
            eprintln!("rewind-coordinator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(config: config::Config) -> anyhow::Result<()> {
    let _telemetry = config.telemetry.start("rewind-coordinator")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(app::serve(config));
    // What a blocking thread still does (rendering declarations) is nobody's any more.
    runtime.shutdown_background();
    served
}
