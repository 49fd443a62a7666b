use std::io::{self, Write as _};

use rewind_model::{Adoption, CallEvent, Diverged, Journal, JournalCall, LogLine, RunId, Timestamp};

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
    table_of(&journal, paint).write(&mut out, paint)?;
    let decisions: Vec<_> = journal.items.iter().flat_map(decisions_about).collect();
    if !decisions.is_empty() {
        writeln!(out, "\n{}", decisions.join("\n"))?;
    }
    if let Some(Diverged { seq, then, now }) = &journal.diverged {
        let call = |call: &Option<String>| call.as_deref().map_or_else(|| "absent".into(), one_line);
        writeln!(
            out,
            "\nparts from {} at call {seq}: {}, there {}",
            journal.forked_from.as_ref().map_or("the run that it was forked from", RunId::as_str),
            call(now),
            call(then)
        )?;
    }
    if !journal.adoptions.is_empty() {
        writeln!(out)?;
    }
    for (position, Adoption { node, epoch, at }) in journal.adoptions.iter().enumerate() {
        let (at, node) = (at.to_millis(), one_line(node));
        match position {
            0 => writeln!(out, "{at} started on {node} (epoch {epoch})")?,
            _ => writeln!(out, "{at} {node} took the run over (epoch {epoch})")?,
        }
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
    format!("{} {:<5} {}", line.at.to_millis(), one_line(&line.level), crate::output::printable(&line.text))
}

/// When a call was parked and why, and who decided what about it.
fn decisions_about(call: &JournalCall) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |at: Timestamp, what: &str| {
        lines.push(format!("{} call {} ({}) {what}", at.to_millis(), call.seq, one_line(&call.tool)));
    };
    let mut decided = call.events.iter().filter(|event| matches!(&*event.event, "parked" | "approved" | "rejected"));
    let first = decided.clone().next();
    // One that its policy parks has been so from its beginning on, which is no event.
    if first.map_or(call.status == "parked", |event| event.event != "parked") {
        line(call.called_at, "parked: its policy asks for an approval");
    }
    decided.by_ref().for_each(|CallEvent { at, event, detail }| {
        let detail = detail.as_deref().map(one_line);
        let detail =
            detail.map(|detail| if event == "parked" { format!(": {detail}") } else { format!(" by {detail}") });
        line(*at, &format!("{event}{}", detail.unwrap_or_default()));
    });
    lines
}

fn table_of(journal: &Journal, paint: Paint) -> Table {
    // A call that was not sent has the outcome of one in the run that was forked, or of one on a cassette.
    let recorded = if journal.forked_from.is_some() { "taken over" } else { "recorded" };
    let mut table = Table::new(&[
        ("SEQ", Align::Right),
        ("TOOL", Align::Left),
        ("ATTEMPTS", Align::Right),
        ("KEY", Align::Left),
        ("STATUS", Align::Left),
        ("MS", Align::Right),
        ("ERROR", Align::Left),
    ]);
    for call in &journal.items {
        table.row([
            call.seq.to_string().into(),
            (&call.tool).into(),
            if call.recorded { recorded.into() } else { call.attempts.to_string().into() },
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
        "pending" | "abandoned" => paint.dim(&status),
        _ => paint.bad(&status),
    };
    Cell::painted(&status, painted)
}
