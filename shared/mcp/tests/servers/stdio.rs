//! Servers as processes of the client's own.

use std::{
    collections::BTreeMap,
    path::Path,
    time::{Duration, Instant},
};

use futures::future::join_all;
use rewind_mcp::{Call, CallResult, Client, Endpoint, Era, ListLimits, Listing, McpError, Unwrapped, unwrap};
use rewind_model::Json;
use serde_json::{Value, json};

use crate::peer;

/// A client of `tests/peers/pipes.py`, and what that has noted.
struct Pipes {
    client: Client,
    diary: tempfile::NamedTempFile,
}

impl Pipes {
    fn new(options: &[&str]) -> Self {
        let diary = tempfile::NamedTempFile::new().expect("a temporary file");
        let path = diary.path().to_str().expect("UTF-8");
        let args = [&["--diary", path], options].concat();
        Self { client: python("pipes.py", &args, BTreeMap::new()), diary }
    }

    fn noted(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.diary.path()).expect("readable");
        // The last line may be half written.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn starts(&self) -> usize {
        self.noted().iter().filter(|entry| entry["start"].is_number()).count()
    }

    /// The methods of the messages that came, of all processes.
    fn methods(&self) -> Vec<String> {
        let all = self.noted().into_iter().filter(|entry| entry["message"].is_object());
        all.map(|entry| entry["message"]["method"].as_str().unwrap_or("(answer)").to_owned()).collect()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<CallResult, McpError> {
        self.client.call(Call::new(tool, &Json::from(arguments), "run_1/7")).await
    }

    async fn pid(&self) -> u32 {
        let echoed = value(&self.call("echo", json!({})).await.expect("called"));
        u32::try_from(echoed["pid"].as_u64().expect("a pid")).expect("small")
    }

    async fn list(&self) -> Result<Listing, McpError> {
        self.client.list_tools(ListLimits::default()).await
    }
}

fn python(script: &str, args: &[&str], env: BTreeMap<String, String>) -> Client {
    let (command, script) = peer::python_script(script);
    let args = std::iter::once(script).chain(args.iter().map(|arg| (*arg).to_owned())).collect();
    Client::new(&Endpoint::Stdio { command, args, env }).expect("a valid endpoint")
}

fn value(result: &CallResult) -> Value {
    match unwrap(result) {
        Unwrapped::Value(json) => json.to().expect("JSON"),
        Unwrapped::Failed(message) => panic!("the tool failed: {message}"),
    }
}

