//! The client commands against a real HTTP server: what they ask, print and exit with.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use support::{Api, KEY, Reply, json as reply, rewind, rewind_at};

const TOOLSET: &str = "ts_0000000000000000000000000000000000000000000000000000000000000001";
const RUN: &str = "run_00000000000000000000000000000001";

fn run(status: &str, more: Value) -> Value {
    let mut run = json!({
        "id": RUN, "status": status, "toolset": TOOLSET, "script": "0".repeat(64), "labels": {"team": "a"},
        "warnings": [], "calls": {"made": 3, "outstanding": 1}, "parked": 0, "created_at": "2026-01-02T03:04:05Z",
    });
    run.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    run
}

fn problem(status: u16, slug: &str, title: &str, more: Value) -> Reply {
    let mut body = json!({"type": format!("/problems/{slug}"), "title": title, "status": status});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    (status, "application/problem+json", body.to_string())
}

fn script() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("script.ts");
    fs::write(&path, "export default async function main() {}").unwrap();
    let path = path.to_str().unwrap().to_owned();
    (dir, path)
}

#[tokio::test]
async fn a_started_run_prints_its_id_alone_and_sends_what_was_said() {
    let api = Api::start(|_| reply(201, run("queued", json!({})).to_string())).await;
    let (_dir, script) = script();
    let args = ["run", "start", "--toolset", TOOLSET, &script, "--input", r#"{"n":12345678901234567890123}"#];
    let more = ["--namespace", "ada", "--label", "team=a", "--label", "x=y=z", "--idempotency-key", "k1"];
    let done = rewind(&api.url, &[&args[..], &more[..]].concat()).await;
    assert_eq!((done.code, done.stdout), (0, format!("{RUN}\n")), "{}", done.stderr);
    let request = &api.requests()[0];
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/v1/runs"));
    assert_eq!(request.authorization.as_deref(), Some(&*format!("Bearer {KEY}")));
    assert!(request.body.contains("12345678901234567890123"), "no number is rounded: {}", request.body);
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(body["labels"], json!({"team": "a", "x": "y=z"}));
    assert_eq!((&body["namespace"], &body["idempotency_key"]), (&json!("ada"), &json!("k1")));
}

#[tokio::test]
async fn waiting_prints_the_result_as_the_script_returned_it() {
    let polls = AtomicUsize::new(0);
    let api = Api::start(move |request| match (request.method.as_str(), polls.load(Ordering::SeqCst)) {
        ("POST", _) => reply(201, run("queued", json!({})).to_string()),
        (_, 0) => {
            polls.fetch_add(1, Ordering::SeqCst);
            reply(200, run("running", json!({})).to_string())
        }
        _ => {
            let done = run("completed", json!({"result": "R"})).to_string();
            reply(200, done.replace("\"R\"", "{\"n\": 12345678901234567890123}"))
        }
    })
    .await;
    let (_dir, script) = script();
    let done = rewind(&api.url, &["run", "start", "--toolset", TOOLSET, &script, "--wait"]).await;
    assert_eq!((done.code, done.stdout.as_str()), (0, "{\"n\": 12345678901234567890123}\n"));
    assert_eq!(done.stderr, "", "no progress where no terminal is");
    assert_eq!(api.requests()[1].target, format!("/v1/runs/{RUN}?wait=5s"));
}

#[tokio::test]
async fn who_waits_is_told_once_of_each_call_that_waits_for_a_decision() {
    let polls = AtomicUsize::new(0);
    let api = Api::start(move |request| {
        if request.method == "POST" {
            return reply(201, run("queued", json!({})).to_string());
        }
        if request.target.starts_with("/v1/parked") {
            let call = json!({"run": RUN, "seq": 2, "key": format!("{RUN}/2"), "tool": "host.refund", "arguments": {"text": "{}", "bytes": 2, "sha256": "0".repeat(64)}, "reason": "approval", "since": "2026-01-02T03:04:05Z"});
            return reply(200, json!({"items": [call]}).to_string());
        }
        match polls.fetch_add(1, Ordering::SeqCst) {
            0..3 => reply(200, run("waiting", json!({"parked": 1})).to_string()),
            _ => reply(200, run("completed", json!({"result": 1})).to_string()),
        }
    })
    .await;
    let (_dir, script) = script();
    let done = rewind(&api.url, &["run", "start", "--toolset", TOOLSET, &script, "--wait"]).await;
    let told = format!("waiting for a decision: rewind parked approve {RUN}/2 (host.refund, approval)\n");
    assert_eq!((done.code, done.stdout.as_str(), done.stderr), (0, "1\n", told));
    let asked = api.requests().into_iter().find(|request| request.target.starts_with("/v1/parked")).unwrap();
    assert_eq!(asked.target, format!("/v1/parked?run={RUN}"));
}

#[tokio::test]
async fn without_a_key_the_answer_says_how_to_give_one() {
    let api = Api::start(|_| problem(401, "unauthorized", "The API key is missing or wrong", json!({}))).await;
    let sent = rewind(&api.url, &["run", "list"]).await;
    assert!(sent.code == 3 && sent.stderr.contains("--key or REWIND_KEY"), "{}", sent.stderr);
    let mut command = rewind_at(env!("CARGO_BIN_EXE_rewind").as_ref());
    let output = command.args(["run", "list", "--api", &api.url]).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("(unauthorized, 401)\nno key was sent") && said.contains("dev.json is not used"), "{said}");
}

