use std::io::{self, Write as _};

use rewind_model::{Adoption, Diverged, Journal, JournalCall, LogLine, RunId};

use super::path_of;
use crate::{
    client::Client,
    error::Error,
    exit::Exit,
    output::{Align, Cell, Paint, Table, one_line, write_json},
};

pub(super) async fn journal(client: &Client, json: bool, id: &RunId) -> Result<Exit, Error> {
    let journal = read(client, id).await?;
    if json {
        write_json(&serde_json::to_string(&journal).map_err(io::Error::from)?)?;
        return Ok(Exit::Done);
    }
    let paint = Paint::for_stdout();
    let mut out = io::stdout().lock();
    table_of(&journal.items, paint).write(&mut out, paint)?;
    if let Some(Diverged { seq, then, now }) = &journal.diverged {
        let call = |call: &Option<String>| call.as_deref().map_or_else(|| "absent".into(), one_line);
        writeln!(
            out,
            "\nparts from the run that it was forked from at call {seq}: {}, there {}",
            call(now),
            call(then)
        )?;
    }
    if !journal.adoptions.is_empty() {
        writeln!(out)?;
    }
    for Adoption { node, epoch, at } in &journal.adoptions {
        writeln!(out, "{at} {} took the run over (epoch {epoch})", one_line(node))?;
    }
    if !journal.logs.is_empty() {
        writeln!(out)?;
    }
    for line in &journal.logs {
        writeln!(out, "{}", log_text(line))?;
    }
    Ok(Exit::Done)
}

/// The whole journal: pages of calls joined, console lines and take-overs once.
///
/// # Errors
/// When the server cannot be reached or refuses.
pub(super) async fn read(client: &Client, id: &RunId) -> Result<Journal, Error> {
    let path = format!("{}/journal", path_of(id));
    let mut whole: Journal = client.get(&path, &[]).await?.to()?;
    while let Some(cursor) = whole.next_cursor.take() {
        let page: Journal = client.get(&path, &[("cursor", &cursor)]).await?.to()?;
        if page.items.is_empty() || page.next_cursor.as_ref() == Some(&cursor) {
            break;
        }
        whole.items.extend(page.items);
        whole.next_cursor = page.next_cursor;
    }
    Ok(whole)
}

pub(super) fn log_text(line: &LogLine) -> String {
    format!("{} {:<5} {}", line.at, one_line(&line.level), crate::output::printable(&line.text))
}

fn table_of(calls: &[JournalCall], paint: Paint) -> Table {
    let mut table = Table::new(&[
        ("SEQ", Align::Right),
        ("TOOL", Align::Left),
        ("ATTEMPTS", Align::Right),
        ("KEY", Align::Left),
        ("STATUS", Align::Left),
        ("MS", Align::Right),
        ("ERROR", Align::Left),
    ]);
    for call in calls {
        table.row([
            call.seq.to_string().into(),
            (&call.tool).into(),
            if call.recorded { "-".into() } else { call.attempts.to_string().into() },
            call.key.to_string().into(),
            status_cell(&call.status, paint),
            call.ms.map_or_else(String::new, |ms| ms.to_string()).into(),
            call.error.as_deref().unwrap_or("").into(),
        ]);
    }
    table
}

fn status_cell(status: &str, paint: Paint) -> Cell {
    let status = one_line(status);
    let painted = match status.as_str() {
        "ok" => paint.good(&status),
        "pending" => paint.dim(&status),
        _ => paint.bad(&status),
    };
    Cell::painted(&status, painted)
}
