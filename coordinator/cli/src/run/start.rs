use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use rewind_model::{ForkRun, Json, Run, RunId, RunStatus, StartRun};

use super::{decision::Decisions, follow::Follow, path_of, show};
use crate::{
    args::{ForkArgs, StartArgs},
    client::{Answer, Client},
    diagnostic::{diagnostic_text, name_in_error, name_in_run},
    error::Error,
    exit::Exit,
    input,
    output::{Progress, write_json},
};

/// How old progress may be that someone looks at.
const REFRESH: Duration = Duration::from_secs(1);
const UNWATCHED: Duration = Duration::from_secs(5);

pub(super) async fn start(client: &Client, json: bool, args: StartArgs) -> Result<Exit, Error> {
    let (wait, script) = (args.wait, args.script.clone());
    let answer = client.post("v1/runs", &body_of(args)?).await;
    started(client, json, wait, script.as_deref(), answer).await
}

pub(super) async fn fork(client: &Client, json: bool, args: ForkArgs) -> Result<Exit, Error> {
    let (wait, path, script) = (args.wait, format!("{}/fork", path_of(&args.id)), args.script.clone());
    let body = ForkRun {
        script: args.script.as_deref().map(input::text_of).transpose()?,
        toolset: args.toolset,
        input: args.input.as_deref().map(input::json_of).transpose()?,
        labels: if args.labels.is_empty() { None } else { Some(labels_of(args.labels)?) },
        deadline: args.deadline,
        webhook: args.webhook,
        idempotency_key: args.idempotency_key,
    };
    let answer = client.post(&path, &body).await;
    started(client, json, wait, script.as_deref(), answer).await
}

async fn started(
    client: &Client,
    json: bool,
    wait: bool,
    script: Option<&Path>,
    answer: Result<Answer, Error>,
) -> Result<Exit, Error> {
    let answer = answer.map_err(|error| name_in_error(script, error))?;
    let run = name_in_run(script, answer.to()?);
    warn(&run)?;
    if !wait {
        if json {
            write_json(&answer.body)?
        } else {
            writeln!(io::stdout(), "{}", run.id)?
        }
        return Ok(Exit::Done);
    }
    // A run that an idempotency key found may have ended long ago.
    let (run, answer) = if run.status.ended() { (run, answer) } else { wait_for(client, &run.id).await? };
    if json {
        write_json(&answer.body)?;
    } else if run.status == RunStatus::Completed {
        writeln!(io::stdout(), "{}", run.result.as_ref().map_or("null", Json::as_str))?;
    } else {
        writeln!(io::stderr(), "{}", show::failure(&run))?;
    }
    Ok(exit_of(run.status))
}

/// For the commands that follow a run to its end.
pub(super) fn exit_of(status: RunStatus) -> Exit {
    match status {
        RunStatus::Failed | RunStatus::Cancelled => Exit::Failed,
        RunStatus::Queued | RunStatus::Running | RunStatus::Waiting | RunStatus::Completed => Exit::Done,
    }
}

fn body_of(args: StartArgs) -> Result<StartRun, Error> {
    let stdin = Path::new("-");
    if args.script.as_deref() == Some(stdin) && args.input.as_deref() == Some("@-") {
        return Err(Error::Usage("the script and the input cannot both be stdin".into()));
    }
    let cassette = args.cassette.as_deref().map(cassette_of).transpose()?;
    let input = match (args.input.as_deref(), &cassette) {
        (Some(input), _) => input::json_of(input)?,
        (None, Some((_, input))) => input.clone(),
        (None, None) => Json::null(),
    };
    Ok(StartRun {
        toolset: args.toolset,
        script: args.script.as_deref().map(input::text_of).transpose()?,
        workflow: args.workflow.clone(),
        deadline: args.deadline.clone(),
        input,
        namespace: args.namespace,
        labels: labels_of(args.labels)?,
        idempotency_key: args.idempotency_key,
        webhook: args.webhook,
        cassette: cassette.map(|(cassette, _)| cassette),
        plan: args.plan,
    })
}

fn labels_of(given: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Error> {
    let mut labels = BTreeMap::new();
    for (key, value) in given {
        if labels.insert(key.clone(), value).is_some() {
            return Err(Error::Usage(format!("--label {key} is given twice")));
        }
    }
    Ok(labels)
}

/// The document, and the input of the run that it was made from.
fn cassette_of(file: &Path) -> Result<(Json, Json), Error> {
    #[derive(serde::Deserialize)]
    struct Recorded {
        #[serde(default = "Json::null")]
        input: Json,
    }
    let cassette = input::json_of_file(file)?;
    let wrong = |error: serde_json::Error| Error::Usage(format!("{} is no cassette: {error}", file.display()));
    let Recorded { input } = cassette.to().map_err(wrong)?;
    Ok((cassette, input))
}

fn warn(run: &Run) -> io::Result<()> {
    for warning in &run.warnings {
        writeln!(io::stderr(), "warning: {}", diagnostic_text(warning))?;
    }
    Ok(())
}

async fn wait_for(client: &Client, id: &RunId) -> Result<(Run, Answer), Error> {
    let mut progress = Progress::on_terminal();
    let mut follow = Follow::new(client, id);
    let mut decisions = Decisions::new(client, id);
    progress.show(&format!("{id} queued"));
    loop {
        let (run, answer) = follow.poll(if progress.is_on() { REFRESH } else { UNWATCHED }).await?;
        if run.status.ended() {
            return Ok((run, answer));
        }
        for waiting in decisions.new_ones(&run).await? {
            progress.say(&waiting)?;
        }
        progress.show(&format!("{id} {}", show::state(&run)));
    }
}