#[tokio::test]
async fn a_failed_run_exits_with_1_and_its_error_is_on_stderr() {
    let error = json!({"code": "tool_failed", "message": "ToolError: no such \u{1b}[31mrepo", "tool": "github.get", "key": format!("{RUN}/2"), "stack": "at main (script.ts:3:5)"});
    let api = Api::start(move |request| match request.method.as_str() {
        "POST" => reply(201, run("queued", json!({})).to_string()),
        _ => reply(200, run("failed", json!({"error": error})).to_string()),
    })
    .await;
    let (_dir, script) = script();
    let done = rewind(&api.url, &["run", "start", "--toolset", TOOLSET, &script, "--wait"]).await;
    assert_eq!((done.code, done.stdout.as_str()), (1, ""));
    for part in ["tool_failed: no such", "github.get", &format!("{RUN}/2"), "script.ts:3:5", "\\u{1b}"] {
        assert!(done.stderr.contains(part), "{part} in {}", done.stderr);
    }
    assert!(!done.stderr.contains('\u{1b}'));

    let watched = rewind(&api.url, &["run", "watch", RUN, "--json"]).await;
    assert_eq!(watched.code, 1);
    assert_eq!(serde_json::from_str::<Value>(&watched.stdout).unwrap()["status"], "failed");
    let cancelled = Api::start(|_| reply(200, run("cancelled", json!({})).to_string())).await;
    assert_eq!(rewind(&cancelled.url, &["run", "watch", RUN, "--json"]).await.code, 1);
}

#[tokio::test]
async fn a_wrong_command_line_exits_with_2_and_asks_nothing() {
    let api = Api::start(|_| reply(200, "{}")).await;
    for args in [
        &["run", "get", "run_7"][..],
        &["run", "start", "--toolset", TOOLSET, "/nowhere/script.ts"],
        &["run", "start", "--toolset", TOOLSET, "/dev/null", "--input", "{"],
        &["run", "start", "--toolset", TOOLSET, "/dev/null", "--label", "a=1", "--label", "a=2"],
        &["run", "list", "--status", "dead"],
        &["toolset", "register", "/dev/null"],
        &["no-such-command"],
    ] {
        let done = rewind(&api.url, args).await;
        assert_eq!(done.code, 2, "{args:?}: {}", done.stderr);
        assert!(!done.stderr.is_empty() && !done.stderr.contains(KEY), "{}", done.stderr);
    }
    assert_eq!(api.requests().len(), 0);
}

