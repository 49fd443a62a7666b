use std::{io, time::Duration};

use rewind_model::{Json, Run, RunId};

use super::{follow::Follow, path_of};
use crate::{
    client::Client,
    diagnostic::diagnostic_text,
    error::Error,
    exit::Exit,
    output::{Paint, one_line, printable, write_json},
};

pub(super) async fn get(client: &Client, json: bool, id: &RunId, wait: Option<Duration>) -> Result<Exit, Error> {
    let (run, answer) = match wait {
        Some(wait) => Follow::new(client, id).until_ended(wait).await?,
        None => {
            let answer = client.get(&path_of(id), &[]).await?;
            (answer.to()?, answer)
        }
    };
    if json {
        write_json(&answer.body)?;
    } else {
        write_run(&run, Paint::for_stdout(), &mut io::stdout().lock())?;
    }
    Ok(Exit::Done)
}

/// Where a run is that has not ended: status, calls, what it waits for.
pub(super) fn state(run: &Run) -> String {
    let made = run.calls.made;
    let mut text = format!("{}: {made} {} made", run.status, if made == 1 { "call" } else { "calls" });
    if run.calls.outstanding > 0 {
        text.push_str(&format!(", {} outstanding", run.calls.outstanding));
    }
    if run.parked > 0 {
        text.push_str(&format!(", {} parked (waiting for a decision)", run.parked));
    }
    text
}

/// Why a run did not complete, with the place in the script as far as it is known.
pub(super) fn failure(run: &Run) -> String {
    let Some(error) = &run.error else {
        return format!("{} {}", run.id, run.status);
    };
    // The code says already what kind of error it is.
    let message = error.message.strip_prefix("ToolError: ").unwrap_or(&error.message);
    let mut text = format!("{} {}: {}: {}", run.id, run.status, one_line(&error.code), printable(message));
    if let Some(tool) = &error.tool {
        text.push_str(&format!("\n  tool {}", one_line(&tool.to_string())));
    }
    if let Some(key) = &error.key {
        text.push_str(&format!("\n  key {key}"));
    }
    if let Some(stack) = &error.stack {
        for line in printable(stack).lines() {
            text.push_str(&format!("\n    {}", line.trim()));
        }
    }
    text
}

fn write_run(run: &Run, paint: Paint, out: &mut dyn io::Write) -> io::Result<()> {
    let mut line = |name: &str, value: &str| writeln!(out, "{} {value}", paint.heading(&format!("{name:<10}")));
    line("id", run.id.as_str())?;
    line("status", &paint.status(run.status))?;
    line("toolset", run.toolset.as_str())?;
    line("script", &format!("sha256:{}", run.script))?;
    if let Some(from) = &run.forked_from {
        line("forked from", from.as_str())?;
    }
    if let Some(parent) = &run.parent {
        line("parent", &parent.to_string())?;
    }
    if let Some(namespace) = &run.namespace {
        line("namespace", &one_line(namespace))?;
    }
    for (key, value) in &run.labels {
        line("label", &one_line(&format!("{key}={value}")))?;
    }
    line("calls", &format!("{} made, {} outstanding, {} parked", run.calls.made, run.calls.outstanding, run.parked))?;
    line("created", &run.created_at.to_millis())?;
    if let Some(started) = run.started_at {
        line("started", &started.to_millis())?;
    }
    if let Some(ended) = run.ended_at {
        line("ended", &ended.to_millis())?;
    }
    for warning in &run.warnings {
        line("warning", &diagnostic_text(warning))?;
    }
    if let Some(input) = &run.input {
        line("input", &json_text(input))?;
    }
    if let Some(result) = &run.result {
        line("result", &json_text(result))?;
    }
    if run.error.is_some() {
        line("error", &failure(run))?;
    }
    Ok(())
}

/// JSON need not escape U+009B, which begins a control sequence on some terminals.
fn json_text(json: &Json) -> String {
    one_line(json.as_str())
}
