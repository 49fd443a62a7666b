//! `rewind declarations`: what a script is written against, without a server.

use std::io::{self, BufRead, Write as _};

use rewind_model::{ListedTool, McpServer, Toolset, ToolsetWarning};
use rewind_schema::{Quarantine, is_export_name, pin_tools, render};
use serde_json::value::RawValue;

use crate::{args::DeclarationsArgs, error::Error, exit::Exit, input, output::one_line};

/// Bytes of one line of `--lines`.
const LONGEST_LINE: u64 = 64 << 20;

pub(crate) fn run(args: &DeclarationsArgs) -> Result<Exit, Error> {
    if !is_export_name(&args.name) {
        let name = one_line(&args.name);
        return Err(Error::Usage(format!(
            "--name {name:?} cannot be an export: use an ASCII identifier that is no reserved word of JavaScript and \
             not host, http, sleep, workflows, Error or ToolError"
        )));
    }
    if args.lines { lines(args) } else { whole(args) }
}

/// One array, one module.
fn whole(args: &DeclarationsArgs) -> Result<Exit, Error> {
    let text = input::text_of(&args.tools)?;
    let (module, warnings) = declarations(&text, args).map_err(|why| Error::Usage(format!("the tools: {why}")))?;
    warn("", &warnings)?;
    write!(io::stdout(), "{module}")?;
    Ok(Exit::Done)
}

/// An array a line; a JSON string a line, as soon as it is there.
fn lines(args: &DeclarationsArgs) -> Result<Exit, Error> {
    let mut reader = input::lines_of(&args.tools)?;
    let mut out = io::stdout().lock();
    for number in 1_u64.. {
        let mut line = String::new();
        let read = io::Read::take(&mut reader, LONGEST_LINE + 1).read_line(&mut line);
        let read = read.map_err(|source| Error::Unreadable { path: args.tools.clone(), source })?;
        if read == 0 {
            break;
        }
        if read as u64 > LONGEST_LINE {
            return Err(Error::Usage(format!("line {number} is over {LONGEST_LINE} bytes")));
        }
        if line.trim().is_empty() {
            continue;
        }
        let rendered = declarations(&line, args);
        let (module, warnings) = rendered.map_err(|why| Error::Usage(format!("line {number}: {why}")))?;
        warn(&format!("line {number}: "), &warnings)?;
        writeln!(out, "{}", serde_json::Value::from(module))?;
        out.flush()?;
    }
    Ok(Exit::Done)
}

fn warn(place: &str, warnings: &[ToolsetWarning]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    warnings.iter().try_for_each(|warning| {
        writeln!(out, "warning: {place}{}: {}", one_line(&warning.tool), one_line(&warning.reason))
    })
}

/// The array itself, or the answer of `tools/list` that has it.
fn entries(tools: &str) -> Result<Vec<&RawValue>, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Answer<'t> {
        #[serde(borrow)]
        tools: Vec<&'t RawValue>,
    }
    let array = serde_json::from_str(tools);
    array.or_else(|error| serde_json::from_str(tools).map(|Answer { tools }| tools).map_err(|_| error))
}

/// The module for a list of tools as `tools/list` gives it, and what was left out of it.
fn declarations(tools: &str, args: &DeclarationsArgs) -> Result<(String, Vec<ToolsetWarning>), String> {
    let tools = tools.trim_start_matches('\u{feff}');
    let entries = entries(tools)
        .map_err(|error| format!("not a JSON array of {{name, description?, inputSchema, outputSchema?}}: {error}"))?;
    let mut quarantine = Quarantine::default();
    let mut listed = Vec::with_capacity(entries.len());
    for (position, entry) in entries.into_iter().enumerate() {
        match ListedTool::from_entry(entry, position) {
            Ok(tool) => listed.push(tool),
            Err(malformed) => quarantine.malformed(&args.name, &malformed),
        }
    }
    let tools = pin_tools(&args.name, listed, &mut quarantine);
    let server = McpServer { tools, ..McpServer::default() };
    let mcp_servers = [(args.name.clone(), server)].into();
    let toolset = Toolset { v: 1, mcp_servers, ..Toolset::default() };
    Ok((render(&toolset, args.rendering.into()), quarantine.into_warnings()))
}
