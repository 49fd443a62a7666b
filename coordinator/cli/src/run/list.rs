use std::{
    collections::BTreeMap,
    io::{self, Write as _},
};

use rewind_model::{Page, Run};
use serde_json::value::RawValue;

use crate::{
    args::ListArgs,
    client::Client,
    error::Error,
    exit::Exit,
    output::{Align, Cell, Paint, Table, one_line, write_json},
};

pub(super) async fn list(client: &Client, json: bool, args: &ListArgs) -> Result<Exit, Error> {
    let (page, more) = pages(client, args).await?;
    if json {
        let text = serde_json::to_string(&page).map_err(io::Error::from)?;
        write_json(&text)?;
    } else {
        let runs = page.items.iter().map(|item| serde_json::from_str(item.get()));
        let runs: Vec<Run> = runs.collect::<Result<_, _>>().map_err(|error| Error::NotRewind {
            api: "the server".into(),
            reason: format!("an item of its list is no run: {error}"),
        })?;
        let paint = Paint::for_stdout();
        table_of(&runs, paint).write(&mut io::stdout().lock(), paint)?;
    }
    if more {
        writeln!(io::stderr(), "there are more runs: raise --limit ({}) or filter", args.limit)?;
    }
    Ok(Exit::Done)
}

/// Up to `--limit` runs as one page, and whether there are more. Items are kept as the API wrote them.
async fn pages(client: &Client, args: &ListArgs) -> Result<(Page<Box<RawValue>>, bool), Error> {
    let limit = args.limit as usize;
    let filters = query_of(args);
    let mut all: Page<Box<RawValue>> = Page { items: Vec::new(), next_cursor: None };
    loop {
        let mut query: Vec<(&str, &str)> = filters.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let cursor = all.next_cursor.take();
        query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page: Page<Box<RawValue>> = client.get("v1/runs", &query).await?.to()?;
        // A page without items, or the same cursor again, would make this go on for ever.
        let at_end = page.next_cursor.is_none() || page.next_cursor == cursor || page.items.is_empty();
        all.items.extend(page.items);
        if all.items.len() > limit {
            all.items.truncate(limit);
            return Ok((all, true));
        }
        if at_end {
            return Ok((all, false));
        }
        all.next_cursor = page.next_cursor;
        if all.items.len() == limit {
            return Ok((all, true));
        }
    }
}

fn query_of(args: &ListArgs) -> Vec<(&'static str, String)> {
    let mut query = Vec::new();
    query.extend(args.status.map(|status| ("status", status.to_string())));
    query.extend(args.namespace.clone().map(|namespace| ("namespace", namespace)));
    query.extend(args.toolset.as_ref().map(|toolset| ("toolset", toolset.to_string())));
    query.extend(args.parent.as_ref().map(|parent| ("parent", parent.to_string())));
    query.extend(args.labels.iter().map(|(key, value)| ("label", format!("{key}={value}"))));
    query
}

fn table_of(runs: &[Run], paint: Paint) -> Table {
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("STATUS", Align::Left),
        ("CALLS", Align::Right),
        ("CREATED", Align::Left),
        ("ENDED", Align::Left),
        ("NAMESPACE", Align::Left),
        ("LABELS", Align::Left),
    ]);
    for run in runs {
        table.row([
            run.id.as_str().into(),
            Cell::painted(run.status.as_str(), paint.status(run.status)),
            run.calls.made.to_string().into(),
            run.created_at.to_millis().into(),
            run.ended_at.map_or_else(String::new, |at| at.to_millis()).into(),
            run.namespace.as_deref().unwrap_or("").into(),
            labels_text(&run.labels).into(),
        ]);
    }
    table
}

fn labels_text(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<_> = labels.iter().map(|(key, value)| one_line(&format!("{key}={value}"))).collect();
    labels.join(",")
}
