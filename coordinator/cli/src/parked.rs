//! `rewind parked`: calls that wait for somebody's decision.

use std::io::{self, Write as _};

use rewind_model::{Approve, MadeDecision, Page, ParkedCall, Reject};
use serde::Serialize;

use crate::{
    args::{CallKey, ClientArgs, ParkedArgs, ParkedCommand},
    client::Client,
    error::Error,
    exit::Exit,
    output::{Align, Paint, Table, one_line, write_json},
    server::Server,
};

pub(crate) async fn run(args: ParkedArgs) -> Result<Exit, Error> {
    let client = Client::new(&Server::find(&args.client)?)?;
    match args.command {
        ParkedCommand::List { namespace } => list(&client, &args.client, namespace.as_deref()).await,
        ParkedCommand::Approve { call, by } => decide(&client, &args.client, &call, "approve", &Approve { by }).await,
        ParkedCommand::Reject { call, by, message } => {
            decide(&client, &args.client, &call, "reject", &Reject { by, message }).await
        }
    }
}

async fn list(client: &Client, args: &ClientArgs, namespace: Option<&str>) -> Result<Exit, Error> {
    let query: Vec<_> = namespace.iter().map(|namespace| ("namespace", *namespace)).collect();
    let all: Page<ParkedCall> = client.list("v1/parked", &query).await?;
    if args.json {
        write_json(&serde_json::to_string(&all).map_err(io::Error::from)?)?;
        return Ok(Exit::Done);
    }
    let paint = Paint::for_stdout();
    let columns = ["CALL", "TOOL", "REASON", "SINCE", "ARGUMENTS"].map(|name| (name, Align::Left));
    let mut table = Table::new(&columns);
    for call in &all.items {
        let arguments: String = call.arguments.text.chars().take(100).collect();
        let cells =
            [call.key.to_string(), call.tool.to_string(), call.reason.clone(), call.since.to_millis(), arguments];
        table.row(cells.map(Into::into));
        if let Some(namespace) = &call.namespace {
            table.below(&format!("namespace: {namespace}"));
        }
        table.below(call.detail.as_deref().unwrap_or_default());
    }
    table.write(&mut io::stdout().lock(), paint)?;
    Ok(Exit::Done)
}

async fn decide<T: Serialize>(
    client: &Client,
    args: &ClientArgs,
    CallKey(key): &CallKey,
    verb: &str,
    body: &T,
) -> Result<Exit, Error> {
    let answer = client.post(&format!("v1/runs/{}/calls/{}/{verb}", key.run, key.seq), body).await?;
    if answer.body.is_empty() {
        writeln!(
            io::stderr(),
            "taken down: it counts as soon as a node has the run, unless another decision is first"
        )?;
        return Ok(Exit::Done);
    }
    if args.json {
        write_json(&answer.body)?;
        return Ok(Exit::Done);
    }
    let made: MadeDecision = answer.to()?;
    let by = made.by.map_or_else(String::new, |by| format!(" by {}", one_line(&by)));
    let what = if made.approved { "approved" } else { "rejected" };
    writeln!(io::stdout(), "{}: {what}{by} at {}", made.key, made.at.to_millis())?;
    Ok(Exit::Done)
}
