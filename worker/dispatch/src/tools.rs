use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use rewind_model::{Digest, ErrorCode, Json, Policy, Tool, ToolFailure, ToolKind, ToolName, Toolset, Workflow};
use rewind_schema::{Validator, Violation};
use serde_json::Value;

use crate::{Validators, current};

/// A toolset made ready for calls: validators are built on first use and kept.
#[derive(Debug)]
pub struct Tools {
    toolset: Toolset,
    validators: Arc<Validators>,
    of_tools: HashMap<ToolName, OfTool>,
}

#[derive(Debug, Default)]
struct OfTool {
    input: OnceLock<Option<Arc<Validator>>>,
    output: OnceLock<Option<Arc<Validator>>>,
    digest: OnceLock<Digest>,
    output_digest: OnceLock<Option<Digest>>,
}

/// serde_json takes an object with such a member for what the member's text says.
const PRIVATE: &str = "$serde_json::private::";

impl Tools {
    pub fn new(toolset: Toolset, validators: Arc<Validators>) -> Self {
        let workflows = toolset.workflows.keys().map(|name| ToolName::new(Toolset::WORKFLOWS, name));
        let of_tools = toolset.tools().map(|(name, _)| name).chain(workflows);
        let of_tools = of_tools.map(|name| (name, OfTool::default())).collect();
        Self { toolset, validators, of_tools }
    }

    pub fn toolset(&self) -> &Toolset {
        &self.toolset
    }

    pub fn find(&self, tool: &ToolName) -> Option<(ToolKind<'_>, &Tool)> {
        self.toolset.tool(tool)
    }

    /// Of the pinned input schema.
    pub(crate) fn input_digest(&self, tool: &ToolName) -> Option<Digest> {
        let (_, pinned) = self.find(tool)?;
        Some(*self.of_tools.get(tool)?.digest.get_or_init(|| current::digest(&pinned.input_schema)))
    }

    /// Of the pinned output schema, if there is one.
    pub(crate) fn output_digest(&self, tool: &ToolName) -> Option<Digest> {
        let (_, pinned) = self.find(tool)?;
        *self.of_tools.get(tool)?.output_digest.get_or_init(|| pinned.output_schema.as_ref().map(current::digest))
    }

    pub(crate) fn validators(&self) -> &Validators {
        &self.validators
    }

    pub fn workflow(&self, tool: &ToolName) -> Option<&Workflow> {
        if tool.export == Toolset::WORKFLOWS { self.toolset.workflows.get(&tool.name) } else { None }
    }

    /// Of arguments and result, as far as there are any. `None` for what is neither tool nor workflow.
    fn schemas(&self, tool: &ToolName) -> Option<(Option<&Value>, Option<&Value>)> {
        if let Some(workflow) = self.workflow(tool) {
            return Some((workflow.input_schema.as_ref(), workflow.output_schema.as_ref()));
        }
        self.find(tool).map(|(_, tool)| (Some(&tool.input_schema), tool.output_schema.as_ref()))
    }

    /// The pinned policy of the tool or workflow.
    pub fn policy(&self, tool: &ToolName) -> Option<&Policy> {
        let of_workflow = || self.workflow(tool).map(|workflow| &workflow.policy);
        self.find(tool).map(|(_, tool)| &tool.policy).or_else(of_workflow)
    }

    /// Why a call must not be sent, if it must not: a tool that the toolset does not pin, or arguments
    /// that its pinned schema refuses.
    pub fn refusal(&self, tool: &ToolName, arguments: &Json) -> Option<ToolFailure> {
        let Some((input, _)) = self.schemas(tool) else {
            return Some(ToolFailure::new(
                ErrorCode::InvalidArguments,
                format!("{tool} is not a tool of this run's toolset"),
            ));
        };
        if arguments.as_str().contains(PRIVATE) {
            let message = format!("{tool}: no member of its arguments may be called `{PRIVATE}…`");
            return Some(ToolFailure::new(ErrorCode::InvalidArguments, message));
        }
        let built = &self.of_tools.get(tool)?.input;
        let validator = built.get_or_init(|| build(tool, input?, &self.validators));
        let violations = validator.as_ref()?.validate_json(arguments.as_str()).err()?;
        Some(ToolFailure::new(
            ErrorCode::InvalidArguments,
            format!("the arguments of {tool} do not match its schema: {}", list(&violations)),
        ))
    }

    /// Why a result is not what the tool declares, if it is not.
    pub fn result_refusal(&self, tool: &ToolName, result: &Json) -> Option<ToolFailure> {
        let schema = self.schemas(tool)?.1?;
        let built = &self.of_tools.get(tool)?.output;
        let validator = built.get_or_init(|| build(tool, schema, &self.validators));
        let violations = validator.as_ref()?.validate_json(result.as_str()).err()?;
        Some(ToolFailure::new(
            ErrorCode::InvalidResult,
            format!("the result of {tool} does not match its declared output schema: {}", list(&violations)),
        ))
    }
}

/// Registration has checked the schema. If this build cannot use it all the same, the call is sent
/// unchecked: the server checks it, too.
fn build(tool: &ToolName, schema: &serde_json::Value, validators: &Validators) -> Option<Arc<Validator>> {
    match validators.of(schema) {
        Ok(validator) => Some(validator),
        Err(error) => {
            tracing::warn!(%tool, %error, "a pinned schema cannot be used; calls go out unchecked");
            None
        }
    }
}

fn list(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use rewind_model::Limits;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_not_taken_for_what_one_of_its_members_says() {
        let tool = json!({"input_schema": {"type": "object"}, "policy": Policy::default()});
        let toolset = json!({"v": 1, "host_tools": {"pay": tool}});
        let toolset: Toolset = serde_json::from_value(toolset).expect("a toolset");
        let tools = Tools::new(toolset, Arc::new(Validators::new(Limits::DEFAULT)));
        let refused = |arguments: &str| {
            tools.refusal(&ToolName::new("host", "pay"), &Json::parse(arguments).expect("JSON")).is_some()
        };
        assert!(!refused(r#"{"cents": 5}"#));
        assert!(refused(r#"{"cents": {"$serde_json::private::RawValue": "5"}}"#));
    }
}
