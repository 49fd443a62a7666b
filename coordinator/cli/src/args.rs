//! The command line. Each command's own behaviour is in the module of its noun.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{
    Parser, Subcommand, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use rewind_model::{Json, Key, Rendering, RunId, RunStatus, ToolsetId, parse_duration};

use crate::{
    api_key::{ApiKey, Hidden},
    exit::Exit,
};

/// Where `rewind dev` keeps its data, and the client commands look for its `dev.json`.
pub(crate) const DEFAULT_DATA: &str = ".rewind";

/// Under which `--help` lists how the server is found, apart from a command's own options.
const CONNECTION: &str = "Connection";

/// Runs scripts that a language model wrote, durably.
#[derive(Debug, Parser)]
#[command(name = "rewind", version, after_help = Exit::HELP, max_term_width = 110)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Dev(DevArgs),
    Toolset(ToolsetArgs),
    Run(RunArgs),
    Parked(ParkedArgs),
    Webhook(WebhookArgs),
    Declarations(DeclarationsArgs),
}

/// How to find the server, and how to print what it says.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// The API's address, such as http://127.0.0.1:7346.
    #[arg(long, value_name = "URL", env = "REWIND_API", global = true, help_heading = CONNECTION)]
    pub(crate) api: Option<String>,
    /// The API key. Other users of the machine can see a command line: the environment is safer.
    #[arg(
        long,
        value_name = "KEY",
        env = "REWIND_KEY",
        hide_env_values = true,
        global = true,
        help_heading = CONNECTION
    )]
    pub(crate) key: Option<ApiKey>,
    /// Where `rewind dev` keeps its data; without --api its dev.json names the server.
    #[arg(
        long,
        value_name = "DIR",
        env = "REWIND_DATA",
        default_value = DEFAULT_DATA,
        global = true,
        help_heading = CONNECTION
    )]
    pub(crate) data: PathBuf,
    /// Print the API's JSON instead of text for people.
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Register toolsets, read what they pin, type-check scripts against them.
#[derive(Debug, clap::Args)]
#[command(after_help = Exit::HELP)]
pub(crate) struct ToolsetArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: ToolsetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsetCommand {
    /// Connect to the toolset's servers and pin their tools; prints the toolset's id.
    Register {
        /// The toolset as JSON ({"mcp_servers": {…}, "host_tools": {…}}); `-` is stdin.
        file: PathBuf,
    },
    /// What a toolset pins.
    Show {
        /// The toolset's id, ts_….
        id: ToolsetId,
        /// Exactly the bytes whose SHA-256 the id is.
        #[arg(long)]
        canonical: bool,
    },
    /// The TypeScript declarations that scripts are written against.
    Declarations {
        /// The toolset's id, ts_….
        id: ToolsetId,
        /// Whom it is for.
        #[arg(long, value_enum, default_value_t = RenderingArg::Compact)]
        rendering: RenderingArg,
    },
    /// Find tools by what they are called and what they are for; without words, list them.
    Tools {
        /// The toolset's id, ts_….
        id: ToolsetId,
        /// What is looked for, such as `list orders`.
        words: Vec<String>,
        /// The most hits to print.
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        limit: u32,
    },
    /// Type-check a script without running it. One with errors makes this exit with 1, and `run start`, which the API
    /// then refuses, with 3.
    #[command(after_help = Exit::HELP)]
    Check {
        /// The toolset's id, ts_….
        id: ToolsetId,
        /// TypeScript; `-` is stdin.
        script: PathBuf,
    },
}

/// Render the declarations of tools, without a server.
///
/// Reads a JSON array of {name, description?, inputSchema, outputSchema?}, or {"tools": […]} with such an array, as
/// an MCP server's tools/list gives it, and prints the module "rewind:tools" with one export that has these tools. A tool that
/// cannot be used is left out, with a warning on stderr.
#[derive(Debug, clap::Args)]
#[command(after_help = Exit::HELP)]
pub(crate) struct DeclarationsArgs {
    /// The tools; `-` is stdin.
    #[arg(default_value = "-")]
    pub(crate) tools: PathBuf,
    /// Whom it is for.
    #[arg(long, value_enum, default_value_t = RenderingArg::Compact)]
    pub(crate) rendering: RenderingArg,
    /// The export that has the tools as members.
    #[arg(long, value_name = "EXPORT", default_value = "tools")]
    pub(crate) name: String,
    /// Read one such array a line, and answer each with a line: the module as a JSON string.
    #[arg(long)]
    pub(crate) lines: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RenderingArg {
    /// For editors and the type-checker.
    Full,
    /// For a model's prompt.
    Compact,
}

impl From<RenderingArg> for Rendering {
    fn from(rendering: RenderingArg) -> Self {
        match rendering {
            RenderingArg::Full => Rendering::Full,
            RenderingArg::Compact => Rendering::Compact,
        }
    }
}

impl RenderingArg {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            RenderingArg::Full => "full",
            RenderingArg::Compact => "compact",
        }
    }
}

