use std::{
    io::{self, Write as _},
    time::Duration,
};

use rewind_model::{CallCounts, Json, Run, RunId, RunStatus};

use super::{follow::Follow, journal, show, start::exit_of};
use crate::{
    client::Client,
    error::Error,
    exit::Exit,
    output::{Paint, one_line, write_json},
};

/// How old what is printed may be.
const REFRESH: Duration = Duration::from_secs(1);

/// What was printed last, so that only changes are.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: RunStatus,
    calls: CallCounts,
    parked: u32,
}

impl Seen {
    fn of(run: &Run) -> Self {
        Self { status: run.status, calls: run.calls, parked: run.parked }
    }
}

pub(super) async fn watch(client: &Client, json: bool, id: &RunId) -> Result<Exit, Error> {
    let mut follow = Follow::new(client, id);
    let mut seen = None;
    let mut lines_seen = 0;
    // The first answer is the state as it is, at once.
    let mut wait = Duration::ZERO;
    loop {
        let (run, answer) = follow.poll(wait).await?;
        wait = REFRESH;
        let now = Seen::of(&run);
        if seen.as_ref() != Some(&now) {
            if json {
                write_json(&answer.body)?;
            } else {
                // A console line is written in a turn, and a turn changes the calls or the status.
                lines_seen = print_lines(client, &run, lines_seen).await?;
                writeln!(io::stdout(), "{}", show::state(&run))?;
            }
            seen = Some(now);
        }
        if run.status.ended() {
            if !json {
                print_end(&run)?;
            }
            return Ok(exit_of(run.status));
        }
    }
}

/// Prints the console lines after the first `seen`; the number of lines that there are now.
async fn print_lines(client: &Client, run: &Run, seen: usize) -> Result<usize, Error> {
    let logs = match journal::read(client, &run.id).await {
        Ok(journal) => journal.logs,
        // The next change prints them; the poll decides whether the server stays away.
        Err(error) if error.is_passing() && !run.status.ended() => return Ok(seen),
        Err(error) => return Err(error),
    };
    let mut out = io::stdout().lock();
    for line in logs.iter().skip(seen) {
        writeln!(out, "{}", journal::log_text(line))?;
    }
    Ok(logs.len().max(seen))
}

fn print_end(run: &Run) -> io::Result<()> {
    let paint = Paint::for_stdout();
    let mut out = io::stdout().lock();
    match run.status {
        RunStatus::Completed => {
            let result = run.result.as_ref().map_or("null", Json::as_str);
            writeln!(out, "{} {}", paint.status(run.status), one_line(result))
        }
        _ => writeln!(out, "{}", paint.bad(&show::failure(run))),
    }
}
