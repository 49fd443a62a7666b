//! A whole Rewind, as `rewind dev` makes it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use rewind_bus::{Bus, Url};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{Api, Tools, eventually_within, process};

#[derive(Debug, Clone)]
pub struct ClusterOptions {
    pub nodes: u32,
    /// Every append reaches the disk before it is acknowledged.
    pub sync_always: bool,
    /// Toolsets may name commands as MCP servers.
    pub allow_stdio: bool,
    /// Environment of all parts, such as `REWIND_LOG`.
    pub env: Vec<(String, String)>,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { nodes: 1, sync_always: false, allow_stdio: false, env: Vec::new() }
    }
}

/// `dev.json`.
#[derive(Debug, Clone, Deserialize)]
pub struct DevFile {
    pub api: String,
    pub key: String,
    pub nats: String,
    /// What webhooks are signed with.
    pub webhook_secret: String,
    pub pids: Pids,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pids {
    pub nats: u32,
    pub coordinator: u32,
    pub nodes: Vec<u32>,
}

/// A coordinator beside the system's own, killed when dropped.
#[derive(Debug)]
pub struct Coordinator {
    _child: Child,
    pub api: Api,
}

/// A running system in a folder of its own. Dropped, it is ended in order as far as a drop can.
#[derive(Debug)]
pub struct Cluster {
    dev: Option<Child>,
    options: ClusterOptions,
    tools: Tools,
    data: TempDir,
    pub api: Api,
}

impl Cluster {
    /// # Errors
    /// When the system does not become ready.
    pub async fn start() -> anyhow::Result<Self> {
        Self::start_with(ClusterOptions::default()).await
    }

    /// # Errors
    /// When the system does not become ready.
    pub async fn start_with(options: ClusterOptions) -> anyhow::Result<Self> {
        let tools = Tools::find()?;
        let data = tempfile::Builder::new().prefix("rewind-").tempdir()?;
        let (dev, file) = launch(&tools, data.path(), &options).await?;
        let api = Api::new(&file.api, &file.key)?;
        Ok(Self { dev: Some(dev), options, tools, data, api })
    }

    pub fn tools(&self) -> &Tools {
        &self.tools
    }
    /// The system's data folder; tests put their own files beside what is there.
    pub fn data(&self) -> &Path {
        self.data.path()
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.data.path().join(name)
    }

    /// # Errors
    /// When the system is not ready.
    pub fn dev_file(&self) -> anyhow::Result<DevFile> {
        let text = std::fs::read_to_string(self.path("dev.json")).context("dev.json")?;
        Ok(serde_json::from_str(&text)?)
    }

    /// A connection to the system's own NATS.
    ///
    /// # Errors
    /// When it refuses.
    pub async fn bus(&self) -> anyhow::Result<Bus> {
        let url: Url = self.dev_file()?.nats.parse()?;
        Ok(Bus::connect_only(&url, "rewind-tests").await?)
    }

    /// Another coordinator of the same system, with these settings beside.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn another_coordinator(&self, env: &[(&str, &str)]) -> anyhow::Result<Coordinator> {
        let file = self.dev_file()?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("dev.log"))?;
        let child = Command::new(self.tools.binary("rewind-coordinator"))
            .args(["--listen", &format!("127.0.0.1:{port}"), "--tsc"])
            .arg(self.tools.tsc()?)
            .env("REWIND_NATS", &file.nats)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("starting a coordinator")?;
        let api = Api::new(&format!("http://127.0.0.1:{port}"), &file.key)?;
        eventually_within(Duration::from_secs(60), "the other coordinator is ready", || async {
            let ready = api.send(reqwest::Method::GET, "/readyz", None).await.ok()?;
            ready.status().is_success().then_some(())
        })
        .await?;
        Ok(Coordinator { _child: child, api })
    }

    /// Kills the `n`-th node and waits until another one stands in its place.
    ///
    /// # Errors
    /// When none comes.
    pub async fn kill_node(&self, n: usize) -> anyhow::Result<()> {
        self.kill_part(|pids| pids.nodes.get(n).copied()).await
    }

    /// # Errors
    /// When none comes in its place.
    pub async fn kill_coordinator(&self) -> anyhow::Result<()> {
        self.kill_part(|pids| Some(pids.coordinator)).await
    }

    /// # Errors
    /// When none comes in its place.
    pub async fn kill_nats(&self) -> anyhow::Result<()> {
        self.kill_part(|pids| Some(pids.nats)).await
    }

    async fn kill_part(&self, which: impl Fn(&Pids) -> Option<u32>) -> anyhow::Result<()> {
        let pid = which(&self.dev_file()?.pids).context("no such part")?;
        process::kill(pid);
        eventually_within(Duration::from_secs(60), "a new process in the killed one's place", || async {
            let now = which(&self.dev_file().ok()?.pids)?;
            (now != pid).then_some(())
        })
        .await
    }

    /// What the next [`Cluster::restart`] starts it with.
    pub fn options_mut(&mut self) -> &mut ClusterOptions {
        &mut self.options
    }

    /// Stops everything in order, and starts it again on the same data.
    ///
    /// # Errors
    /// When it does not become ready again.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.stop().await?;
        let (dev, file) = launch(&self.tools, self.data.path(), &self.options).await?;
        self.dev = Some(dev);
        self.api = Api::new(&file.api, &file.key)?;
        Ok(())
    }

    /// Stops everything in order.
    ///
    /// # Errors
    /// When it does not stop within half a minute.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut dev) = self.dev.take() else { return Ok(()) };
        terminate(&dev);
        tokio::time::timeout(Duration::from_secs(30), dev.wait()).await.context("the system did not stop")??;
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(dev) = &mut self.dev {
            terminate(dev);
            // Its folder goes with it: wait until nothing writes there any more.
            for _ in 0..1_500 {
                if !matches!(dev.try_wait(), Ok(None)) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn terminate(dev: &Child) {
    if let Some(pid) = dev.id().and_then(|pid| libc::pid_t::try_from(pid).ok()) {
        // SAFETY: no memory is involved; the child has not been waited for, so the pid is its own.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
}

async fn launch(tools: &Tools, data: &Path, options: &ClusterOptions) -> anyhow::Result<(Child, DevFile)> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(data.join("dev.log"))?;
    let mut command = Command::new(tools.rewind());
    command.arg("dev").arg("--data").arg(data).args(["--listen", "127.0.0.1:0", "--nodes", &options.nodes.to_string()]);
    if options.sync_always {
        command.arg("--sync-always");
    }
    if options.allow_stdio {
        command.arg("--allow-stdio");
    }
    command.envs(options.env.iter().cloned());
    let mut dev =
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn().context("starting rewind dev")?;
    let file = data.join("dev.json");
    let ready = eventually_within(Duration::from_secs(120), "rewind dev is ready", || async {
        let text = std::fs::read_to_string(&file).ok()?;
        serde_json::from_str(&text).ok()
    });
    tokio::select! {
        ready = ready => Ok((dev, ready.with_context(|| tail(data))?)),
        ended = dev.wait() => bail!("rewind dev ended: {ended:?}\n{}", tail(data)),
    }
}

/// The end of the system's log, for a failing test's message.
fn tail(data: &Path) -> String {
    let log = std::fs::read_to_string(data.join("dev.log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
