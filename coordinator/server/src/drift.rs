//! What has become of a toolset's servers since it was registered.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::{Path, State};
use futures::StreamExt;
use rewind_mcp::{Client, Endpoint, ListLimits};
use rewind_model::{Drift, ListedTool, McpServer, ToolChange, ToolsetId, Transport};
use rewind_schema::{difference, normalize};

use crate::{
    app::App,
    projection::{Filter, Position},
    refusal::Refusal,
    toolsets::parse_id,
};

const AT_ONCE: usize = 16;
const MOST_RUNS: usize = 1_000;
const PAGE: usize = 200;

/// What the toolset's servers list now, held against what it pins, and the runs that a change may stop.
#[utoipa::path(get, path = "/v1/toolsets/{id}/drift", tag = "toolsets",
    params(("id" = String, Path, description = "`ts_` and 64 hex digits.")),
    responses((status = 200, description = "What has changed.", body = Drift)))]
pub(crate) async fn drift(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<axum::Json<Drift>, Refusal> {
    let id = parse_id(&id)?;
    let pinned = app.registry.get(&app.store, &id).await?;
    let allow_stdio = app.allow_stdio;
    let servers = futures::stream::iter(pinned.toolset.mcp_servers.clone());
    let asked = servers.map(|(name, server)| async move { of_server(&name, &server, allow_stdio).await });
    let mut changes: Vec<ToolChange> = asked.buffer_unordered(AT_ONCE).concat().await;
    changes.sort_by(|a, b| a.tool.cmp(&b.tool));
    Ok(axum::Json(Drift { changes, runs: runs(&app, &id) }))
}

async fn of_server(name: &str, server: &McpServer, allow_stdio: bool) -> Vec<ToolChange> {
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

fn compare(export: &str, server: &McpServer, listed: Vec<ListedTool>) -> Vec<ToolChange> {
    let mut now: BTreeMap<String, ListedTool> = listed.into_iter().map(|tool| (tool.name.clone(), tool)).collect();
    let mut changes = Vec::new();
    let mut add = |tool: &str, change: &str, difference: Vec<String>| {
        changes.push(ToolChange { tool: format!("{export}.{tool}"), change: change.into(), difference });
    };
    for (name, pinned) in &server.tools {
        match now.remove(name) {
            None => add(name, "gone", Vec::new()),
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
            }
        }
    }
    changes
}

fn runs(app: &App, toolset: &ToolsetId) -> Vec<rewind_model::RunId> {
    let filter = Filter { toolset: Some(toolset.clone()), ..Filter::default() };
    let mut runs = Vec::new();
    let mut after: Option<Position> = None;
    loop {
        let (page, next) = app.projection.list(&filter, after.as_ref(), PAGE);
        runs.extend(page.into_iter().filter(|(_, summary)| !summary.status.ended()).map(|(run, _)| run));
        after = next;
        if after.is_none() || runs.len() >= MOST_RUNS {
            runs.truncate(MOST_RUNS);
            return runs;
        }
    }
}