#[tokio::test]
async fn a_problem_is_printed_with_its_diagnostics_and_exits_with_3() {
    let diagnostic = json!({"file": "script.ts", "line": 4, "column": 9, "code": "TS2339", "message": "Property 'creat_issue' does not exist.", "hint": "did you mean create_issue?"});
    let api = Api::start(move |_| {
        let more =
            json!({"detail": "1 error; nothing was started", "diagnostics": [diagnostic], "warnings": [diagnostic]});
        problem(422, "script-rejected", "The script does not type-check", more)
    })
    .await;
    let (_dir, script) = script();
    let done = rewind(&api.url, &["run", "start", "--toolset", TOOLSET, &script]).await;
    assert_eq!(done.code, 3);
    let expected = format!(
        "error: The script does not type-check (script-rejected, 422)\n\
        {script}:4:9 TS2339 Property 'creat_issue' does not exist.\n    hint: did you mean create_issue?\n\
        warning: {script}:4:9 TS2339 Property 'creat_issue' does not exist.\n    hint: did you mean create_issue?\n"
    );
    assert_eq!(done.stderr, expected);
    let forked = rewind(&api.url, &["run", "fork", RUN, "--script", &script]).await;
    assert_eq!((forked.code, forked.stderr), (3, expected));
}

#[tokio::test]
async fn a_server_that_is_not_there_exits_with_4() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let done = rewind(&format!("http://{closed}"), &["run", "list"]).await;
    assert_eq!(done.code, 4, "{}", done.stderr);
    assert!(done.stderr.contains("cannot be reached") && !done.stderr.contains(KEY), "{}", done.stderr);

    let other = Api::start(|_| (502, "text/html", "<h1>Bad gateway</h1>".into())).await;
    assert_eq!(rewind(&other.url, &["run", "list"]).await.code, 4, "what answers is no API of Rewind");

    let dir = tempfile::tempdir().unwrap();
    let mut command = rewind_at(env!("CARGO_BIN_EXE_rewind").as_ref());
    let output = command.current_dir(dir.path()).args(["run", "list"]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("rewind dev"));
}

#[tokio::test]
async fn no_proxy_of_the_environment_is_used() {
    let api = Api::start(|_| reply(200, json!({"items": []}).to_string())).await;
    let mut command = rewind_at(env!("CARGO_BIN_EXE_rewind").as_ref());
    command
        .args(["run", "list", "--api", &api.url])
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("http_proxy", "http://127.0.0.1:1");
    assert_eq!(command.output().await.unwrap().status.code(), Some(0));
    assert_eq!(api.requests().len(), 1);
}

/// Three runs on two pages.
async fn list_api() -> Api {
    Api::start(|request| {
        let item = |n: u32| {
            let mut run = run(if n == 2 { "failed" } else { "completed" }, json!({"ended_at": "2026-01-02T03:04:06Z"}));
            run["id"] = format!("run_{n:032x}").into();
            run
        };
        if request.target.contains("cursor=c1") {
            reply(200, json!({"items": [item(3)]}).to_string())
        } else {
            reply(200, json!({"items": [item(1), item(2)], "next_cursor": "c1"}).to_string())
        }
    })
    .await
}

#[tokio::test]
async fn a_list_follows_cursors_and_is_an_aligned_table_with_whole_ids() {
    let api = list_api().await;
    let done = rewind(&api.url, &["run", "list", "--label", "team=a", "--label", "b=c", "--toolset", TOOLSET]).await;
    let lines: Vec<_> = done.stdout.lines().collect();
    assert_eq!((done.code, lines.len()), (0, 4), "{}{}", done.stdout, done.stderr);
    assert!(
        lines[2].starts_with("run_00000000000000000000000000000002  failed         3  2026-01-02T03:04:05.000Z"),
        "{}",
        lines[2]
    );
    let column = lines[0].find("CREATED").unwrap();
    assert!(lines[1..].iter().all(|line| line[column..].starts_with("2026-01-02")), "{}", done.stdout);
    let targets: Vec<_> = api.requests().into_iter().map(|request| request.target).collect();
    let filters = format!("/v1/runs?toolset={TOOLSET}&label=team%3Da&label=b%3Dc");
    assert_eq!(targets, [filters.clone(), format!("{filters}&cursor=c1")]);
}

