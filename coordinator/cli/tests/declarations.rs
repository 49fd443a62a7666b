//! `rewind declarations`: no server, no configuration.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use serde_json::json;

fn declarations(arguments: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rewind"));
    command.arg("declarations").args(arguments).env_clear();
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let stdin = stdin.to_owned();
    let writer = std::thread::spawn(move || input.write_all(stdin.as_bytes()));
    let output = child.wait_with_output().unwrap();
    // A usage error is said before anything is read.
    let _ = writer.join();
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_list_becomes_a_module_and_what_cannot_be_used_is_said() {
    let tools = json!([
        {"name": "get-order", "description": "Reads an order.", "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
            "outputSchema": {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}, "title": null, "execution": {"x": 1}},
        {"name": "broken", "inputSchema": {"type": "objekt"}},
        {"name": "half"},
        7,
    ]);
    let output = declarations(&["--rendering", "full", "--name", "shop"], &tools.to_string());
    let module = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(module.starts_with("declare module \"rewind:tools\" {\n") && module.contains("export const shop: {"));
    assert!(module.contains("\"get-order\": Tool<") && module.contains("total: number") && !module.contains("broken"));
    let warnings = text(&output.stderr);
    for (tool, reason) in [("shop.broken", "objekt"), ("shop.half", "no inputSchema"), ("shop.(entry 3)", "object")] {
        let line = warnings.lines().find(|line| line.starts_with(&format!("warning: {tool}: ")));
        assert!(line.is_some_and(|line| line.contains(reason)), "{tool}: {warnings}");
    }
    let answer =
        declarations(&["--rendering", "full", "--name", "shop"], &format!("\u{feff}{}", json!({ "tools": tools })));
    assert_eq!(text(&answer.stdout), module, "what tools/list answers is taken as well");
    let compact = declarations(&["--name", "shop"], &tools.to_string());
    assert!(compact.stdout.len() < output.stdout.len());
}

#[test]
fn an_array_a_line_is_answered_by_a_string_a_line() {
    let line = |name: &str| json!([{"name": name, "inputSchema": {"type": "object"}}]).to_string();
    let deep = format!(
        r#"[{{"name":"deep","inputSchema":{}{}}},{{"name":"c","inputSchema":{{}}}}]"#,
        r#"{"not":"#.repeat(300),
        "1".to_owned() + &"}".repeat(300)
    );
    let output = declarations(&["--lines"], &format!("{}\n{}\n\n{deep}", line("a"), line("b")));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let modules: Vec<String> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("a JSON string")).collect();
    assert_eq!(modules.len(), 3);
    for (module, tool) in modules.iter().zip(["a", "b", "c"]) {
        let one = declarations(&[], &line(tool));
        assert_eq!(*module, text(&one.stdout), "{tool}");
    }
    assert!(text(&output.stderr).starts_with("warning: line 4: tools.deep: "), "{}", text(&output.stderr));
}

#[test]
fn wrong_input_is_a_usage_error_that_says_what_is_wrong() {
    for (arguments, stdin, said) in [
        (&[][..], "{}", "array"),
        (&[], "[", "array"),
        (&["--lines"], "[]\nnonsense\n", "line 2"),
        (&["--name", "host"], "[]", "host"),
        (&["--name", "a-b"], "[]", "a-b"),
        (&["/nowhere/at/all"], "", "/nowhere"),
    ] {
        let output = declarations(arguments, stdin);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
}
