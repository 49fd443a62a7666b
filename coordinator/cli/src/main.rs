//! `rewind`: the command line of Rewind. A client of the coordinator's HTTP API, and `rewind dev`,
//! which runs the whole of Rewind on one machine.

mod api_key;
mod args;
mod client;
mod declarations;
mod dev;
mod diagnostic;
mod error;
mod exit;
mod files;
mod input;
mod output;
mod parked;
mod run;
mod server;
mod toolset;
mod webhook;

use std::io::Write as _;

use clap::Parser as _;

use crate::{
    args::{Args, Command},
    error::Error,
};

/// One thread: the kernel ends the children of `rewind dev` when the *thread* that started them
/// ends (`PR_SET_PDEATHSIG`), so they must all be started by the one that lives as long as the process.
#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let args = Args::parse();
    let done = match args.command {
        Command::Dev(args) => dev::run(args).await,
        Command::Toolset(args) => toolset::run(args).await,
        Command::Run(args) => run::run(args).await,
        Command::Parked(args) => parked::run(args).await,
        Command::Webhook(args) => webhook::run(args).await,
        Command::Declarations(args) => declarations::run(&args),
    };
    let exit = done.unwrap_or_else(|error| {
        report(&error);
        error.exit()
    });
    exit.into()
}

/// Nobody is left to be told when stderr is closed, so a failure to write is let go.
fn report(error: &Error) {
    if !error.is_closed_pipe() {
        let _ = writeln!(std::io::stderr(), "{}", error.report());
    }
}
