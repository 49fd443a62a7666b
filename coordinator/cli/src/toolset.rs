//! `rewind toolset`.

use std::{
    io::{self, Write as _},
    path::Path,
};

use rewind_model::{
    CheckScript, CheckedScript, FoundTools, McpServer, Policy, RegisteredToolset, RegistryEntry, Toolset, ToolsetId,
    Transport, format_duration,
};

use crate::{
    args::{ClientArgs, RenderingArg, ToolsetArgs, ToolsetCommand},
    client::Client,
    diagnostic::{self, diagnostic_text},
    error::Error,
    exit::Exit,
    input,
    output::{Align, Paint, Table, one_line, printable, write_json},
    server::Server,
};

pub(crate) async fn run(args: ToolsetArgs) -> Result<Exit, Error> {
    let client = Client::new(&Server::find(&args.client)?)?;
    match args.command {
        ToolsetCommand::Register { file } => {
            register(&client, &args.client, input::json_of_file(&file)?.into_string()).await
        }
        ToolsetCommand::Show { id, canonical: true } => canonical(&client, &id).await,
        ToolsetCommand::Show { id, canonical: false } => show(&client, &args.client, &id).await,
        ToolsetCommand::Declarations { id, rendering } => declarations(&client, &args.client, &id, rendering).await,
        ToolsetCommand::Tools { id, words, limit } => tools(&client, &args.client, &id, &words.join(" "), limit).await,
        ToolsetCommand::Check { id, script } => check(&client, &args.client, &id, &script).await,
    }
}

/// The id alone is on stdout, so that `TS=$(rewind toolset register …)` works.
async fn register(client: &Client, args: &ClientArgs, document: String) -> Result<Exit, Error> {
    let answer = client.post_text("v1/toolsets", document).await?;
    if args.json {
        write_json(&answer.body)?;
        return Ok(Exit::Done);
    }
    let registered: RegisteredToolset = answer.to()?;
    writeln!(io::stdout(), "{}", registered.id)?;
    let mut out = io::stderr().lock();
    for (export, tools) in &registered.tools {
        writeln!(out, "{}: {tools} {}", one_line(export), if *tools == 1 { "tool" } else { "tools" })?;
    }
    for warning in &registered.warnings {
        writeln!(out, "warning: {}: {}", one_line(&warning.tool), one_line(&warning.reason))?;
    }
    Ok(Exit::Done)
}

async fn canonical(client: &Client, id: &ToolsetId) -> Result<Exit, Error> {
    let answer = client.get(&format!("v1/toolsets/{id}"), &[("canonical", "true")]).await?;
    let mut out = io::stdout().lock();
    // No newline: these bytes are what the id is the digest of.
    out.write_all(answer.body.as_bytes())?;
    out.flush()?;
    Ok(Exit::Done)
}

async fn show(client: &Client, args: &ClientArgs, id: &ToolsetId) -> Result<Exit, Error> {
    let answer = client.get(&format!("v1/toolsets/{id}"), &[]).await?;
    if args.json {
        write_json(&answer.body)?;
        return Ok(Exit::Done);
    }
    let RegistryEntry { toolset, base, observed, .. } = answer.to()?;
    let paint = Paint::for_stdout();
    let mut out = io::stdout().lock();
    writeln!(out, "{id}")?;
    if let Some(base) = base {
        writeln!(out, "derived from {base}")?;
    }
    let mut servers = Table::new(&[("SERVER", Align::Left), ("TOOLS", Align::Right), ("URL", Align::Left)]);
    for (export, server) in &toolset.mcp_servers {
        servers.row([export.into(), server.tools.len().to_string().into(), where_it_is(server).into()]);
    }
    if !servers.is_empty() {
        writeln!(out)?;
        servers.write(&mut out, paint)?;
    }
    let mut tools = Table::new(&[
        ("TOOL", Align::Left),
        ("RESULT", Align::Left),
        ("POLICY", Align::Left),
        ("DESCRIPTION", Align::Left),
    ]);
    for (name, tool) in toolset.tools() {
        let result = match (&tool.output_schema, observed.get(&name.to_string())) {
            (Some(_), _) => "declared".to_owned(),
            (None, Some(results)) => format!("observed {results}"),
            (None, None) => "any".to_owned(),
        };
        let policy = policy(&tool.policy);
        let about = tool.description.as_deref().or(tool.title.as_deref());
        tools.row([name.to_string().into(), result.into(), policy.into(), summary(about).into()]);
    }
    for (name, workflow) in &toolset.workflows {
        let result = if workflow.output_schema.is_some() { "declared" } else { "any" };
        let about = summary(workflow.description.as_deref());
        let policy = policy(&workflow.policy);
        tools.row([format!("{}.{name}", Toolset::WORKFLOWS).into(), result.into(), policy.into(), about.into()]);
    }
    if !tools.is_empty() {
        writeln!(out)?;
        tools.write(&mut out, paint)?;
    }
    if let Some(http) = &toolset.http {
        let hosts: Vec<_> = http.allowed_hosts.iter().map(|host| one_line(host)).collect();
        writeln!(out, "\nfetch may reach: {}", hosts.join(", "))?;
    }
    Ok(Exit::Done)
}

