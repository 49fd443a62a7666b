//! `rewind run`.

mod decision;
mod follow;
mod journal;
mod list;
mod show;
mod start;
mod watch;

use std::io::{self, Write as _};

use rewind_model::{Run, RunId};

use crate::{
    args::{RunArgs, RunCommand},
    client::Client,
    error::Error,
    exit::Exit,
    output::write_json,
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
        RunCommand::Cancel { id } => cancel(&client, json, &id).await,
        RunCommand::Fork(fork) => start::fork(&client, json, fork).await,
        RunCommand::Cassette { id } => cassette(&client, &id).await,
    }
}

async fn cancel(client: &Client, json: bool, id: &RunId) -> Result<Exit, Error> {
    let answer = client.post_text(&format!("{}/cancel", path_of(id)), String::new()).await?;
    if json {
        write_json(&answer.body)?;
        return Ok(Exit::Done);
    }
    let run: Run = answer.to()?;
    if run.status.ended() {
        writeln!(io::stdout(), "{}", run.status)?;
    } else {
        writeln!(io::stderr(), "it is cancelled as soon as a node has it; now it is {}", run.status)?;
    }
    Ok(Exit::Done)
}

/// As it comes: laid out over lines.
async fn cassette(client: &Client, id: &RunId) -> Result<Exit, Error> {
    let answer = client.get(&format!("{}/cassette", path_of(id)), &[]).await?;
    write!(io::stdout(), "{}", answer.body)?;
    Ok(Exit::Done)
}

fn path_of(id: &RunId) -> String {
    format!("v1/runs/{id}")
}
