//! JSON bodies: bounded, strict, and refused with the place of what is wrong.

use std::time::Duration;

use axum::{
    extract::{FromRequest, Request},
    http::header,
};
use futures::StreamExt;
use rewind_model::ProblemCode;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

use crate::refusal::Refusal;

/// Bytes of a request's body.
pub(crate) const BODY_LIMIT: usize = 1 << 20;
/// Bytes of a body over the limit that are read before the client is cut off.
const DRAINED: usize = 64 << 20;
/// A client that has not sent its body after this long is not served.
const PATIENCE: Duration = Duration::from_secs(30);

/// Of a body that may hold a cassette.
pub(crate) const LARGE_BODY: usize = 32 << 20;

/// The request's body as a `T`; of at most `LIMIT` bytes.
#[derive(Debug)]
pub(crate) struct Body<T, const LIMIT: usize = BODY_LIMIT>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned, const LIMIT: usize> FromRequest<S> for Body<T, LIMIT> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Refusal> {
        require_json(&request)?;
        let body = tokio::time::timeout(PATIENCE, read(request, LIMIT)).await;
        let slow = |_| Refusal::new(ProblemCode::InvalidRequest, format!("the body did not come within {PATIENCE:?}"));
        parse(&body.map_err(slow)??).map(Self)
    }
}

fn require_json(request: &Request) -> Result<(), Refusal> {
    let given = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("none");
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json")) {
        return Ok(());
    }
    let shown: String = given.chars().take(80).collect();
    Err(Refusal::new(ProblemCode::UnsupportedMediaType, format!("Content-Type is {shown:?}, not application/json")))
}

/// Reads the body, if it is within the limit. What is over it is read, too, and forgotten: a client
/// that is cut off while it sends sees a broken connection instead of the answer.
async fn read(request: Request, limit: usize) -> Result<Vec<u8>, Refusal> {
    let mut body = Vec::new();
    let mut bytes = 0;
    let mut chunks = request.into_body().into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Refusal::invalid(format!("the body could not be read: {error}")))?;
        bytes += chunk.len();
        if bytes > DRAINED {
            break;
        }
        if bytes > limit {
            body = Vec::new();
        } else {
            body.extend_from_slice(&chunk);
        }
    }
    if bytes > limit {
        return Err(Refusal::new(ProblemCode::BodyTooLarge, format!("the limit is {limit} bytes")));
    }
    Ok(body)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    // Derived structures take arrays as well, member by member.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
        return Err(Refusal::invalid("the body is an array, and an object is expected"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let parsed = T::deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    parsed.map_err(|error| {
        // serde calls a value of a wrong kind a fault of the syntax where an enum is wanted.
        let is_json = || serde_json::from_slice::<IgnoredAny>(body).is_ok();
        let code = match error.classify() {
            Category::Data => ProblemCode::InvalidRequest,
            Category::Syntax if is_json() => ProblemCode::InvalidRequest,
            Category::Syntax | Category::Eof | Category::Io => ProblemCode::MalformedJson,
        };
        // Its text ends with "at line L column C", and names an unknown field.
        Refusal::new(code, error.to_string())
    })
}