/// Start runs and follow them.
#[derive(Debug, clap::Args)]
#[command(after_help = Exit::HELP)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: RunCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Start a run; prints its id, or with --wait its result.
    #[command(after_help = Exit::HELP)]
    Start(StartArgs),
    /// One run: status, calls, result or error.
    Get {
        /// The run's id, run_….
        id: RunId,
        /// Wait up to this long for the run's end, such as 30s.
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        wait: Option<Duration>,
    },
    /// Runs, the newest first.
    List(ListArgs),
    /// Follow a run until it ends: status, calls and lines of `console`.
    #[command(after_help = Exit::HELP)]
    Watch {
        /// The run's id, run_….
        id: RunId,
    },
    /// Every call of a run, then its lines of `console`.
    Journal {
        /// The run's id, run_….
        id: RunId,
    },
    /// End a run, in whatever state it is.
    Cancel {
        /// The run's id, run_….
        id: RunId,
    },
    /// Start a run from a run's history, with a corrected script, another toolset or another input; prints its id,
    /// or with --wait its result.
    #[command(after_help = Exit::HELP)]
    Fork(ForkArgs),
    /// A run's calls and results as one JSON document, for `run start --cassette`.
    Cassette {
        /// The run's id, run_….
        id: RunId,
    },
}

/// Calls that wait for a decision: list them, let them go, or end them.
#[derive(Debug, clap::Args)]
#[command(after_help = Exit::HELP)]
pub(crate) struct ParkedArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: ParkedCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ParkedCommand {
    /// Calls that wait, of the newest runs first.
    List {
        /// Only those of runs that act for this end user.
        #[arg(long)]
        namespace: Option<String>,
    },
    /// Let a call go.
    Approve {
        /// The call's key, RUN/SEQ, as `parked list` shows it.
        call: CallKey,
        /// Who approves, for the journal.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
    /// End a call: the script gets a ToolError.
    Reject {
        /// The call's key, RUN/SEQ, as `parked list` shows it.
        call: CallKey,
        /// Who rejects, for the journal.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        /// What the script is told.
        #[arg(long, value_name = "TEXT")]
        message: Option<String>,
    },
}

/// Webhooks that their endpoints did not take: list them, send them again.
#[derive(Debug, clap::Args)]
#[command(after_help = Exit::HELP)]
pub(crate) struct WebhookArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) command: WebhookCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WebhookCommand {
    /// Dead letters, the oldest first.
    Dead,
    /// Send one again, to the endpoint that did not take it.
    Resend {
        /// As `webhook dead` shows it.
        id: String,
    },
}

/// `RUN/SEQ`.
#[derive(Debug, Clone)]
pub(crate) struct CallKey(pub(crate) Key);

impl std::str::FromStr for CallKey {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| format!("{text:?} is no call: write RUN/SEQ, such as run_…/3"))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// TypeScript with `export default async function main(input)`; `-` is stdin.
    #[arg(required_unless_present = "workflow")]
    pub(crate) script: Option<PathBuf>,
    /// Run a workflow of the toolset instead of a script.
    #[arg(long, value_name = "NAME", conflicts_with = "script")]
    pub(crate) workflow: Option<String>,
    /// What the script may call.
    #[arg(long, value_name = "ID")]
    pub(crate) toolset: ToolsetId,
    /// The input as JSON, or @FILE; @- is stdin. `null` if absent.
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) input: Option<String>,
    /// The end user for whom the run acts.
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// To find the run by; may be given several times.
    #[arg(long = "label", value_name = "K=V", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, String)>,
    /// The same key returns the same run.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// The run fails if it has not ended by then: a duration from now, such as 30m, or a time (RFC 3339).
    #[arg(long, value_name = "WHEN")]
    pub(crate) deadline: Option<String>,
    /// Where events of the run are sent, besides the installation's endpoints.
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// Call no tool: calls get the outcomes that `run cassette` wrote to this file, and its input is the default.
    #[arg(long, value_name = "FILE")]
    pub(crate) cassette: Option<PathBuf>,
    /// Call no tool: the result is the calls that the script makes before it needs the result of one.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Wait for the end, and print the result (an error on stderr).
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ForkArgs {
    /// The run that is forked; it goes on, or waits, as it did.
    pub(crate) id: RunId,
    /// TypeScript; `-` is stdin. The run's own if absent.
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// What the script may call; as in the run if absent.
    #[arg(long, value_name = "ID")]
    pub(crate) toolset: Option<ToolsetId>,
    /// The input as JSON, or @FILE; @- is stdin. The run's own if absent.
    #[arg(long, value_name = "JSON|@FILE")]
    pub(crate) input: Option<String>,
    /// Instead of the run's own; may be given several times.
    #[arg(long = "label", value_name = "K=V", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, String)>,
    /// The same key returns the same run.
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// As of `run start`; never that of the run.
    #[arg(long, value_name = "WHEN")]
    pub(crate) deadline: Option<String>,
    /// Where events are sent, besides the installation's endpoints; as in the run if absent.
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// Wait for the end, and print the result (an error on stderr).
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Runs that are in this state.
    #[arg(long, value_parser = status_parser())]
    pub(crate) status: Option<RunStatus>,
    /// Runs that act for this end user.
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Runs whose scripts may call this.
    #[arg(long, value_name = "ID")]
    pub(crate) toolset: Option<ToolsetId>,
    /// Runs that this run's calls of workflows are.
    #[arg(long, value_name = "RUN")]
    pub(crate) parent: Option<RunId>,
    /// Runs that have this label; may be given several times.
    #[arg(long = "label", value_name = "K=V", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, String)>,
    /// The most runs to print.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,
}

