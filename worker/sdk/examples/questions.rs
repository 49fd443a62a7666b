//! A host tool that people answer: `ask` writes the question down and lets go; whenever somebody knows the answer,
//! any process gives it.
//!
//! ```text
//! cargo run -p rewind-sdk --example questions -- work --questions questions.jsonl
//! cargo run -p rewind-sdk --example questions -- answer later1.run_….1.1 '{"yes": true}'
//! ```

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

use clap::{Parser, Subcommand};
use rewind_sdk::{Answers, Ctx, Token, ToolError, Worker};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Parser)]
struct Args {
    /// Address of NATS, such as `nats://user:password@host:4222`.
    #[arg(long, env = "REWIND_NATS", default_value = "nats://127.0.0.1:4222", hide_env_values = true)]
    nats: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Take questions.
    Work {
        /// Where they are written: a line of JSON each, `{"token", "key", "question"}`.
        #[arg(long, default_value = "questions.jsonl")]
        questions: PathBuf,
    },
    /// Answer one.
    Answer { token: Token, answer: String },
    /// Say that there is no answer.
    Decline { token: Token, why: String },
}

#[derive(Deserialize)]
struct Ask {
    question: String,
}

/// Writes the question down before it lets go: a call that comes again has the same token, so that a question that
/// stands there twice is one.
fn ask(ctx: &Ctx, ask: &Ask, questions: &Path) -> Result<(), ToolError> {
    let token = ctx.complete_later();
    let line = json!({"token": token.to_string(), "key": ctx.idempotency_key(), "question": ask.question});
    let written = OpenOptions::new().create(true).append(true).open(questions).and_then(|mut file| {
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    });
    written.map_err(|_| ToolError::new("the question could not be written down").retryable(true))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    match args.command {
        Command::Work { questions } => {
            let handler = move |ctx: Ctx, question: Ask| {
                let asked = ask(&ctx, &question, &questions);
                async move { asked }
            };
            // Whoever reads it may have gone.
            let ready = || drop(writeln!(std::io::stdout(), "{}", json!({"ready": true})));
            Worker::builder(&args.nats).tool("ask", handler).on_ready(ready).run().await?;
        }
        Command::Answer { token, answer } => {
            let answer: Value = serde_json::from_str(&answer)?;
            Answers::connect(&args.nats).await?.complete(&token, &answer).await?;
        }
        Command::Decline { token, why } => {
            Answers::connect(&args.nats).await?.fail(&token, ToolError::new(why)).await?
        }
    }
    Ok(())
}