#[tokio::test]
async fn a_list_stops_at_its_limit_and_says_that_there_is_more() {
    let api = list_api().await;
    let done = rewind(&api.url, &["run", "list", "--limit", "1", "--json"]).await;
    let page: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(page["items"].as_array().map(Vec::len), Some(1));
    assert!(done.stderr.contains("--limit"), "{}", done.stderr);
    assert_eq!(api.requests().len(), 1);
    let all: Value = serde_json::from_str(&rewind(&api.url, &["run", "list", "--json"]).await.stdout).unwrap();
    assert_eq!(all["items"].as_array().map(Vec::len), Some(3));
}

fn journal() -> Value {
    let excerpt = json!({"text": "{}", "bytes": 2, "sha256": "0".repeat(64)});
    let call = |seq: u32, tool: &str, status: &str| {
        json!({"seq": seq, "tool": tool, "key": format!("{RUN}/{seq}"), "status": status, "attempts": seq,
            "called_at": "2026-01-02T03:04:05Z", "ms": 12 * seq, "arguments": excerpt})
    };
    json!({
        "items": [call(1, "github.create_issue", "ok"), call(2, "sleep", "timeout")],
        "logs": [{"level": "info", "text": "hello\u{1b}[2J", "at": "2026-01-02T03:04:05Z"}],
        "adoptions": [], "appends": 3,
    })
}

