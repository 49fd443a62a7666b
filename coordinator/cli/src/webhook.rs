//! `rewind webhook`: what endpoints did not take.

use std::io::{self, Write as _};

use rewind_model::{DeadDelivery, Page, Resent};

use crate::{
    args::{ClientArgs, WebhookArgs, WebhookCommand},
    client::Client,
    error::Error,
    exit::Exit,
    output::{Align, Paint, Table, write_json},
    server::Server,
};

pub(crate) async fn run(args: WebhookArgs) -> Result<Exit, Error> {
    let client = Client::new(&Server::find(&args.client)?)?;
    match args.command {
        WebhookCommand::Dead => dead(&client, &args.client).await,
        WebhookCommand::Resend { id } => resend(&client, &args.client, &id).await,
    }
}

async fn dead(client: &Client, args: &ClientArgs) -> Result<Exit, Error> {
    let all: Page<DeadDelivery> = client.list("v1/webhooks/dead", &[]).await?;
    if args.json {
        write_json(&serde_json::to_string(&all).map_err(io::Error::from)?)?;
        return Ok(Exit::Done);
    }
    let columns = ["ID", "TYPE", "RUN", "ENDPOINT", "SINCE", "WHY"].map(|name| (name, Align::Left));
    let mut table = Table::new(&columns);
    for DeadDelivery { id, kind, run, endpoint, since, why, .. } in all.items {
        table.row([id, kind.to_string(), run.to_string(), endpoint, since.to_millis(), why].map(Into::into));
    }
    table.write(&mut io::stdout().lock(), Paint::for_stdout())?;
    Ok(Exit::Done)
}

async fn resend(client: &Client, args: &ClientArgs, id: &str) -> Result<Exit, Error> {
    let path = format!("v1/webhooks/dead/{}/resend", id.replace('/', ""));
    let answer = client.post_text(&path, String::new()).await?;
    if args.json {
        write_json(&answer.body)?;
        return Ok(Exit::Done);
    }
    let resent: Resent = answer.to()?;
    writeln!(io::stdout(), "{}: on its way", resent.event)?;
    Ok(Exit::Done)
}
