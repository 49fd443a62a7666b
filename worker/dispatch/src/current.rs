//! What servers' tools are at present, which may be something else than what a toolset pinned.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rewind_mcp::{Client, ListLimits};
use rewind_model::{Digest, Json, ListedTool, ToolName};
use rewind_schema::{difference, lost, normalize};
use serde_json::Value;
use tokio::time::Instant;

use crate::Tools;

/// A call does not wait longer for a list than this: it is sent unchecked then.
const PATIENCE: Duration = Duration::from_secs(10);

/// The tools of one server as they were listed last, for all runs of a node.
#[derive(Debug)]
pub(crate) struct Current {
    max_age: Duration,
    /// Held while it is listed, so that many calls list once.
    listed: tokio::sync::Mutex<Option<Listed>>,
}

#[derive(Debug, Clone)]
struct Listed {
    at: Instant,
    /// What the client had heard of changes by then.
    changes: u64,
    /// Schemas by tool; `None` when the server could not be asked, or did not answer well.
    tools: Option<Arc<BTreeMap<String, Schemas>>>,
}

/// What a tool takes, and what it says that it gives.
#[derive(Debug)]
struct Schemas {
    input: Schema,
    output: Option<Schema>,
}

#[derive(Debug)]
struct Schema {
    digest: Digest,
    json: Value,
}

impl Schema {
    fn new(json: Value) -> Self {
        Self { digest: digest(&json), json }
    }
}

impl Current {
    pub(crate) fn new(max_age: Duration) -> Self {
        Self { max_age, listed: tokio::sync::Mutex::new(None) }
    }

    /// Why the call does not match the server's tool any more; `None` when it does, or when nobody knows.
    pub(crate) async fn mismatch(
        &self,
        client: &Client,
        tools: &Tools,
        name: &ToolName,
        arguments: &Json,
    ) -> Option<String> {
        let listed = self.list(client).await?;
        let Some(now) = listed.get(&name.name) else {
            return Some(format!("{name} is gone: the server does not list it any more"));
        };
        let (_, pinned) = tools.find(name)?;
        if let (Some(was), Some(is)) = (&pinned.output_schema, &now.output)
            && tools.output_digest(name) != Some(is.digest)
        {
            let lost = lost(was, &is.json);
            if !lost.is_empty() {
                return Some(format!("the result of {name} is another one now: {}", lost.join("; ")));
            }
        }
        let now = &now.input;
        if tools.input_digest(name) == Some(now.digest) {
            return None;
        }
        // What the server itself cannot say clearly stops nobody.
        let violations = tools.validators().of(&now.json).ok()?.validate_json(arguments.as_str()).err()?;
        let violations: Vec<_> = violations.iter().map(ToString::to_string).collect();
        let difference = difference(&pinned.input_schema, &now.json).join("; ");
        let violations = violations.join("; ");
        Some(format!(
            "the arguments do not match the schema that {name} has now: {violations}. Since it was pinned: {difference}"
        ))
    }

    /// Forgets the list: the next call lists anew.
    pub(crate) async fn forget(&self) {
        *self.listed.lock().await = None;
    }

    async fn list(&self, client: &Client) -> Option<Arc<BTreeMap<String, Schemas>>> {
        let mut listed = self.listed.lock().await;
        let changes = client.changes();
        let is_fresh = |listed: &&Listed| listed.changes == changes && listed.at.elapsed() < self.max_age;
        if let Some(fresh) = listed.as_ref().filter(is_fresh) {
            return fresh.tools.clone();
        }
        let listing = client.list_tools(ListLimits { timeout: PATIENCE, ..ListLimits::default() }).await;
        let tools = match listing {
            Ok(listing) => {
                let of = |tool: ListedTool| {
                    let output = tool.output_schema.map(|schema| Schema::new(normalize(schema)));
                    (tool.name, Schemas { input: Schema::new(normalize(tool.input_schema)), output })
                };
                Some(Arc::new(listing.tools.into_iter().map(of).collect()))
            }
            Err(error) => {
                tracing::debug!(%error, "a server's tools could not be listed: its calls are not checked for a while");
                None
            }
        };
        *listed = Some(Listed { at: Instant::now(), changes, tools: tools.clone() });
        tools
    }
}

/// Tells one schema from another.
pub(crate) fn digest(schema: &Value) -> Digest {
    Digest::of(schema.to_string().as_bytes())
}
