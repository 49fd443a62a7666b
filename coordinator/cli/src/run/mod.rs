//! `rewind run`.

mod follow;
mod journal;
mod list;
mod show;
mod start;
mod watch;

use rewind_model::{Diagnostic, RunId};

use crate::{
    args::{RunArgs, RunCommand},
    client::Client,
    error::Error,
    exit::Exit,
    output::{one_line, printable},
    server::Server,
};

pub(crate) async fn run(args: RunArgs) -> Result<Exit, Error> {
    let client = Client::new(&Server::find(&args.client)?)?;
    let json = args.client.json;
    match args.command {
        RunCommand::Start(start) => start::start(&client, json, start).await,
        RunCommand::Get { id, wait } => show::get(&client, json, &id, wait).await,
        RunCommand::List(list) => list::list(&client, json, &list).await,
        RunCommand::Watch { id } => watch::watch(&client, json, &id).await,
        RunCommand::Journal { id } => journal::journal(&client, json, &id).await,
    }
}

fn path_of(id: &RunId) -> String {
    format!("v1/runs/{id}")
}

/// `script.ts:line:col CODE message`, and the hint on a line of its own.
pub(crate) fn diagnostic_text(diagnostic: &Diagnostic) -> String {
    let Diagnostic { file, line, column, code, message, hint } = diagnostic;
    let place = format!("{}:{line}:{column} {}", one_line(file), one_line(code));
    let mut text = format!("{place} {}", printable(message).replace('\n', "\n    "));
    if let Some(hint) = hint {
        text.push_str("\n    hint: ");
        text.push_str(&one_line(hint));
    }
    text
}
