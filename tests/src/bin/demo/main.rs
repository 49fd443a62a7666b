//! `make demo`: a run whose node is killed twice, and that finishes with nothing done twice.

#![expect(clippy::print_stdout, reason = "a demo is what it prints")]

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Instant,
};

use anyhow::{Context, ensure};
use rewind_model::{JournalCall, RunId, RunStatus};
use rewind_tests::{Cluster, Effect, Peer, effects_of, eventually, one_effect_per_key};
use serde_json::json;
use tokio::process::Command;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let begun = Instant::now();
    step(1, "The system, and the tools that scripts will call");
    let mut cluster = Cluster::start().await?;
    let files = Files::new(&cluster);
    let orders = Peer::orders(&cluster, &files.emails).await?;
    let (_everything, everything_url) = Peer::everything(&cluster).await?;
    let _refunds = Peer::refunds(&cluster, &files.refunds, "2s").await?;
    println!("  Rewind                     {}", cluster.dev_file()?.api);
    println!("  MCP server (2026-07-28)    {}", orders.said("url")?);
    println!("  MCP server (2025 protocol) {everything_url}");
    println!("  worker of host tools       lookup_order, refund");

    step(2, "A toolset, registered twice: it is named by what it pins");
    let cli = Cli::new(&cluster);
    std::fs::write(&files.toolset, toolset(&orders.said("url")?, &everything_url).to_string())?;
    let toolset = cli.show(&["toolset", "register", &files.toolset()]).await?;
    let again = cli.show(&["toolset", "register", &files.toolset()]).await?;
    ensure!(toolset == again, "the same toolset has two ids");
    let canonical = cli.quiet(&["toolset", "show", &toolset, "--canonical"]).await?;
    std::fs::write(&files.canonical, &canonical)?;
    let sum = Command::new("sha256sum").arg(&files.canonical).output().await?;
    let sum = String::from_utf8(sum.stdout)?;
    let digest = sum.split_whitespace().next().context("sha256sum")?;
    println!("  $ rewind toolset show {}… --canonical | sha256sum\n  {digest}", &toolset[..12]);
    ensure!(toolset == format!("ts_{digest}"), "the id is not the digest of the canonical bytes");
    cli.show(&["toolset", "declarations", &toolset]).await?;

    step(3, "A wrong script does not start");
    std::fs::write(&files.wrong, include_str!("wrong.ts"))?;
    cli.show_any(&["toolset", "check", &toolset, &files.wrong()]).await?;

    step(4, "The right one does");
    std::fs::write(&files.script, include_str!("orders.ts"))?;
    println!("{}", indent(include_str!("orders.ts")));
    let input = json!({"customer": "Ada Lovelace"}).to_string();
    let run = cli.show(&["run", "start", "--toolset", &toolset, &files.script(), "--input", &input]).await?;
    let run: RunId = run.trim().parse()?;

    step(5, "Its node is killed twice");
    eventually("the refund has begun", || async { (!effects_of(&files.refunds).ok()?.is_empty()).then_some(()) })
        .await?;
    kill(&cluster, "while the bank takes its two seconds").await?;
    eventually("the script sleeps", || async {
        let journal = cluster.api.journal(&run).await.ok()?;
        let sleeps = |call: &JournalCall| call.tool == "sleep" && call.status == "pending";
        journal.items.iter().any(sleeps).then_some(())
    })
    .await?;
    kill(&cluster, "while the script sleeps").await?;
    let ended = cluster.api.ended(&run).await?;

    step(6, "It has finished all the same");
    ensure!(ended.status == RunStatus::Completed, "the run has {}: {:?}", ended.status, ended.error);
    let result: serde_json::Value = ended.result.context("a result")?.to()?;
    println!("{}\n", indent(&serde_json::to_string_pretty(&result)?));
    cli.show(&["run", "journal", run.as_str()]).await?;
    println!("  What the tools saw:");
    for effects in [effects_of(&files.refunds)?, effects_of(&files.emails)?] {
        one_effect_per_key(&effects)?;
        for Effect { tool, key, effect } in effects {
            println!("    {tool:<12} {key}  {}", if effect { "done" } else { "known, not done again" });
        }
    }
    cluster.stop().await?;
    println!("\nOne effect per key, in {:.1} s. Everything is stopped and cleaned up.", begun.elapsed().as_secs_f32());
    Ok(())
}

