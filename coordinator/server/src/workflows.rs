//! The workflows of a toolset that is being registered.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rewind_model::{Digest, Policy, ProblemCode, RegisterWorkflow, Toolset, Workflow};
use rewind_schema::{check_schema, normalize};

use crate::{app::App, pin::PinnedDocument, refusal::Refusal, registry::Pinned};

/// Workflows of one toolset: each is type-checked a few times.
const MOST: usize = 32;
/// For all checks of one registration.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a workflow's name and of its description.
const LONGEST_NAME: usize = 128;
const LONGEST_TEXT: usize = 64 << 10;

/// What is pinned of `workflows`, with the default policy.
///
/// # Errors
/// `invalid-toolset`.
pub(crate) fn pin(workflows: &BTreeMap<String, RegisterWorkflow>) -> Result<BTreeMap<String, Workflow>, Refusal> {
    check_bounds(workflows)?;
    Ok(workflows.iter().map(|(name, workflow)| (name.clone(), pinned(workflow))).collect())
}

/// Checks the scripts of `workflows`, each against the toolset that it will have, and stores them.
///
/// # Errors
/// `invalid-toolset`, `unknown-toolset`, `script-rejected`, `script-too-large`, `busy`, `store-unavailable`.
pub(crate) async fn store(
    app: &App,
    document: &mut PinnedDocument,
    workflows: BTreeMap<String, RegisterWorkflow>,
) -> Result<(), Refusal> {
    if workflows.is_empty() {
        return Ok(());
    }
    let checked = tokio::time::timeout(PATIENCE, check(app, document, &workflows)).await;
    checked.unwrap_or_else(|_| {
        invalid(format!("workflows: type-checking them takes over {PATIENCE:?}: give fewer, or simpler ones"))
    })?;
    for workflow in workflows.values() {
        app.store.ask(|bus| bus.keep_blob(workflow.script.as_bytes())).await?;
    }
    Ok(())
}

async fn check(
    app: &App,
    document: &mut PinnedDocument,
    workflows: &BTreeMap<String, RegisterWorkflow>,
) -> Result<(), Refusal> {
    let own = Arc::new(Pinned::of(document.toolset.clone())?);
    for (name, workflow) in workflows {
        let (tools, learned) = match &workflow.toolset {
            Some(id) => {
                let tools = app.registry.get(&app.store, id).await?;
                let learned = tools.learned(&app.store, id).await?;
                (tools, learned)
            }
            None => (Arc::clone(&own), Arc::default()),
        };
        let verdict = app.checker.check(&app.store, &tools, &learned, &workflow.script).await?;
        if !verdict.diagnostics.is_empty() {
            let mut diagnostics = verdict.diagnostics.clone();
            diagnostics.iter_mut().for_each(|diagnostic| diagnostic.file = format!("workflows/{name}.ts"));
            return Err(Refusal::script(diagnostics, Vec::new()));
        }
        document.registration.workflows.insert(name.clone(), verdict.digest);
    }
    refuse_cycles(app, &document.toolset, workflows).await
}

fn invalid<T>(detail: String) -> Result<T, Refusal> {
    Err(Refusal::new(ProblemCode::InvalidToolset, detail))
}

fn check_bounds(workflows: &BTreeMap<String, RegisterWorkflow>) -> Result<(), Refusal> {
    if workflows.len() > MOST {
        return invalid(format!("workflows: {} of them; the limit is {MOST}", workflows.len()));
    }
    for (name, workflow) in workflows {
        let shown: String = name.chars().take(LONGEST_NAME).collect();
        if name.is_empty() || name.len() > LONGEST_NAME {
            return invalid(format!("workflows: {shown:?}: a name has 1 to {LONGEST_NAME} bytes"));
        }
        if workflow.description.as_ref().is_some_and(|text| text.len() > LONGEST_TEXT) {
            return invalid(format!("workflows.{shown}: its description is over {LONGEST_TEXT} bytes"));
        }
        for (which, schema) in [("input", &workflow.input_schema), ("output", &workflow.output_schema)] {
            let checked = schema.as_ref().map_or(Ok(()), check_schema);
            checked.or_else(|error| invalid(format!("workflows.{shown}: its {which} schema: {error}")))?;
        }
    }
    Ok(())
}

fn pinned(workflow: &RegisterWorkflow) -> Workflow {
    Workflow {
        script: Digest::of(workflow.script.as_bytes()),
        description: workflow.description.clone(),
        input_schema: workflow.input_schema.clone().map(normalize),
        output_schema: workflow.output_schema.clone().map(normalize),
        toolset: workflow.toolset.clone(),
        policy: Policy::default(),
    }
}

/// A workflow calls those that its script needs to be there to pass: found by leaving them out. One that
/// has a toolset of its own calls only what was registered before, and so never comes back here. What types
/// cannot show (a name that is computed, `any`) is left to the depth that runs below runs may have.
async fn refuse_cycles(
    app: &App,
    toolset: &Toolset,
    workflows: &BTreeMap<String, RegisterWorkflow>,
) -> Result<(), Refusal> {
    let mut left: BTreeMap<&String, &RegisterWorkflow> =
        workflows.iter().filter(|(_, workflow)| workflow.toolset.is_none()).collect();
    let mut below: Toolset = toolset.clone();
    below.workflows.retain(|name, _| !left.contains_key(name));
    while !left.is_empty() {
        let tools = Pinned::of(below.clone())?;
        let mut free = Vec::new();
        for (name, workflow) in &left {
            if app.checker.faults(&tools, &workflow.script).await?.is_empty() {
                free.push((*name).clone());
            }
        }
        if free.is_empty() {
            let names: Vec<_> = left.keys().map(|name| name.as_str()).collect();
            return invalid(format!(
                "workflows: {} call each other in a circle, or themselves, or one that does: such a run would never end",
                names.join(", ")
            ));
        }
        for name in free {
            left.remove(&name);
            below
                .workflows
                .extend(toolset.workflows.get_key_value(&name).map(|(name, pinned)| (name.clone(), pinned.clone())));
        }
    }
    Ok(())
}
