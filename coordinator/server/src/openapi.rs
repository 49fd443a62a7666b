//! The OpenAPI document: what the handlers' annotations say, and what is true of all of them.

use utoipa::openapi::{
    Content, OpenApi, PathItem, Ref, RefOr, Response, ResponseBuilder,
    path::Operation,
    security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
};

/// Name of the security scheme.
const KEY: &str = "api_key";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "Rewind", description = "Durable runs of scripts that a language model wrote."),
    components(schemas(rewind_model::Problem, rewind_model::ProblemCode, rewind_model::Event)),
    tags((name = "toolsets"), (name = "runs"), (name = "webhooks"), (name = "operation"))
)]
pub(crate) struct Document;

/// Adds to every operation under `/v1` that it needs a key, and to all that each can answer with a problem.
pub(crate) fn complete(document: &mut OpenApi) {
    if let Some(components) = &mut document.components {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("An API key.")).build();
        components.add_security_scheme(KEY, SecurityScheme::Http(bearer));
    }
    for (path, item) in &mut document.paths.paths {
        let guarded = path.starts_with("/v1/");
        for operation in operations(item) {
            let responses = &mut operation.responses.responses;
            responses
                .insert("default".into(), RefOr::T(problem("A problem (RFC 9457); `type` names the page about it.")));
            if guarded {
                responses.insert("401".into(), RefOr::T(problem("The API key is missing or wrong.")));
                responses.insert(
                    "503".into(),
                    RefOr::T(problem("NATS does not answer, or too much is under way: `Retry-After`.")),
                );
                operation.security = Some(vec![SecurityRequirement::new(KEY, Vec::<String>::new())]);
            }
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.delete, &mut item.patch]
        .into_iter()
        .filter_map(Option::as_mut)
}

fn problem(description: &str) -> Response {
    let schema = Content::new(Some(Ref::from_schema_name("Problem")));
    ResponseBuilder::new().description(description).content("application/problem+json", schema).build()
}
