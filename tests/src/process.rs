use std::{path::Path, process::Stdio};

use anyhow::Context;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// A process of the test's own, killed when dropped.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    /// The first line that it wrote on stdout.
    pub first_line: String,
}

impl Peer {
    /// Starts `program` and waits for its first line on stdout, by which it says that it listens.
    ///
    /// # Errors
    /// When it cannot be started, or ends before it says anything.
    pub async fn start(program: &Path, args: &[&str]) -> anyhow::Result<Self> {
        Self::spawn(Command::new(program).args(args)).await
    }

    /// As [`Peer::start`], of a command with more settings.
    ///
    /// # Errors
    /// As [`Peer::start`].
    pub async fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let name = format!("{:?}", command.as_std().get_program());
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let stdout = child.stdout.take().context("stdout")?;
        let mut lines = BufReader::new(stdout).lines();
        let first_line = lines.next_line().await?.with_context(|| format!("{name} ended before it said anything"))?;
        // What it says later must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { child, first_line })
    }

    /// The member `name` of the first line, which is a JSON object.
    ///
    /// # Errors
    /// When it is not.
    pub fn said(&self, name: &str) -> anyhow::Result<String> {
        let line: serde_json::Value = serde_json::from_str(&self.first_line)?;
        let text = line[name].as_str().with_context(|| format!("no {name} in {}", self.first_line))?;
        Ok(text.to_owned())
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// # Errors
    /// When the process cannot be waited for.
    pub async fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("killing a peer")
    }
}

/// SIGKILL.
pub fn kill(pid: u32) {
    signal(pid, libc::SIGKILL);
}
/// SIGSTOP.
pub fn pause(pid: u32) {
    signal(pid, libc::SIGSTOP);
}
/// SIGCONT.
pub fn resume(pid: u32) {
    signal(pid, libc::SIGCONT);
}

fn signal(pid: u32, signal: libc::c_int) {
    let pid = libc::pid_t::try_from(pid).expect("a pid");
    // SAFETY: no memory is involved. The pid is of a child of the system under test.
    unsafe { libc::kill(pid, signal) };
}