/// Whether there is a process of this id that is no zombie.
fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn until(what: &str, fact: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !fact() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn kill(pid: u32) {
    // SAFETY: no memory is involved; the pid is of a child of this process.
    unsafe { libc::kill(i32::try_from(pid).expect("a pid"), libc::SIGKILL) };
}

/// Kills it, and waits until its pipes are closed.
async fn kill_surely(pid: u32) {
    kill(pid);
    until("it is gone", || !alive(pid)).await;
}

#[tokio::test]
async fn the_era_of_sessions() {
    let script = peer::everything_script();
    let args = vec![script.to_str().expect("UTF-8").to_owned(), "stdio".to_owned()];
    let client = Client::new(&Endpoint::Stdio { command: "node".into(), args, env: BTreeMap::new() }).expect("valid");
    let listing = client.list_tools(ListLimits::default()).await.expect("listed");
    assert_eq!((listing.era, listing.protocol_version.as_str()), (Era::Session, "2025-11-25"));
    assert!(listing.tools.iter().any(|tool| tool.name == "echo"), "{:?}", listing.tools);
    let arguments = Json::from(json!({"message": "hi"}));
    let echo = client.call(Call::new("echo", &arguments, "k")).await.expect("called");
    assert_eq!(value(&echo), "Echo: hi");
    let long = Json::from(json!({"duration": 2, "steps": 4}));
    let call = Call {
        idle_timeout: Some(Duration::from_millis(1_500)),
        ..Call::new("trigger-long-running-operation", &long, "k")
    };
    assert!(!client.call(call).await.expect("progress keeps it alive").is_error());
    client.close().await;
}

#[tokio::test]
async fn the_stateless_era() {
    let effects = tempfile::NamedTempFile::new().expect("a temporary file");
    let path = effects.path().to_str().expect("UTF-8");
    let client = python("orders.py", &["--stdio", "--effects", path], BTreeMap::new());
    let listing = client.list_tools(ListLimits::default()).await.expect("listed");
    assert_eq!((listing.era, listing.protocol_version.as_str()), (Era::Stateless, "2026-07-28"));
    assert!(listing.instructions.expect("some").contains("cents"));
    let email = Json::from(json!({"to": "ada@example.com", "subject": "Hello", "body": "World"}));
    let keys: Vec<String> = (0..50).map(|number| format!("run_1/{number}")).collect();
    let sent = join_all(keys.iter().map(|key| client.call(Call::new("send_email", &email, key)))).await;
    let distinct: std::collections::BTreeSet<String> =
        sent.iter().map(|result| value(result.as_ref().expect("called")).to_string()).collect();
    assert_eq!(distinct.len(), 50, "each call has its own answer");
}

#[tokio::test]
async fn arguments_and_results_are_exact_and_the_environment_is_its_own() {
    // SAFETY: of this test's own; no other test reads it.
    unsafe { std::env::set_var("REWIND_SECRET_OF_THE_NODE", "s3cret") };
    let diary = tempfile::NamedTempFile::new().expect("a temporary file");
    let env = BTreeMap::from([("SHOP".to_owned(), "a b".to_owned())]);
    let client = python("pipes.py", &["--diary", diary.path().to_str().expect("UTF-8"), "a; b $HOME", "*"], env);
    // A line break between two tokens does not break the message in two.
    let arguments = Json::parse("{\"n\": 12345678901234567890123,\r\n \"x\": 1.00, \"s\": \"a\\nb\"}").expect("JSON");
    let result = client.call(Call::new("echo", &arguments, "run_1/7")).await.expect("called");
    assert_eq!(value(&result)["meta"]["codes.rewind/idempotency-key"], "run_1/7");
    assert!(result.structured_content().expect("structured").contains("12345678901234567890123"), "{result:?}");
    let noted = std::fs::read_to_string(diary.path()).expect("readable");
    assert!(noted.contains(r#"{\"n\": 12345678901234567890123,   \"x\": 1.00, \"s\": \"a\\nb\"}"#), "{noted}");

    let start: Value = serde_json::from_str(noted.lines().next().expect("a line")).expect("JSON");
    let environment = start["environment"].as_object().expect("an object");
    let names: Vec<&str> = environment.keys().map(String::as_str).filter(|name| *name != "LC_CTYPE").collect();
    assert_eq!(names, ["HOME", "PATH", "SHOP"]);
    assert_eq!((&start["arguments"], &environment["SHOP"]), (&json!(["a; b $HOME", "*"]), &json!("a b")));
}

#[tokio::test]
async fn it_is_started_by_the_first_use_once_for_all() {
    let pipes = Pipes::new(&[]);
    assert_eq!(pipes.starts(), 0);
    let clones: Vec<Client> = (0..20).map(|_| pipes.client.clone()).collect();
    let keys: Vec<String> = (0..20).map(|number| format!("run_1/{number}")).collect();
    let arguments = Json::from(json!({"count": 20}));
    let calls = clones.iter().zip(&keys).map(|(client, key)| client.call(Call::new("hold", &arguments, key)));
    // The answers come in another order than the calls.
    for (result, key) in join_all(calls).await.iter().zip(&keys) {
        assert_eq!(value(result.as_ref().expect("called")), json!({"key": key}));
    }
    assert_eq!(pipes.starts(), 1);
    assert_eq!(pipes.methods()[..3], ["server/discover", "initialize", "notifications/initialized"]);
}

#[tokio::test]
async fn every_answer_to_discover_that_is_none_leads_to_initialize() {
    // Starts, and starts after the process has died once more.
    for (discover, starts, more) in [("refuse", 1, 2), ("anonymous", 1, 2), ("odd", 2, 3), ("die", 2, 3)] {
        let pipes = Pipes::new(&["--discover", discover]);
        let listing = pipes.list().await.unwrap_or_else(|error| panic!("{discover}: {error}"));
        assert_eq!((listing.era, pipes.starts()), (Era::Session, starts), "{discover}");
        assert!(listing.tools.iter().any(|tool| tool.name == "echo"));
        kill_surely(pipes.pid().await).await;
        pipes.pid().await;
        assert_eq!(pipes.starts(), more, "{discover}: it is not asked what it does not understand again");
    }
}

#[tokio::test]
async fn one_that_never_answers_discover_is_asked_once() {
    let pipes = Pipes::new(&["--discover", "ignore"]);
    assert_eq!(pipes.list().await.expect("listed").era, Era::Session);
    kill_surely(pipes.pid().await).await;
    let started = Instant::now();
    pipes.pid().await;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(pipes.starts(), 2);
}

#[tokio::test]
async fn a_call_in_which_the_server_dies_is_interrupted_and_the_next_one_has_a_new_server() {
    let pipes = Pipes::new(&[]);
    let first = pipes.pid().await;
    let (hangs, dies) = tokio::join!(pipes.call("hang", json!({})), async {
        until("the other call is there", || pipes.methods().iter().filter(|m| *m == "tools/call").count() == 2).await;
        pipes.call("die_once", json!({})).await
    });
    for lost in [hangs.expect_err("no answer"), dies.expect_err("no answer")] {
        assert!(matches!(lost, McpError::Interrupted { .. }) && lost.may_have_been_sent(), "{lost}");
        assert!(lost.retryable() && lost.to_string().contains("exit status: 7"), "{lost}");
    }
    assert_eq!(pipes.starts(), 1, "nothing here sends it again");
    assert_eq!(value(&pipes.call("die_once", json!({})).await.expect("called")), json!({"attempts": 2}));
    assert_ne!(pipes.pid().await, first);
    assert_eq!(pipes.starts(), 2);
}

#[tokio::test]
async fn a_server_that_was_killed_while_idle_costs_no_attempt() {
    let pipes = Pipes::new(&[]);
    for _ in 0..4 {
        // The next call comes before anybody has been told of the end.
        kill_surely(pipes.pid().await).await;
    }
    kill(pipes.pid().await);
    // The call may have gone into the pipe of a process that was not quite dead.
    let answer = match pipes.call("echo", json!({})).await {
        Err(McpError::Interrupted { .. }) => pipes.call("echo", json!({})).await,
        answer => answer,
    };
    assert!(answer.is_ok(), "{answer:?}");
}

#[tokio::test]
async fn one_that_keeps_dying_is_started_ever_more_seldom_and_says_why() {
    let pipes = Pipes::new(&["--dies"]);
    let error = pipes.list().await.expect_err("no server");
    assert!(matches!(error, McpError::Unreachable { .. }) && !error.may_have_been_sent(), "{error}");
    assert!(error.to_string().contains("exit status: 3") && error.to_string().contains("no such module"), "{error}");
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        let arguments = Json::from(json!({}));
        let call = Call { timeout: Duration::from_secs(1), ..Call::new("echo", &arguments, "k") };
        let error = pipes.client.call(call).await.expect_err("no server");
        assert!(!error.may_have_been_sent(), "{error}");
    }
    assert!((3..9).contains(&pipes.starts()), "{} starts", pipes.starts());
}

#[tokio::test]
async fn what_is_no_server_is_told() {
    let endpoint = |command: &str, args: &[&str]| Endpoint::Stdio {
        command: command.into(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: BTreeMap::from([("TOKEN".into(), "s3cret".into())]),
    };
    let list = async |command: &str, args: &[&str]| {
        let client = Client::new(&endpoint(command, args)).expect("valid");
        client.list_tools(ListLimits::default()).await.expect_err("no server").to_string()
    };
    let missing = list("/no/such/program", &["s3cret"]).await;
    assert!(missing.contains("stdio:/no/such/program") && missing.contains("No such file"), "{missing}");
    assert!(!missing.contains("s3cret"), "{missing}");
    let greets = list("echo", &["hello"]).await;
    assert!(greets.contains("it wrote: hello") && greets.contains("exit status: 0"), "{greets}");
    let fails = list("ls", &["/no/such/folder"]).await;
    assert!(fails.contains("/no/such/folder"), "{fails}");
    assert!(matches!(Client::new(&endpoint("", &[])), Err(McpError::InvalidEndpoint { .. })));
    assert!(matches!(Client::new(&endpoint("a\0", &[])), Err(McpError::InvalidEndpoint { .. })));
}

#[tokio::test]
async fn garbage_between_the_messages_does_no_harm() {
    let pipes = Pipes::new(&["--greets"]);
    assert_eq!(value(&pipes.call("garbage", json!({})).await.expect("called")), "done");
    assert_eq!(value(&pipes.call("flood", json!({"lines": 100_000})).await.expect("called")), "flooded");
    assert_eq!(pipes.starts(), 1);
    // The server's own request was answered, by its own id.
    until("an answer", || pipes.methods().iter().any(|method| method == "(answer)")).await;
    for text in [
        r#"{"jsonrpc":"2.0","id":ID}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":[]}"#,
        r#"{"jsonrpc":"2.0","result":{"content":[],"structuredContent":{"n":NaN}},"id":ID}"#,
    ] {
        let error = pipes.call("raw", json!({"text": text})).await.expect_err("no result");
        assert!(matches!(error, McpError::Interrupted { .. }), "{error}");
    }
    let text = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#;
    let error = pipes.call("raw", json!({"text": text})).await.expect_err("refused");
    assert!(matches!(error, McpError::Protocol { code: -32700, .. }), "{error}");
    let text = r#"{"jsonrpc":"2.0","id":"ID","result":{"content":[],"structuredContent":{"n":1e400}}}"#;
    let result = pipes.call("raw", json!({"text": text})).await.expect("an id may come back as a string");
    assert_eq!(result.structured_content(), Some(r#"{"n":1e400}"#));
}

/// MiB that this process has in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("there");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") >> 10
}

#[tokio::test]
async fn a_result_over_the_limit_fails_its_call_alone_and_fills_no_memory() {
    let pipes = Pipes::new(&[]);
    pipes.pid().await;
    let before = resident();
    let arguments = Json::from(json!({"bytes": 100_000_000}));
    let hanging = Json::from(json!({}));
    let hang = Call { timeout: Duration::from_secs(5), ..Call::new("hang", &hanging, "k") };
    let (hang, big) = tokio::join!(pipes.client.call(hang), pipes.client.call(Call::new("big", &arguments, "k")));
    assert!(matches!(big, Err(McpError::TooLarge { .. })), "{big:?}");
    assert!(matches!(hang, Err(McpError::Timeout { sent: true, .. })), "{hang:?}");
    assert!(resident() < before + 60, "{} MiB, {before} before", resident());
    let small = Json::from(json!({"bytes": 100_000}));
    let call = Call { max_result_bytes: 10_000, ..Call::new("big", &small, "k") };
    let error = pipes.client.call(call).await.expect_err("over it");
    assert!(matches!(error, McpError::TooLarge { limit: 10_000, .. }), "{error}");
    pipes.call("big", json!({"bytes": 100_000})).await.expect("under the limit");
    assert_eq!(pipes.starts(), 1);

    let error = pipes.call("endless", json!({})).await.expect_err("no answer");
    assert!(matches!(error, McpError::Interrupted { .. }) && error.to_string().contains("without end"), "{error}");
    assert!(resident() < before + 60, "{} MiB, {before} before", resident());
    pipes.call("echo", json!({})).await.expect("a new server");
}

#[tokio::test]
async fn timeouts_end_a_call_and_cancel_it_at_the_server() {
    let pipes = Pipes::new(&[]);
    let arguments = Json::from(json!({}));
    let total = Call { timeout: Duration::from_millis(700), ..Call::new("hang", &arguments, "k") };
    pipes.pid().await;
    let error = pipes.client.call(total).await.expect_err("no answer");
    assert!(matches!(error, McpError::Timeout { sent: true, .. }), "{error}");
    until("it is cancelled", || pipes.methods().iter().any(|method| method == "notifications/cancelled")).await;
    let slow = Json::from(json!({"steps": 6, "step_ms": 100}));
    let alive = Call { idle_timeout: Some(Duration::from_millis(400)), ..Call::new("slow", &slow, "k") };
    assert_eq!(value(&pipes.client.call(alive).await.expect("progress breaks the silence")), "done");
    let idle = Call { idle_timeout: Some(Duration::from_millis(200)), ..Call::new("hang", &arguments, "k") };
    assert!(matches!(pipes.client.call(idle).await, Err(McpError::Timeout { .. })));
}

#[tokio::test]
async fn a_call_that_a_server_never_read_was_not_sent_and_never_is() {
    let pipes = Pipes::new(&[]);
    let arguments = Json::from(json!({}));
    let deaf = Call { timeout: Duration::from_secs(1), ..Call::new("deaf", &arguments, "k") };
    let large = Json::from(json!({"filling": "x".repeat(1 << 20)}));
    let fill = Call { timeout: Duration::from_secs(2), ..Call::new("echo", &large, "fill") };
    let late = Call { timeout: Duration::from_secs(2), ..Call::new("echo", &arguments, "late") };
    pipes.pid().await;
    assert!(pipes.client.call(deaf).await.is_err());
    let (fill, late) = tokio::join!(biased; pipes.client.call(fill), pipes.client.call(late));
    assert!(matches!(fill, Err(McpError::Timeout { sent: true, .. })), "half of it is in the pipe: {fill:?}");
    assert!(matches!(late, Err(McpError::Timeout { sent: false, .. })), "{late:?}");
    // Only so much waits for a server that does not read.
    let quick = |key| Call { timeout: Duration::from_secs(20), ..Call::new("echo", &large, key) };
    let keys: Vec<String> = (0..80).map(|number| number.to_string()).collect();
    let mut calls: futures::stream::FuturesUnordered<_> =
        keys.iter().map(|key| pipes.client.call(quick(key))).collect();
    let refused = futures::StreamExt::next(&mut calls).await.expect("one").expect_err("too much waits");
    assert!(refused.to_string().contains("does not read") && !refused.may_have_been_sent(), "{refused}");
}

#[tokio::test]
async fn closing_ends_every_kind_of_server_and_all_that_it_started() {
    for (options, most) in [(&[][..], 1), (&["--stays"], 3), (&["--stays", "--ignore-sigterm"], 5)] {
        let pipes = Pipes::new(options);
        let pids = value(&pipes.call("grandchild", json!({})).await.expect("called"));
        let pids =
            [&pids["parent"], &pids["pid"]].map(|pid| u32::try_from(pid.as_u64().expect("a pid")).expect("small"));
        assert!(pids.iter().all(|pid| alive(*pid)));
        let started = Instant::now();
        pipes.client.close().await;
        assert!(started.elapsed() < Duration::from_secs(most), "{options:?}: {:?}", started.elapsed());
        assert!(!alive(pids[0]), "{options:?}");
        until("the grandchild is gone", || !alive(pids[1])).await;
        let refused = pipes.call("echo", json!({})).await.expect_err("closed");
        assert!(matches!(refused, McpError::Unreachable { .. }), "{refused}");
        assert_eq!(pipes.starts(), 1);
    }
}

#[tokio::test]
async fn a_server_ends_with_its_client_or_with_the_one_who_waits_for_its_handshake() {
    let pipes = Pipes::new(&["--stays"]);
    let pid = pipes.pid().await;
    let Pipes { client, diary } = pipes;
    drop(client);
    until("it is gone", || !alive(pid)).await;
    drop(diary);

    let pipes = Pipes::new(&["--stays", "--discover", "ignore"]);
    let limits = ListLimits { timeout: Duration::from_secs(1), ..ListLimits::default() };
    let error = pipes.client.list_tools(limits).await.expect_err("no answer yet");
    assert!(matches!(error, McpError::Timeout { .. }), "{error}");
    let pid = pipes.noted()[0]["start"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a pid");
    until("it is gone", || !alive(pid)).await;
}

#[tokio::test]
async fn a_server_that_ends_leaves_nothing_behind_and_a_pipe_that_another_holds_does_not_matter() {
    let pipes = Pipes::new(&[]);
    let pids = value(&pipes.call("grandchild", json!({})).await.expect("called"));
    let grandchild = u32::try_from(pids["pid"].as_u64().expect("a pid")).expect("small");
    let error = pipes.call("die", json!({})).await.expect_err("no answer");
    assert!(matches!(error, McpError::Interrupted { .. }), "{error}");
    until("the grandchild is gone", || !alive(grandchild)).await;
}

/// The kernel's part: nothing of this process can do anything any more.
#[test]
fn a_server_does_not_outlive_a_client_that_is_killed() {
    const ROLE: &str = "REWIND_TEST_STDIO_VICTIM";
    if let Some(diary) = std::env::var_os(ROLE) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let path = Path::new(&diary).to_str().expect("UTF-8").to_owned();
        let client = python("pipes.py", &["--stays", "--diary", &path], BTreeMap::new());
        runtime.block_on(async {
            let arguments = Json::from(json!({}));
            // From a thread that ends at once: it must not take the server with it.
            let handle = tokio::runtime::Handle::current();
            let first = client.clone();
            std::thread::spawn(move || {
                handle.block_on(first.call(Call::new("echo", &Json::from(json!({})), "k"))).map(|_| ())
            })
            .join()
            .expect("no panic")
            .expect("called");
            tokio::time::sleep(Duration::from_millis(100)).await;
            client.call(Call::new("grandchild", &arguments, "k")).await.expect("called");
            std::future::pending::<()>().await;
        });
    }
    let diary = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut victim = std::process::Command::new(std::env::current_exe().expect("known"))
        .args(["--exact", "stdio::a_server_does_not_outlive_a_client_that_is_killed", "--nocapture"])
        .env(ROLE, diary.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("started");
    let noted = || std::fs::read_to_string(diary.path()).unwrap_or_default();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !noted().contains("\"grandchild\":") {
        assert!(Instant::now() < deadline, "{}", noted());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(noted().matches("\"start\"").count(), 1, "the server lived on when the thread had ended");
    let noted: Vec<Value> = noted().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let pid = |name: &str| noted.iter().find_map(|entry| entry[name].as_u64()?.try_into().ok()).expect("a pid");
    let processes = [pid("start"), pid("grandchild")];
    assert!(processes.iter().all(|pid| alive(*pid)));
    victim.kill().expect("it was alive");
    victim.wait().expect("it ended");
    while processes.iter().any(|pid| alive(*pid)) {
        assert!(Instant::now() < deadline, "the server or its child lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}
