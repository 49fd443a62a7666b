//! Real MCP servers as child processes.

use std::{
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rewind_mcp::{Client, Endpoint};
use serde_json::Value;

/// A server that lives as long as this value.
pub(crate) struct Peer {
    child: Child,
    pub(crate) url: String,
    control: Option<String>,
}

impl Peer {
    /// `tests/peers/orders.py`: the stateless protocol.
    pub(crate) fn orders(effects: &Path) -> Self {
        let mut command = python("orders.py");
        command.arg("--effects").arg(effects);
        Self::announced(command)
    }

    /// `tests/peers/scripted.py`: the protocol with sessions. `scenario` as in that file.
    pub(crate) fn scripted(scenario: Value) -> Self {
        Self::scripted_on(0, scenario)
    }

    pub(crate) fn scripted_on(port: u16, scenario: Value) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), scenario.to_string()).expect("written");
        let mut command = python("scripted.py");
        command.arg("--scenario").arg(file.path()).arg("--port").arg(port.to_string());
        Self::announced(command)
    }

    /// The protocol's own test server, on Node.
    pub(crate) fn everything() -> Self {
        Self::everything_on(free_port())
    }

    pub(crate) fn everything_on(port: u16) -> Self {
        let mut command = Command::new("node");
        command.arg(everything_script()).arg("streamableHttp").env("PORT", port.to_string());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("node starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut lines = stderr.lines().map(|line| line.expect("readable"));
        assert!(lines.any(|line| line.contains("listening on port")), "server-everything listens");
        // Something must go on reading, or the server blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, url: format!("http://127.0.0.1:{port}/mcp"), control: None }
    }

    /// Starts a peer that says in its first line where it listens.
    fn announced(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("python starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        let said: Value = serde_json::from_str(&line).expect("the peer says where it listens");
        let text = |name: &str| said[name].as_str().map(str::to_owned);
        Self { child, url: text("url").expect("a url"), control: text("control") }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&Endpoint::http(&self.url)).expect("a valid endpoint")
    }

    /// What a scripted peer has seen.
    pub(crate) async fn seen(&self) -> Value {
        reqwest::get(self.control()).await.expect("answers").json().await.expect("JSON")
    }

    /// Changes members of a scripted peer's scenario.
    pub(crate) async fn change(&self, scenario: Value) {
        let post = reqwest::Client::new().post(self.control()).body(scenario.to_string());
        post.send().await.expect("answers").error_for_status().expect("changed");
    }

    /// Waits until what a scripted peer has seen satisfies `fact`.
    pub(crate) async fn until(&self, fact: impl Fn(&Value) -> bool) {
        while !fact(&self.seen().await) {
            tokio::task::yield_now().await;
        }
    }

    fn control(&self) -> &str {
        self.control.as_deref().expect("a scripted peer")
    }

    pub(crate) fn port(&self) -> u16 {
        self.url.parse::<reqwest::Url>().expect("a url").port().expect("a port")
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it was alive");
        self.child.wait().expect("it ended");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Taken from the system and given back, for a server that cannot choose by itself.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port()
}

fn python(script: &str) -> Command {
    let (python, script) = python_script(script);
    let mut command = Command::new(python);
    command.arg(script);
    command
}

/// The interpreter, and a script of `tests/peers` for it.
pub(crate) fn python_script(script: &str) -> (String, String) {
    let paths = [tools().join("py/bin/python"), repository().join("tests/peers").join(script)];
    let [python, script] = paths.map(|path| path.to_str().expect("UTF-8").to_owned());
    (python, script)
}

pub(crate) fn everything_script() -> PathBuf {
    tools().join("npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

fn tools() -> PathBuf {
    repository().join(".tools")
}

/// The nearest folder above this crate in which the tools are installed.
fn repository() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().find(|folder| folder.join(".tools/py/bin/python").exists()).expect("run `make tools` first")
}
