//! What several stories need: toolsets, and a script that makes calls with effects.

use std::collections::BTreeMap;

use anyhow::Context;
use reqwest::Method;
use rewind_model::{Page, ParkedCall, Run, RunId, RunStatus, ToolsetId};
use rewind_tests::{Cluster, Peer, eventually};
use serde::Deserialize;
use serde_json::{Value, json};

/// A scripted MCP server whose tool `effect` counts attempts and effects by key.
pub(crate) struct Counter {
    pub(crate) peer: Peer,
    http: reqwest::Client,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Counted {
    pub(crate) effects: BTreeMap<String, u64>,
    pub(crate) attempts: BTreeMap<String, u64>,
    /// Calls of `hang` whose client went away.
    pub(crate) abandoned: u64,
    /// The last hundred.
    pub(crate) requests: Vec<Value>,
}

impl Counter {
    /// `scenario` has the members of the peer's `Scenario`; its tools are added.
    pub(crate) async fn start(cluster: &Cluster, mut scenario: Value) -> anyhow::Result<Self> {
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let tools: Vec<Value> = ["effect", "echo", "big", "fail", "error", "hang", "status"].map(tool).into();
        scenario["pages"] = json!([{"cursor": null, "tools": tools}]);
        let peer = Peer::scripted(cluster, &scenario).await?;
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { peer, http })
    }

    pub(crate) fn url(&self) -> anyhow::Result<String> {
        self.peer.said("url")
    }

    pub(crate) async fn counted(&self) -> anyhow::Result<Counted> {
        let text = self.http.get(self.peer.said("control")?).send().await?.text().await?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Changes the scenario while the server runs.
    pub(crate) async fn change(&self, changes: &Value) -> anyhow::Result<()> {
        let request = self.http.post(self.peer.said("control")?).body(changes.to_string());
        request.send().await?.error_for_status()?;
        Ok(())
    }

    /// A toolset with this server as `shop`, and the host tools of the refunds worker.
    pub(crate) async fn toolset(&self, cluster: &Cluster) -> anyhow::Result<ToolsetId> {
        let toolset = json!({
            "mcp_servers": {"shop": {"url": self.url()?}},
            "host_tools": refund_tools(),
        });
        Ok(cluster.api.register(&toolset).await?.id)
    }
}

pub(crate) fn refund_tools() -> Value {
    let object = json!({"type": "object"});
    json!({
        "lookup_order": {"description": "An order.", "input_schema": object},
        "refund": {"description": "Pays money back.", "input_schema": object},
    })
}

/// A toolset of host tools alone: needs no server.
pub(crate) async fn host_toolset(cluster: &Cluster) -> anyhow::Result<ToolsetId> {
    Ok(cluster.api.register(&json!({"host_tools": refund_tools()})).await?.id)
}

/// A completed run's result.
pub(crate) fn result(run: &Run) -> anyhow::Result<Value> {
    anyhow::ensure!(run.status == RunStatus::Completed, "{} {}: {:?}", run.id, run.status, run.error);
    Ok(run.result.as_ref().context("a result")?.to()?)
}

/// A failed run's error code and message.
pub(crate) fn error(run: &Run) -> anyhow::Result<(String, String)> {
    anyhow::ensure!(run.status == RunStatus::Failed, "{} {}", run.id, run.status);
    let error = run.error.as_ref().context("an error")?;
    Ok((error.code.clone(), error.message.clone()))
}

pub(crate) async fn run_to_end(cluster: &Cluster, toolset: &ToolsetId, script: &str) -> anyhow::Result<Run> {
    let run = cluster.api.start(toolset, script, Value::Null).await?;
    cluster.api.ended(&run.id).await
}

/// Starts `count` runs of a script; the n-th has the input `{"n": n}`.
pub(crate) async fn start_many(
    cluster: &Cluster,
    toolset: &ToolsetId,
    script: &str,
    count: usize,
) -> anyhow::Result<Vec<RunId>> {
    use futures::{StreamExt, TryStreamExt};
    futures::stream::iter(0..count)
        .map(|n| async move { Ok(cluster.api.start(toolset, script, json!({"n": n})).await?.id) })
        .buffered(16)
        .try_collect()
        .await
}

/// The call of the run that waits for a decision, once there is one.
pub(crate) async fn parked(cluster: &Cluster, run: &RunId) -> anyhow::Result<ParkedCall> {
    eventually("a parked call", || async {
        let page = cluster.api.request::<Page<ParkedCall>>(Method::GET, "/v1/parked", None).await.ok()?.ok()?;
        page.items.into_iter().find(|call| call.run == *run)
    })
    .await
}

/// Returns once the server has got the call of `hang`.
pub(crate) async fn under_way(counter: &Counter) -> anyhow::Result<()> {
    eventually("the call is under way", || async {
        let requests = counter.counted().await.ok()?.requests;
        requests.iter().any(|request| request["message"]["params"]["name"] == "hang").then_some(())
    })
    .await
}

pub(crate) async fn cancel(cluster: &Cluster, run: &RunId) -> anyhow::Result<Run> {
    let answer = cluster.api.request(Method::POST, &format!("/v1/runs/{run}/cancel"), None).await?;
    answer.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))
}

/// Approves or rejects a parked call.
pub(crate) async fn decide(cluster: &Cluster, call: &ParkedCall, verb: &str) -> anyhow::Result<()> {
    let path = format!("/v1/runs/{}/calls/{}/{verb}", call.run, call.seq);
    let answer = cluster.api.request::<Value>(Method::POST, &path, Some(&json!({"by": "ada"}))).await?;
    answer.map(drop).map_err(|refusal| anyhow::anyhow!("{refusal:?}"))
}

/// Resident bytes of processes and of their children, such as a node's sandboxes.
pub(crate) fn memory_of(processes: &[u32]) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let parent = field("PPid:").and_then(|pid| u32::try_from(pid).ok());
        if processes.contains(&pid) || parent.is_some_and(|parent| processes.contains(&parent)) {
            bytes += field("VmRSS:").unwrap_or(0) << 10;
        }
    }
    Ok(bytes)
}

/// Number of runs with this status.
pub(crate) async fn count(cluster: &Cluster, status: &str) -> anyhow::Result<usize> {
    let mut count = 0;
    let mut query = format!("?status={status}&limit=200");
    loop {
        let page = cluster.api.list(&query).await?;
        count += page.items.len();
        let Some(cursor) = page.next_cursor else { return Ok(count) };
        query = format!("?status={status}&limit=200&cursor={cursor}");
    }
}