/// Run all of Rewind on this machine: NATS, a coordinator and nodes.
///
/// Restarts a part that dies; one that says, before it was ever ready, that it cannot run ends everything.
/// DIR/dev.json names the API, its key and the parts' process ids as soon as everything is ready; the other commands
/// find the server by it. Ctrl-C stops everything in order.
///
/// The parts have this command's environment: REWIND_RETAIN_COMPLETED, REWIND_RETAIN_FAILED, REWIND_RETAIN_CANCELLED,
/// REWIND_RETAIN_SCRIPTS and REWIND_WEBHOOK_RETRY reach the coordinator by it (`rewind-coordinator --help`).
#[derive(Debug, clap::Args)]
#[command(after_help = Exit::HELP)]
pub(crate) struct DevArgs {
    /// Where everything is kept: the key, NATS's data, all runs.
    #[arg(long, value_name = "DIR", env = "REWIND_DATA", default_value = DEFAULT_DATA)]
    pub(crate) data: PathBuf,
    /// Where the API listens; port 0 picks a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7346")]
    pub(crate) listen: SocketAddr,
    /// Number of nodes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) nodes: u16,
    /// Have NATS write each message to the disk before it acknowledges it: survives a power cut.
    #[arg(long)]
    pub(crate) sync_always: bool,
    /// Let toolsets name commands as MCP servers ({"command": …, "args": […], "env": {…}}): they run with your
    /// rights.
    #[arg(long)]
    pub(crate) allow_stdio: bool,
    /// A URL that all webhooks are sent to; may be given several times, and in the environment several with blanks or
    /// commas between. DIR/dev.json has the secret that signs them.
    #[arg(long = "webhook-url", value_name = "URL", env = "REWIND_WEBHOOK_URLS", hide_env_values = true)]
    pub(crate) webhook_urls: Vec<Hidden>,
    /// Write the parts' output to DIR/logs/NAME.log instead of stderr.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Open NATS's HTTP monitoring on this port of 127.0.0.1; 0 picks a free one.
    #[arg(long, value_name = "PORT")]
    pub(crate) nats_monitor: Option<u16>,
    /// Give up when not everything is ready after this long.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    pub(crate) ready_timeout: Duration,
    /// nats-server's executable; else PATH and .tools are searched.
    #[arg(long, value_name = "PATH", env = "REWIND_NATS_SERVER")]
    pub(crate) nats_server: Option<PathBuf>,
    /// TypeScript's native tsc; else .tools and PATH are searched.
    #[arg(long, value_name = "PATH", env = "REWIND_TSC")]
    pub(crate) tsc: Option<PathBuf>,
}

/// As `RunStatus` parses it, with the values in `--help`.
fn status_parser() -> impl TypedValueParser<Value = RunStatus> {
    PossibleValuesParser::new(RunStatus::ALL.map(RunStatus::as_str)).try_map(|text| text.parse::<RunStatus>())
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label is key=value".to_owned()),
    }
}

/// # Errors
/// A message for people when `text` is not one JSON value.
pub(crate) fn parse_json(text: String, from: &str) -> Result<Json, crate::error::Error> {
    Json::parse(text).map_err(|error| crate::error::Error::Usage(format!("{from} is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory as _;
        Args::command().debug_assert();
    }

    #[test]
    fn every_argument_has_a_text() {
        use clap::CommandFactory as _;

        fn check(command: &clap::Command) {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{}: {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Args::command());
    }

    #[test]
    fn a_label_may_hold_equals_signs_in_its_value() {
        assert_eq!(parse_label("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(parse_label("a").is_err());
        assert!(parse_label("=b").is_err());
    }

    #[test]
    fn debug_of_the_arguments_hides_the_key() {
        let args = Args::parse_from(["rewind", "run", "list", "--key", "rk_secret"]);
        assert!(!format!("{args:?}").contains("rk_secret"));
    }
}
