//! `rewind dev` as a whole: the real executable and the real nats-server. The coordinator and the nodes are small
//! programs beside it that write down how they were started, and the tests answer for the coordinator.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    fs,
    io::Read as _,
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use support::{Api, json as reply, rewind_at};
use tokio::{process::Child, time::timeout};

const LONG: Duration = Duration::from_secs(30);

/// A folder with `rewind` and the programs that it starts, and the data folder of a `rewind dev`.
struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(home.dir.path().join("bin")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_rewind"), home.bin("rewind")).unwrap();
        home.program("tsc", "exit 0");
        // It tells the test where to listen, and notes the end so that the order can be seen.
        let wait = r#"trap 'echo "$0" >> ../stopped; exit 0' TERM; while :; do sleep 0.05; done"#;
        let tell = r#"echo "$REWIND_BOOTSTRAP_KEY $REWIND_NATS $*" > ../coordinator.new; mv ../coordinator.new ../coordinator"#;
        home.program("rewind-coordinator", &format!("cd \"$(dirname \"$0\")\"; {tell}; {wait}"));
        home.program(
            "rewind-node",
            &format!("cd \"$(dirname \"$0\")\"; echo \"$REWIND_NATS $*\" >> ../nodes; echo started; {wait}"),
        );
        home
    }

    fn bin(&self, name: &str) -> PathBuf {
        self.dir.path().join("bin").join(name)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn program(&self, name: &str, script: &str) {
        fs::write(self.bin(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.bin(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir.path().join(name)).ok()
    }

    fn dev_command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = rewind_at(&self.bin("rewind"));
        command.args(["dev", "--listen", "127.0.0.1:0", "--quiet", "--data"]).arg(self.data());
        command.arg("--tsc").arg(self.bin("tsc")).args(args);
        // For the tools of the checkout, which `rewind dev` looks for from the current folder upwards.
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        command.stderr(fs::File::create(self.dir.path().join("stderr")).unwrap());
        command
    }

    /// Starts it, answers for the coordinator with `nodes` nodes, and waits for `dev.json`.
    async fn start(&self, args: &[&str], nodes: u32) -> Dev {
        let _ = fs::remove_file(self.dir.path().join("coordinator"));
        let child = self.dev_command(args).spawn().unwrap();
        let told = until(|| self.text("coordinator")).await;
        let listen = told.split(" --listen ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
        let body = json!({"status": "ready", "nodes": nodes}).to_string();
        let api = Api::listen(&listen, move |_| reply(200, body.clone())).await;
        let state = until(|| self.state()).await;
        Dev { child, state, told, _api: api }
    }

    fn state(&self) -> Option<Value> {
        fs::read_to_string(self.data().join("dev.json")).ok().map(|text| serde_json::from_str(&text).unwrap())
    }
}

/// One that is ready.
struct Dev {
    child: Child,
    state: Value,
    /// The coordinator's bootstrap key and arguments.
    told: String,
    _api: Api,
}

impl Dev {
    fn signal(&self, signal: libc::c_int) {
        kill(self.child.id().unwrap(), signal);
    }

    async fn stop(mut self) {
        self.signal(libc::SIGTERM);
        let status = timeout(LONG, self.child.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(0));
    }

    fn pids(&self) -> Vec<u32> {
        let pids = &self.state["pids"];
        let nodes = pids["nodes"].as_array().unwrap().iter();
        nodes.chain([&pids["nats"], &pids["coordinator"]]).map(|pid| pid.as_u64().unwrap() as u32).collect()
    }
}

fn kill(pid: u32, signal: libc::c_int) {
    // SAFETY: kill has no memory effects.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0, "{pid} runs");
}

/// What `fact` says once it says something.
async fn until<T>(fact: impl Fn() -> Option<T>) -> T {
    let wait = async {
        loop {
            match fact() {
                Some(found) => return found,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    timeout(LONG, wait).await.expect("within the time of a test")
}

/// A process that its parent has yet to reap counts as gone.
fn gone(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// NATS's greeting.
fn greeting(nats: &str) -> String {
    let address = nats.split_once('@').unwrap().1;
    let mut text = vec![0; 512];
    let mut stream = TcpStream::connect(address).unwrap();
    let bytes = stream.read(&mut text).unwrap();
    String::from_utf8_lossy(&text[..bytes]).into_owned()
}

#[tokio::test]
async fn it_starts_everything_keeps_it_running_and_stops_it_in_order() {
    let home = Home::new();
    let dev = home.start(&["--nodes", "2", "--sync-always"], 2).await;

    // Ready: the state is complete and private, NATS is real, the parts were told what they need.
    let data = home.data();
    for private in ["dev.json", "dev-secrets.json", "nats-server.conf"] {
        assert_eq!(mode(&data.join(private)), 0o600, "{private}");
    }
    let nats = dev.state["nats"].as_str().unwrap().to_owned();
    let key = dev.state["key"].as_str().unwrap().to_owned();
    assert!(greeting(&nats).contains("\"jetstream\":true") && greeting(&nats).contains("\"auth_required\":true"));
    assert!(data.join("jetstream").is_dir());
    let listen = dev.state["api"].as_str().unwrap().trim_start_matches("http://").to_owned();
    let tsc = home.bin("tsc");
    assert_eq!(dev.told.trim(), format!("{key} {nats} --listen {listen} --tsc {}", tsc.display()));
    let nodes = until(|| home.text("nodes").filter(|text| text.lines().count() == 2)).await;
    let mut nodes: Vec<_> = nodes.lines().collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [format!("{nats} --name node-1"), format!("{nats} --name node-2")]);

    // A node and nats-server die: each comes back, where it was, and dev.json says so.
    let [first, _, nats_pid, _] = dev.pids()[..] else { panic!("four parts") };
    kill(first, libc::SIGKILL);
    until(|| home.state().filter(|state| state["pids"]["nodes"][0] != first)).await;
    kill(nats_pid, libc::SIGKILL);
    until(|| home.state().filter(|state| state["pids"]["nats"] != nats_pid)).await;
    until(|| TcpStream::connect(nats.split_once('@').unwrap().1).ok()).await;
    assert_eq!(home.state().unwrap()["nats"], *nats);

    // A second one on the same folder is refused.
    let refused = home.dev_command(&[]).stderr(std::process::Stdio::piped()).output().await.unwrap();
    assert_eq!(refused.status.code(), Some(5));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains(&format!("process {}", dev.child.id().unwrap())), "{said}");
    assert!(home.state().is_some(), "the refused one left the file alone");

    // Stopped: the nodes before the coordinator, nothing left, and the parts' output is in their logs.
    let state = home.state().unwrap();
    dev.stop().await;
    let stopped = home.text("stopped").unwrap();
    let order: Vec<_> = stopped.lines().map(|line| line.rsplit('/').next().unwrap()).collect();
    assert_eq!(order, ["rewind-node", "rewind-node", "rewind-coordinator"]);
    assert!(home.state().is_none());
    let pids = &state["pids"];
    for pid in [&pids["nats"], &pids["coordinator"], &pids["nodes"][0], &pids["nodes"][1]] {
        assert!(gone(pid.as_u64().unwrap() as u32), "{pids}");
    }
    assert!(fs::read_to_string(data.join("logs/node-1.log")).unwrap().starts_with("started\n"));
    assert!(!home.text("stderr").unwrap().contains(&key));
}

#[tokio::test]
async fn nothing_outlives_one_that_is_killed_and_the_next_is_found_by_the_same_key_and_url_of_nats() {
    let home = Home::new();
    let mut dev = home.start(&[], 1).await;
    let pids = dev.pids();
    dev.signal(libc::SIGKILL);
    dev.child.wait().await.unwrap();
    until(|| pids.iter().all(|pid| gone(*pid)).then_some(())).await;
    let [key, nats] = [&dev.state["key"], &dev.state["nats"]].map(Value::clone);
    drop(dev);

    let next = home.start(&[], 1).await;
    assert_eq!((&next.state["key"], &next.state["nats"]), (&key, &nats));
    assert!(next.pids().iter().all(|pid| !pids.contains(pid)));
    next.stop().await;

    // Another process took the port.
    let _taken = std::net::TcpListener::bind(nats.as_str().unwrap().split_once('@').unwrap().1).unwrap();
    let moved = home.start(&[], 1).await;
    assert_ne!(moved.state["nats"], nats);
    assert!(home.text("stderr").unwrap().contains("workers need the new URL"));
    moved.stop().await;
}

#[tokio::test]
async fn one_that_is_stopped_before_it_is_ready_leaves_nothing() {
    let home = Home::new();
    let mut child = home.dev_command(&[]).spawn().unwrap();
    until(|| home.text("coordinator")).await;
    kill(child.id().unwrap(), libc::SIGINT);
    assert_eq!(timeout(LONG, child.wait()).await.unwrap().unwrap().code(), Some(0));
    assert!(home.text("stopped").unwrap().contains("rewind-coordinator"));
    assert!(home.state().is_none());
}

#[tokio::test]
async fn a_second_signal_ends_it_without_waiting_for_a_node() {
    let home = Home::new();
    home.program("rewind-node", "trap '' TERM; while :; do sleep 0.05; done");
    let mut dev = home.start(&[], 1).await;
    let pids = dev.pids();
    dev.signal(libc::SIGINT);
    until(|| home.text("stderr").filter(|said| said.contains("stopping"))).await;
    dev.signal(libc::SIGINT);
    // Less than a node is given to stop.
    let status = timeout(Duration::from_secs(8), dev.child.wait()).await.unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
    until(|| pids.iter().all(|pid| gone(*pid)).then_some(())).await;
    assert!(home.state().is_none());
}

#[tokio::test]
async fn one_that_does_not_get_ready_says_what_is_missing() {
    let home = Home::new();
    let mut child = home.dev_command(&["--ready-timeout", "1s"]).spawn().unwrap();
    assert_eq!(timeout(LONG, child.wait()).await.unwrap().unwrap().code(), Some(5));
    let said = home.text("stderr").unwrap();
    assert!(said.contains("not ready after 1s: the coordinator at http://127.0.0.1:"), "{said}");
}

#[tokio::test]
async fn a_part_that_cannot_run_ends_it_with_the_reason() {
    let home = Home::new();
    home.program("rewind-node", "echo 'error: --name: no such option'; exit 2");
    let mut child = home.dev_command(&[]).spawn().unwrap();
    assert_eq!(timeout(LONG, child.wait()).await.unwrap().unwrap().code(), Some(5));
    let said = home.text("stderr").unwrap();
    let log = home.data().canonicalize().unwrap().join("logs/node-1.log");
    let expected = format!(
        "error: node-1 exited with code 2 before it was ready; {} ends with\n    error: --name: no such option\n",
        log.display()
    );
    assert!(said.ends_with(&expected), "{said}");
    assert!(home.state().is_none());
}

#[tokio::test]
async fn an_address_in_use_and_a_missing_program_are_refused_before_anything_starts() {
    let home = Home::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let run = async |listen: &str, more: [&str; 2]| {
        let mut command = rewind_at(&home.bin("rewind"));
        command.args(["dev", "--listen", listen, "--data"]).arg(home.data()).args(more);
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = command.output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let tsc = home.bin("tsc");
    let (code, said) = run(&address, ["--tsc", tsc.to_str().unwrap()]).await;
    assert!(code == Some(5) && said.contains(&address), "{said}");
    let (code, said) = run("127.0.0.1:0", ["--nats-server", "/nowhere/nats-server"]).await;
    assert!(code == Some(5) && said.contains("make tools") && said.contains("/nowhere/nats-server"), "{said}");
    fs::remove_file(home.bin("rewind-node")).unwrap();
    let (code, said) = run("127.0.0.1:0", ["--tsc", tsc.to_str().unwrap()]).await;
    assert!(code == Some(5) && said.contains("rewind-node"), "{said}");
    assert!(home.text("coordinator").is_none());
}