/// What is not as in the default.
fn policy(policy: &Policy) -> String {
    let usual = Policy::default();
    let parts = [
        (policy.delivery != usual.delivery).then(|| "at most once".to_owned()),
        (policy.approval != usual.approval).then(|| "approval".to_owned()),
        policy.park_limit.map(|limit| format!("parked up to {}", format_duration(limit))),
        (policy.timeout != usual.timeout).then(|| format_duration(policy.timeout)),
        (policy.retry != usual.retry).then(|| format!("{} attempts", policy.retry.max_attempts)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn where_it_is(server: &McpServer) -> String {
    match server.transport() {
        Transport::Http { url, .. } => url.to_owned(),
        Transport::Stdio { command, args, .. } => format!("{command} {}", args.join(" ")),
    }
}

/// The beginning of a tool's description that fits a line of a table.
fn summary(description: Option<&str>) -> String {
    const LONGEST: usize = 80;
    let line = description.unwrap_or_default().trim().lines().next().unwrap_or("");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

async fn declarations(
    client: &Client,
    args: &ClientArgs,
    id: &ToolsetId,
    rendering: RenderingArg,
) -> Result<Exit, Error> {
    let path = format!("v1/toolsets/{id}/declarations");
    let answer = client.get(&path, &[("rendering", rendering.as_str())]).await?;
    if args.json {
        // The API's answer is text; in JSON it is a string.
        write_json(&serde_json::Value::from(answer.body).to_string())?;
    } else {
        write!(io::stdout(), "{}", printable(&answer.body))?;
    }
    Ok(Exit::Done)
}

async fn tools(client: &Client, args: &ClientArgs, id: &ToolsetId, words: &str, limit: u32) -> Result<Exit, Error> {
    let limit = limit.to_string();
    let query = [("limit", limit.as_str()), ("query", words)];
    let query = if words.is_empty() { &query[..1] } else { &query[..] };
    let answer = client.get(&format!("v1/toolsets/{id}/tools"), query).await?;
    if args.json {
        write_json(&answer.body)?;
        return Ok(Exit::Done);
    }
    let found: FoundTools = answer.to()?;
    if found.tools.is_empty() {
        writeln!(io::stderr(), "no tool matches")?;
    }
    let mut out = io::stdout().lock();
    for tool in &found.tools {
        writeln!(out, "{}", printable(&tool.signature))?;
    }
    Ok(Exit::Done)
}

async fn check(client: &Client, args: &ClientArgs, id: &ToolsetId, path: &Path) -> Result<Exit, Error> {
    let body = CheckScript { script: input::text_of(path)? };
    let answer = client.post(&format!("v1/toolsets/{id}/check"), &body).await?;
    let mut checked: CheckedScript = answer.to()?;
    let exit = if checked.ok { Exit::Done } else { Exit::Failed };
    if args.json {
        write_json(&answer.body)?;
        return Ok(exit);
    }
    diagnostic::name(Some(path), checked.diagnostics.iter_mut().chain(&mut checked.warnings));
    let mut out = io::stdout().lock();
    for diagnostic in &checked.diagnostics {
        writeln!(out, "{}", diagnostic_text(diagnostic))?;
    }
    for warning in &checked.warnings {
        writeln!(out, "warning: {}", diagnostic_text(warning))?;
    }
    if checked.ok {
        writeln!(out, "ok")?;
    }
    Ok(exit)
}
