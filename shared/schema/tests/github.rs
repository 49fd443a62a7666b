//! The tools of a large real server. Its definitions are no part of the repository:
//! one `{name, description, inputSchema}` a line, in the file that `REWIND_GITHUB_TOOLS` names, or in
//! `shared/data/github-tools.jsonl` of a directory above.

mod tsc;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use rewind_model::{Rendering, Toolset};
use rewind_schema::{check_schema, normalize, render};
use serde_json::{Map, Value, json};

/// The toolset, and the bytes of the server's own tools as JSON.
fn github() -> Option<(Toolset, usize)> {
    let above = || {
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/data/github-tools.jsonl"))
    };
    let named = std::env::var_os("REWIND_GITHUB_TOOLS").map(PathBuf::from);
    let Some(path) = named.or_else(|| above().find(|path| path.exists())) else {
        eprintln!("not measured: github-tools.jsonl is not here, and REWIND_GITHUB_TOOLS is not set");
        return None;
    };
    let text = fs::read_to_string(path).expect("the tools");
    let (mut tools, mut bytes) = (Map::new(), 0);
    for line in text.lines() {
        let mut tool: Map<String, Value> = serde_json::from_str(line).expect("a tool a line");
        tool.remove("server");
        bytes += serde_json::to_string(&tool).expect("writable").len() + 1;
        let name = tool["name"].as_str().expect("a name").to_owned();
        let schema = normalize(tool["inputSchema"].clone());
        tools.insert(
            name,
            json!({"description": tool["description"], "annotations": tool.get("annotations"), "input_schema": schema}),
        );
    }
    Some((tsc::toolset("github", Value::Object(tools)), bytes))
}

#[test]
fn they_compile_and_the_compact_rendering_is_a_quarter() {
    let Some((toolset, json)) = github() else {
        return;
    };
    let full = render(&toolset, Rendering::Full);
    let compact = render(&toolset, Rendering::Compact);
    tsc::assert_compiles("full", &full);
    tsc::assert_compiles("compact", &compact);
    eprintln!(
        "json {json}, full {}, compact {} bytes: {:.1} %",
        full.len(),
        compact.len(),
        100.0 * compact.len() as f64 / json as f64
    );
    assert!(compact.len() * 4 <= json, "{} of {json}\n{compact}", compact.len());
    for (name, tool) in toolset.tools() {
        assert_eq!(check_schema(&tool.input_schema), Ok(()), "{name}");
    }
}

#[test]
fn a_thousand_tools_are_rendered_at_once() {
    let Some((mut toolset, _)) = github() else {
        return;
    };
    let github = toolset.mcp_servers["github"].clone();
    for copy in 1..9 {
        toolset.mcp_servers.insert(format!("github{copy}"), github.clone());
    }
    assert!(toolset.tools().count() > 1_000);
    for rendering in [Rendering::Full, Rendering::Compact] {
        let started = Instant::now();
        let text = render(&toolset, rendering);
        eprintln!("{rendering:?}: {} tools, {} bytes in {:?}", toolset.tools().count(), text.len(), started.elapsed());
        assert_eq!(text, render(&toolset, rendering));
    }
}