fn toolset(orders: &str, everything: &str) -> serde_json::Value {
    json!({
        "mcp_servers": {"orders": {"url": orders}, "everything": {"url": everything}},
        "host_tools": {
            "lookup_order": {
                "description": "Look an order up in the shop's own database.",
                "input_schema": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
                "output_schema": {
                    "type": "object",
                    "properties": {
                        "order_id": {"type": "string"}, "total_cents": {"type": "integer"},
                        "customer": {"type": "string"}, "status": {"enum": ["open", "shipped"]}
                    },
                    "required": ["order_id", "total_cents", "customer", "status"]
                }
            },
            "refund": {
                "description": "Pay money back. Takes as long as the bank does.",
                "input_schema": {
                    "type": "object",
                    "properties": {
                        "order_id": {"type": "string"},
                        "amount_cents": {"type": "integer", "minimum": 1},
                        "delay_ms": {"type": "integer", "description": "how long the bank takes"}
                    },
                    "required": ["order_id", "amount_cents"]
                },
                "output_schema": {
                    "type": "object",
                    "properties": {
                        "refund_id": {"type": "string"}, "order_id": {"type": "string"}, "amount_cents": {"type": "integer"}
                    },
                    "required": ["refund_id", "order_id", "amount_cents"]
                }
            }
        }
    })
}

async fn kill(cluster: &Cluster, when: &str) -> anyhow::Result<()> {
    let pid = cluster.dev_file()?.pids.nodes.first().copied().context("a node")?;
    println!("  kill -9 {pid}    {when}");
    cluster.kill_node(0).await
}

/// The demo's files, all in the system's own folder, which goes with it.
struct Files {
    toolset: PathBuf,
    canonical: PathBuf,
    script: PathBuf,
    wrong: PathBuf,
    refunds: PathBuf,
    emails: PathBuf,
}

impl Files {
    fn new(cluster: &Cluster) -> Self {
        Self {
            toolset: cluster.path("toolset.json"),
            canonical: cluster.path("canonical.json"),
            script: cluster.path("orders.ts"),
            wrong: cluster.path("wrong.ts"),
            refunds: cluster.path("refunds.jsonl"),
            emails: cluster.path("emails.jsonl"),
        }
    }
    fn toolset(&self) -> String {
        self.toolset.display().to_string()
    }
    fn script(&self) -> String {
        self.script.display().to_string()
    }
    fn wrong(&self) -> String {
        self.wrong.display().to_string()
    }
}

/// The `rewind` command, as a person would type it.
struct Cli {
    program: PathBuf,
    data: PathBuf,
}

impl Cli {
    fn new(cluster: &Cluster) -> Self {
        Self { program: cluster.tools().rewind(), data: cluster.data().to_owned() }
    }

    async fn run(&self, args: &[&str]) -> anyhow::Result<(bool, String, String)> {
        let output =
            Command::new(&self.program).args(args).env("REWIND_DATA", &self.data).stdin(Stdio::null()).output().await?;
        Ok((output.status.success(), String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
    }

    /// Runs it, prints what was typed and what it answered, and gives what it wrote on stdout.
    async fn show(&self, args: &[&str]) -> anyhow::Result<String> {
        let (ok, out, err) = self.shown(args).await?;
        ensure!(ok, "rewind {} failed: {err}", args.join(" "));
        Ok(out.trim_end().to_owned())
    }

    /// As `show`, of a command that is expected to fail.
    async fn show_any(&self, args: &[&str]) -> anyhow::Result<()> {
        let (ok, ..) = self.shown(args).await?;
        ensure!(!ok, "rewind {} should have failed", args.join(" "));
        Ok(())
    }

    async fn shown(&self, args: &[&str]) -> anyhow::Result<(bool, String, String)> {
        let (ok, out, err) = self.run(args).await?;
        let typed: Vec<String> = args.iter().map(|arg| shorten(arg)).collect();
        println!("  $ rewind {}", typed.join(" "));
        for text in [&out, &err] {
            if !text.trim().is_empty() {
                println!("{}\n", indent(text.trim_end()));
            }
        }
        Ok((ok, out, err))
    }

    async fn quiet(&self, args: &[&str]) -> anyhow::Result<String> {
        let (ok, out, err) = self.run(args).await?;
        ensure!(ok, "rewind {} failed: {err}", args.join(" "));
        Ok(out)
    }
}

fn shorten(arg: &str) -> String {
    if arg.starts_with("ts_") {
        return format!("{}…", &arg[..12]);
    }
    match Path::new(arg).file_name() {
        Some(name) if arg.starts_with('/') => name.to_string_lossy().into_owned(),
        _ if arg.contains(' ') || arg.contains('{') => format!("'{arg}'"),
        _ => arg.to_owned(),
    }
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn step(n: u32, text: &str) {
    println!("\n── {n}. {text} {}\n", "─".repeat(76_usize.saturating_sub(text.chars().count())));
}
