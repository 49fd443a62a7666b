//! What has become of a toolset's servers since it was registered.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use axum::extract::State;
use futures::StreamExt;
use rewind_bus::journal::Summary;
use rewind_mcp::{Client, Endpoint, ListLimits};
use rewind_model::{
    Diagnostic, Digest, Drift, DriftingRun, ListedTool, McpServer, RunId, ToolChange, ToolsetId, Transport,
};
use rewind_schema::{difference, normalize};
use tokio::time::Instant;

use crate::{
    app::App,
    path::Path,
    projection::{Filter, Position},
    refusal::Refusal,
    registry::Pinned,
    toolsets::parse_id,
};

const AT_ONCE: usize = 16;
const MOST_RUNS: usize = 1_000;
const PAGE: usize = 200;
/// For type-checking the scripts of all runs.
const PATIENCE: Duration = Duration::from_secs(10);
const MOST_DIAGNOSTICS: usize = 10;

/// What the toolset's servers list now, held against what it pins, and the runs that a change may stop.
#[utoipa::path(get, path = "/v1/toolsets/{id}/drift", tag = "toolsets",
    params(("id" = String, Path, description = "`ts_` and 64 hex digits.")),
    responses((status = 200, description = "What has changed.", body = Drift)))]
pub(crate) async fn drift(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<axum::Json<Drift>, Refusal> {
    let id = parse_id(&id)?;
    let pinned = app.registry.get(&app.store, &id).await?;
    let allow_stdio = app.allow_stdio;
    let servers = futures::stream::iter(pinned.toolset.mcp_servers.clone());
    let asked = servers.map(|(name, mut server)| async move {
        let changes = of_server(&name, &mut server, allow_stdio).await;
        (name, server, changes)
    });
    let asked: Vec<_> = asked.buffer_unordered(AT_ONCE).collect().await;
    let (mut now, mut drift) = (pinned.toolset.clone(), Drift::default());
    for (name, server, changes) in asked {
        now.mcp_servers.insert(name, server);
        drift.changes.extend(changes);
    }
    drift.changes.sort_by(|a, b| a.tool.cmp(&b.tool));
    if now != pinned.toolset {
        runs(&app, &id, &Pinned::of(now)?, &mut drift).await?;
    }
    Ok(axum::Json(drift))
}

/// What has changed of the server's tools. Afterwards `server` has them as they are now.
async fn of_server(name: &str, server: &mut McpServer, allow_stdio: bool) -> Vec<ToolChange> {
    let unreachable =
        |why: String| vec![ToolChange { tool: name.to_owned(), change: "unreachable".into(), difference: vec![why] }];
    if matches!(server.transport(), Transport::Stdio { .. }) && !allow_stdio {
        return unreachable("servers over stdio are not allowed here".into());
    }
    let listing = async {
        let client = Client::new(&Endpoint::from(server.transport()))?;
        let listing = client.list_tools(ListLimits::default()).await;
        client.close().await;
        listing
    };
    match listing.await {
        Ok(listing) => compare(name, server, listing.tools),
        Err(error) => unreachable(error.to_string()),
    }
}

fn compare(export: &str, server: &mut McpServer, listed: Vec<ListedTool>) -> Vec<ToolChange> {
    let mut now: BTreeMap<String, ListedTool> = listed.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
    let mut changes = Vec::new();
    let mut add = |tool: &str, change: &str, difference: Vec<String>| {
        changes.push(ToolChange { tool: format!("{export}.{tool}"), change: change.into(), difference });
    };
    server.tools.retain(|name, pinned| match now.remove(name) {
        None => {
            add(name, "gone", Vec::new());
            false
        }
        Some(tool) => {
            let mut lines = Vec::new();
            let input = normalize(tool.input_schema);
            if input != pinned.input_schema {
                lines.extend(difference(&pinned.input_schema, &input));
            }
            let output = tool.output_schema.map(normalize);
            match (&pinned.output_schema, &output) {
                (was, is) if was == is => {}
                (Some(was), Some(is)) => {
                    lines.extend(difference(was, is).into_iter().map(|line| format!("result: {line}")));
                }
                (None, _) => lines.push("result: it has a schema now".into()),
                (Some(_), None) => lines.push("result: it has no schema any more".into()),
            }
            if !lines.is_empty() {
                add(name, "changed", lines);
            }
            (pinned.input_schema, pinned.output_schema) = (input, output);
            true
        }
    });
    changes
}

/// Adds the runs whose scripts do not fit `now`.
async fn runs(app: &App, toolset: &ToolsetId, now: &Pinned, drift: &mut Drift) -> Result<(), Refusal> {
    let until = Instant::now() + PATIENCE;
    let mut checked: HashMap<Digest, Option<Vec<Diagnostic>>> = HashMap::new();
    for (id, summary) in unended(app, toolset) {
        let diagnostics = match checked.entry(summary.script) {
            Entry::Occupied(checked) => checked.into_mut(),
            Entry::Vacant(new) => {
                let check = tokio::time::timeout_at(until, diagnostics(app, summary.script, now));
                new.insert(check.await.ok().transpose()?)
            }
        };
        match diagnostics {
            Some(diagnostics) if diagnostics.is_empty() => {}
            Some(diagnostics) => {
                drift.runs.push(DriftingRun { id, status: summary.status, diagnostics: diagnostics.clone() });
            }
            None => drift.unchecked.push(id),
        }
    }
    Ok(())
}

async fn diagnostics(app: &App, script: Digest, now: &Pinned) -> Result<Vec<Diagnostic>, Refusal> {
    let compiled = app.store.ask(|bus| bus.script(script)).await?;
    let compiled = compiled.ok_or_else(|| Refusal::internal("check a run's script", &"it is not in the catalog"))?;
    let mut diagnostics = app.checker.faults(now, &compiled.source).await?;
    diagnostics.truncate(MOST_DIAGNOSTICS);
    Ok(diagnostics)
}

fn unended(app: &App, toolset: &ToolsetId) -> Vec<(RunId, Summary)> {
    let filter = Filter { toolset: Some(toolset.clone()), ..Filter::default() };
    let mut runs = Vec::new();
    let mut after: Option<Position> = None;
    loop {
        let (page, next) = app.projection.list(&filter, after.as_ref(), PAGE);
        runs.extend(page.into_iter().filter(|(_, summary)| !summary.status.ended()));
        after = next;
        if after.is_none() || runs.len() >= MOST_RUNS {
            runs.truncate(MOST_RUNS);
            return runs;
        }
    }
}
