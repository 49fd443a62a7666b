//! The node: owns shards of runs, and drives each run's script from its journal.
//!
//! `node` (lease, shards) → `shard` (commands, take-over, sweep) → `run` (one actor a run).

mod config;
mod context;
mod failing;
mod library;
mod node;
mod observer;
mod run;
mod shard;
mod stack;

use std::process::ExitCode;

use clap::Parser;

/// The argument with which the node starts itself again as a sandbox.
const SANDBOX: &str = "sandbox-process";

fn main() -> ExitCode {
    // Before anything else: a sandbox has no use for arguments, logging or a runtime.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == SANDBOX) {
        return rewind_sandbox::sandbox_main();
    }
    let config = config::Config::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("rewind-node: no threads to run on: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(node::serve(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rewind-node: {error:#}");
            ExitCode::FAILURE
        }
    }
}
