//! A system, and the tools around it.

use std::fmt;

use rewind_model::{RunId, ToolsetId};
use rewind_tests::{Api, Cluster, ClusterOptions, Peer};
use serde::Serialize;
use tokio::process::Command;

use crate::{
    gaps::Seen,
    tools,
    usage::{self, Usages},
};

/// When an append reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sync {
    /// Every two minutes, as nats-server does by default.
    Default,
    /// Before it is acknowledged.
    Always,
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sync::Default => "default",
            Sync::Always => "always",
        })
    }
}

#[derive(Debug)]
pub(crate) struct Stage {
    cluster: Cluster,
    tools: Peer,
    http: reqwest::Client,
    seen: String,
    pub(crate) sync: Sync,
    pub(crate) runs: Runs,
}

/// Starts runs of the stage's tools, and waits for them.
#[derive(Debug, Clone)]
pub(crate) struct Runs {
    pub(crate) api: Api,
    toolset: ToolsetId,
}

impl Stage {
    /// # Errors
    /// When something does not start.
    pub(crate) async fn start(sync: Sync) -> anyhow::Result<Self> {
        let options = ClusterOptions { sync_always: sync == Sync::Always, ..ClusterOptions::default() };
        let cluster = Cluster::start_with(options).await?;
        let mut command = Command::new(std::env::current_exe()?);
        let tools = Peer::spawn(command.env(tools::NATS, cluster.dev_file()?.nats)).await?;
        let url = tools.said("url")?;
        let api = cluster.api.clone();
        let toolset = api.register(&tools::toolset(&format!("{url}/mcp"))).await?.id;
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { cluster, tools, http, seen: format!("{url}/seen"), sync, runs: Runs { api, toolset } })
    }

    /// Stops the system in order.
    ///
    /// # Errors
    /// When it does not stop.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.cluster.stop().await
    }

    /// The system's NATS.
    ///
    /// # Errors
    /// When it refuses.
    pub(crate) async fn nats(&self) -> anyhow::Result<async_nats::Client> {
        let address: async_nats::ServerAddr = self.cluster.dev_file()?.nats.parse()?;
        let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
        let options = async_nats::ConnectOptions::new()
            .name("rewind-bench")
            .user_and_password(text(address.username()), text(address.password()));
        Ok(options.connect(address).await?)
    }

    /// What the tools saw since this was last asked.
    ///
    /// # Errors
    /// When they do not answer.
    pub(crate) async fn seen(&self) -> anyhow::Result<Seen> {
        let answer = self.http.get(&self.seen).send().await?.error_for_status()?;
        Ok(serde_json::from_slice(&answer.bytes().await?)?)
    }

    /// # Errors
    /// When a part is gone.
    pub(crate) fn usage(&self) -> anyhow::Result<Usages> {
        let tools = self.tools.pid().ok_or_else(|| anyhow::anyhow!("the tools have ended"))?;
        usage::of_system(&self.cluster.dev_file()?.pids, tools)
    }
}

impl Runs {
    /// Starts a run.
    ///
    /// # Errors
    /// When it is refused.
    pub(crate) async fn begin(&self, script: &str, input: serde_json::Value) -> anyhow::Result<RunId> {
        Ok(self.api.start(&self.toolset, script, input).await?.id)
    }

    /// Waits for a run's end.
    ///
    /// # Errors
    /// When it fails, or does not end.
    pub(crate) async fn completed(&self, run: &RunId) -> anyhow::Result<()> {
        let run = self.api.ended(run).await?;
        anyhow::ensure!(
            run.status == rewind_model::RunStatus::Completed,
            "{} has {}: {:?}",
            run.id,
            run.status,
            run.error
        );
        Ok(())
    }
}
