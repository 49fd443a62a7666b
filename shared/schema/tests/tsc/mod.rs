//! The TypeScript compiler, as a test calls it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rewind_model::{Policy, Toolset};
use serde_json::{Map, Value, json};

const WITHIN_TOOLS: &str = "npm/node_modules/@typescript/typescript-linux-x64/lib/tsc";

/// From `REWIND_TSC`, or the `.tools` of a directory above this crate.
fn compiler() -> PathBuf {
    if let Some(path) = std::env::var_os("REWIND_TSC") {
        return path.into();
    }
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = above.map(|folder| folder.join(".tools").join(WITHIN_TOOLS)).find(|path| path.exists());
    found.expect("the TypeScript compiler: run `make tools`, or set REWIND_TSC")
}

/// What the compiler says of `files` (name, text), each diagnostic on a line; empty when it is content.
pub(crate) fn check(files: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a written file");
    }
    let options = json!({
        "compilerOptions": {
            "strict": true, "noEmit": true, "lib": ["ES2023"], "target": "ES2023", "module": "ESNext",
            "moduleDetection": "force", "types": [],
        },
        "files": files.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    });
    fs::write(folder.path().join("tsconfig.json"), options.to_string()).expect("a written file");
    let output = Command::new(compiler())
        .args(["--project", ".", "--pretty", "false"])
        .current_dir(folder.path())
        .output()
        .expect("the compiler starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let lines: Vec<String> =
        said.lines().filter(|line| !line.starts_with(' ') && !line.is_empty()).map(Into::into).collect();
    assert_eq!(output.status.success(), lines.is_empty(), "exit status and diagnostics differ: {said}");
    lines
}

pub(crate) fn assert_compiles(what: &str, declarations: &str) {
    let said = check(&[("environment.d.ts", rewind_schema::ENVIRONMENT), ("rewind-tools.d.ts", declarations)]);
    assert!(said.is_empty(), "{what} does not compile: {said:#?}\n{declarations}");
}

/// A toolset with one server, `server`, of these tools: each has `input_schema` and so on, but no policy.
pub(crate) fn toolset(server: &str, tools: Value) -> Toolset {
    let Value::Object(tools) = tools else { panic!("tools by name") };
    serde_json::from_value(
        json!({"v": 1, "mcp_servers": {server: {"url": "http://localhost/mcp", "tools": pinned(tools)}}}),
    )
    .expect("a toolset")
}

pub(crate) fn pinned(mut tools: Map<String, Value>) -> Map<String, Value> {
    let policy = serde_json::to_value(Policy::default()).expect("writable");
    for tool in tools.values_mut() {
        tool.as_object_mut().expect("a tool").insert("policy".into(), policy.clone());
    }
    tools
}