#[tokio::test]
async fn a_journal_is_a_table_of_calls_and_then_the_console() {
    let api = Api::start(|_| reply(200, journal().to_string())).await;
    let done = rewind(&api.url, &["run", "journal", RUN]).await;
    let key = |seq: u32| format!("{RUN}/{seq}");
    let expected = format!(
        "SEQ  TOOL                 ATTEMPTS  KEY{blanks}STATUS   MS  ERROR\n  \
         1  github.create_issue         1  {}  ok       12\n  \
         2  sleep                       2  {}  timeout  24\n\n\
         2026-01-02T03:04:05.000Z info  hello\\u{{1b}}[2J\n",
        key(1),
        key(2),
        blanks = " ".repeat(key(1).len() - 1),
    );
    assert_eq!(done.stdout, expected);
    let json = rewind(&api.url, &["run", "journal", RUN, "--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&json.stdout).unwrap()["appends"], 3);
}

#[tokio::test]
async fn a_journal_tells_what_was_decided_who_had_the_run_and_what_was_taken_over() {
    let mut journal = journal();
    let at = "2026-01-02T03:04:05Z";
    let fork = format!("run_{}2", "0".repeat(31));
    journal["forked_from"] = json!(fork);
    journal["diverged"] = json!({"seq": 2, "now": "sleep"});
    journal["items"][0]["recorded"] = json!(true);
    journal["items"][1]["events"] = json!([{"at": at, "event": "retried"}, {"at": at, "event": "approved", "detail": "ada"}, {"at": at, "event": "parked", "detail": "the tool is gone"}]);
    let adoption = |epoch: u32| json!({"node": format!("node_{epoch}"), "epoch": epoch, "at": at});
    journal["adoptions"] = json!([adoption(1), adoption(2)]);
    journal["logs"] = json!([]);
    let api = Api::start(move |_| reply(200, journal.to_string())).await;
    let done = rewind(&api.url, &["run", "journal", RUN]).await;
    let (table, rest) = done.stdout.split_once("\n\n").unwrap();
    assert!(table.contains("github.create_issue  taken over  run_"), "{table}");
    let at = "2026-01-02T03:04:05.000Z";
    let expected = format!(
        "{at} call 2 (sleep) parked: its policy asks for an approval\n{at} call 2 (sleep) approved by ada\n\
         {at} call 2 (sleep) parked: the tool is gone\n\nparts from {fork} at call 2: sleep, there absent\n\n\
         {at} started on node_1 (epoch 1)\n{at} node_2 took the run over (epoch 2)\n"
    );
    assert_eq!(rest, expected);
}

#[tokio::test]
async fn watching_prints_each_change_once_and_console_lines_until_the_end() {
    let polls = AtomicUsize::new(0);
    let api = Api::start(move |request| {
        if request.target.ends_with("/journal") {
            return reply(200, journal().to_string());
        }
        let run = match polls.fetch_add(1, Ordering::SeqCst) {
            0 => run("queued", json!({"calls": {"made": 0, "outstanding": 0}})),
            // The coordinator restarts: the run goes on, and so does whoever watches it.
            1 => return problem(503, "store-unavailable", "NATS does not answer", json!({})),
            2 | 3 => run("waiting", json!({"parked": 1})),
            _ => run("completed", json!({"result": [1]})),
        };
        reply(200, run.to_string())
    })
    .await;
    let done = rewind(&api.url, &["run", "watch", RUN]).await;
    let expected = "2026-01-02T03:04:05.000Z info  hello\\u{1b}[2J\nqueued: 0 calls made\n\
        waiting: 3 calls made, 1 outstanding, 1 parked (waiting for a decision)\n\
        completed: 3 calls made, 1 outstanding\ncompleted [1]\n";
    assert_eq!((done.code, done.stdout.as_str()), (0, expected), "{}", done.stderr);
}

#[tokio::test]
async fn toolset_commands_print_what_the_api_says() {
    let policy = json!({"delivery": "at_least_once", "timeout": "60s", "retry": {"max_attempts": 5, "initial_interval": "200ms", "max_interval": "30s", "backoff": 2.0}});
    let canonical = json!({"v": 1, "mcp_servers": {"docs": {"url": "http://docs/mcp", "tools": {"find": {"description": "Finds a page.\nMore.", "input_schema": {}, "policy": policy}}}}}).to_string();
    let document = canonical.clone();
    let api =
        Api::start(move |request| match request.target.split_once(TOOLSET).map_or("register", |(_, rest)| rest) {
            "register" => reply(
                201,
                json!({"id": TOOLSET, "tools": {"docs": 1}, "warnings": [{"tool": "docs.bad", "reason": "too deep"}]})
                    .to_string(),
            ),
            "/check" => {
                let warning = json!({"file": "script.ts", "line": 1, "column": 2, "code": "RW1", "message": "unsure"});
                reply(200, json!({"ok": false, "diagnostics": [warning], "warnings": [warning]}).to_string())
            }
            declarations if declarations.starts_with("/declarations") => {
                (200, "text/plain", format!("{declarations}\n"))
            }
            canonical if canonical.contains("canonical") => reply(200, document.clone()),
            _ => {
                let pinned: Value = serde_json::from_str(&document).unwrap();
                reply(200, json!({"id": TOOLSET, "toolset": pinned, "tools": {"docs": 1}, "warnings": [], "observed": {"docs.find": 7}, "base": TOOLSET}).to_string())
            }
        })
        .await;
    let (dir, script) = script();
    let file = dir.path().join("toolset.json");
    fs::write(&file, r#"{"mcp_servers":{"docs":{"url":"http://docs/mcp"}}}"#).unwrap();

    let registered = rewind(&api.url, &["toolset", "register", file.to_str().unwrap()]).await;
    assert_eq!((registered.code, registered.stdout), (0, format!("{TOOLSET}\n")));
    assert_eq!(registered.stderr, "docs: 1 tool\nwarning: docs.bad: too deep\n");
    assert_eq!(api.requests()[0].body, fs::read_to_string(&file).unwrap());

    let bytes = rewind(&api.url, &["toolset", "show", TOOLSET, "--canonical"]).await;
    assert_eq!(bytes.stdout, canonical, "exactly these bytes, without a newline");
    let shown = rewind(&api.url, &["toolset", "show", TOOLSET]).await;
    assert!(
        shown.stdout.contains("docs.find  observed 7          Finds a page.\n")
            && shown.stdout.contains("derived from ts_0"),
        "{}",
        shown.stdout
    );

    let full = rewind(&api.url, &["toolset", "declarations", TOOLSET, "--rendering", "full"]).await;
    assert_eq!(full.stdout, "/declarations?rendering=full\n");

    let checked = rewind(&api.url, &["toolset", "check", TOOLSET, &script]).await;
    assert_eq!(
        (checked.code, checked.stdout.as_str()),
        (1, &*format!("{script}:1:2 RW1 unsure\nwarning: {script}:1:2 RW1 unsure\n"))
    );
}

#[tokio::test]
async fn a_run_is_shown_and_json_is_the_apis_own_text() {
    let more = json!({"result": "R", "forked_from": RUN, "parent": format!("{RUN}/7")});
    let body = run("completed", more).to_string().replace("\"R\"", "1.000000000000000000001");
    let same = body.clone();
    let api = Api::start(move |_| reply(200, same.clone())).await;
    let json = rewind(&api.url, &["run", "get", RUN, "--json"]).await;
    assert_eq!((json.code, json.stdout), (0, format!("{body}\n")));
    let text = rewind(&api.url, &["run", "get", RUN, "--wait", "2s"]).await;
    assert!(text.stdout.contains("result     1.000000000000000000001\n"), "{}", text.stdout);
    for line in [format!("id         {RUN}"), format!("forked from {RUN}"), format!("parent     {RUN}/7")] {
        assert!(text.stdout.lines().any(|found| found == line), "{line} in {}", text.stdout);
    }
    assert_eq!(api.requests().len(), 2, "an ended run is not asked for again");
}

#[tokio::test]
async fn parked_calls_are_listed_and_decided_and_runs_cancelled() {
    let key = format!("{RUN}/3");
    let call = json!({"run": RUN, "seq": 3, "key": key, "tool": "bank.pay", "arguments": {"text": "{\"cents\":5}", "bytes": 11, "sha256": "0".repeat(64)}, "reason": "approval", "namespace": "ada", "detail": "why:\nof\u{1b} the policy", "since": "2026-01-02T03:04:05Z"});
    let made = json!({"key": key, "approved": true, "by": "ada", "at": "2026-01-02T03:04:06Z"});
    let api = Api::start(move |request| match request.target.as_str() {
        "/v1/parked" => reply(200, json!({"items": [call], "next_cursor": "c"}).to_string()),
        "/v1/parked?cursor=c" => reply(200, json!({"items": []}).to_string()),
        target if target.ends_with("/cancel") => reply(200, run("cancelled", json!({})).to_string()),
        target if target.ends_with("/approve") => reply(200, made.to_string()),
        _ => {
            problem(409, "already-decided", "Somebody else was first", json!({"detail": "call x was approved by ada"}))
        }
    })
    .await;
    let listed = rewind(&api.url, &["parked", "list"]).await;
    assert!(listed.stdout.contains(&format!("{key}  bank.pay  approval")), "{}", listed.stdout);
    assert!(listed.stdout.contains(r#"{"cents":5}"#), "{}", listed.stdout);
    let below = listed.stdout.split_once("{\"cents\":5}\n").unwrap().1;
    assert_eq!(below, "    namespace: ada\n    why:\n    of\\u{1b} the policy\n");
    let approved = rewind(&api.url, &["parked", "approve", &key, "--by", "ada"]).await;
    assert_eq!(approved.stdout, format!("{key}: approved by ada at 2026-01-02T03:04:06.000Z\n"));
    let sent = api.requests().into_iter().find(|request| request.target.ends_with("/approve")).unwrap();
    assert_eq!((sent.target, sent.body), (format!("/v1/runs/{RUN}/calls/3/approve"), r#"{"by":"ada"}"#.to_owned()));
    let rejected = rewind(&api.url, &["parked", "reject", &key, "--message", "no"]).await;
    assert!(rejected.code == 3 && rejected.stderr.contains("approved by ada"), "{}", rejected.stderr);
    assert_eq!(rewind(&api.url, &["parked", "approve", "nonsense"]).await.code, 2);
    assert_eq!(rewind(&api.url, &["run", "cancel", RUN]).await.stdout, "cancelled\n");
}
