use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use rewind_model::{ErrorCode, Json};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Ctx, ToolError};

type Handler = dyn Fn(Ctx, Json) -> BoxFuture<'static, Result<Json, ToolError>> + Send + Sync;

/// A host tool: its name, and its handler from JSON to JSON.
pub(crate) struct Tool {
    pub(crate) name: String,
    handler: Box<Handler>,
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tool({})", self.name)
    }
}

impl Tool {
    pub(crate) fn new<A, R, F, Fut>(name: String, handler: F) -> Self
    where
        A: DeserializeOwned + Send + 'static,
        R: Serialize + 'static,
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let handler = move |ctx: Ctx, arguments: Json| -> BoxFuture<'static, Result<Json, ToolError>> {
            let handler = Arc::clone(&handler);
            // All of the author's code, serde's included, runs where a panic of it is caught.
            Box::pin(async move {
                let arguments = parse(&arguments)?;
                let result = handler(ctx, arguments).await?;
                Json::of(&result).map_err(|error| {
                    ToolError::of_kind(
                        ErrorCode::InvalidResult,
                        format!("the result cannot be written as JSON: {error}"),
                    )
                })
            })
        };
        Self { name, handler: Box::new(handler) }
    }

    pub(crate) fn call(&self, ctx: Ctx, arguments: Json) -> BoxFuture<'static, Result<Json, ToolError>> {
        (self.handler)(ctx, arguments)
    }
}

/// The error names the member that is wrong, such as `items[2].amount_cents`.
fn parse<A: DeserializeOwned>(arguments: &Json) -> Result<A, ToolError> {
    let mut deserializer = serde_json::Deserializer::from_str(arguments.as_str());
    serde_path_to_error::deserialize(&mut deserializer)
        .map_err(|error| ToolError::of_kind(ErrorCode::InvalidArguments, error.to_string()))
}
