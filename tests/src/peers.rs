//! The tools behind a system under test, as real processes.

use std::{path::Path, process::Stdio};

use anyhow::Context;
use tokio::{net::TcpStream, process::Command};

use crate::{Cluster, Peer, Tools, eventually};

impl Peer {
    /// `peers/orders.py`: MCP of 2026-07-28. Writes each attempt at an e-mail to `effects`.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn orders(cluster: &Cluster, effects: &Path) -> anyhow::Result<Self> {
        let tools = cluster.tools();
        let mut command = Command::new(tools.python());
        command.arg(tools.peer("orders.py")).arg("--effects").arg(effects).stderr(Stdio::null());
        Self::spawn(&mut command).await
    }

    /// `peers/scripted.py`, which misbehaves as `scenario` says.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn scripted(cluster: &Cluster, scenario: &serde_json::Value) -> anyhow::Result<Self> {
        let tools = cluster.tools();
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), scenario.to_string())?;
        let mut command = Command::new(tools.python());
        command.arg(tools.peer("scripted.py")).arg("--scenario").arg(file.path()).stderr(Stdio::null());
        Self::spawn(&mut command).await
    }

    /// `peers/moving.py`: MCP of 2026-07-28, and a tool that changes.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn moving(cluster: &Cluster) -> anyhow::Result<Self> {
        let tools = cluster.tools();
        let mut command = Command::new(tools.python());
        command.arg(tools.peer("moving.py")).stderr(Stdio::null());
        Self::spawn(&mut command).await
    }

    /// `peers/receiver.py`, which takes webhooks.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn receiver(tools: &Tools) -> anyhow::Result<Self> {
        let mut command = Command::new(tools.python());
        command.arg(tools.peer("receiver.py")).stderr(Stdio::null());
        Self::spawn(&mut command).await
    }

    /// The worker of the SDK's example, `refunds`.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn refunds(cluster: &Cluster, effects: &Path, takes: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(cluster.tools().refunds());
        command
            .arg("--effects")
            .arg(effects)
            .args(["--refund-takes", takes])
            .env("REWIND_NATS", cluster.dev_file()?.nats)
            .stderr(Stdio::null());
        Self::spawn(&mut command).await
    }

    /// The MCP project's own `server-everything`, over streamable HTTP. It cannot pick a port by
    /// itself; the URL is the second value.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn everything(cluster: &Cluster) -> anyhow::Result<(Everything, String)> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = Command::new("node")
            .arg(cluster.tools().server_everything())
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("starting server-everything")?;
        eventually("server-everything listens", || async { TcpStream::connect(("127.0.0.1", port)).await.ok() })
            .await?;
        Ok((Everything { _child: child }, format!("http://127.0.0.1:{port}/mcp")))
    }
}

/// A running server-everything, killed when dropped.
#[derive(Debug)]
pub struct Everything {
    _child: tokio::process::Child,
}
