//! JSON bodies: bounded, strict, and refused with the place of what is wrong.

use std::time::Duration;

use axum::{
    extract::{
        FromRequest, Request,
        rejection::{BytesRejection, FailedToBufferBody},
    },
    http::header,
};
use bytes::Bytes;
use rewind_model::ProblemCode;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::refusal::Refusal;

/// Bytes of a request's body.
pub(crate) const BODY_LIMIT: usize = 1 << 20;
/// A client that has not sent its body after this long is not served.
const PATIENCE: Duration = Duration::from_secs(30);

/// The request's body as a `T`.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        require_json(&request)?;
        let body = tokio::time::timeout(PATIENCE, Bytes::from_request(request, state)).await;
        let slow = |_| Refusal::new(ProblemCode::InvalidRequest, format!("the body did not come within {PATIENCE:?}"));
        parse(&body.map_err(slow)?.map_err(unreadable)?).map(Self)
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

fn unreadable(rejection: BytesRejection) -> Refusal {
    match rejection {
        BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_)) => {
            Refusal::new(ProblemCode::BodyTooLarge, format!("the limit is {BODY_LIMIT} bytes"))
        }
        other => Refusal::invalid(format!("the body could not be read: {other}")),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let parsed = T::deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    parsed.map_err(|error| {
        let code = match error.classify() {
            Category::Data => ProblemCode::InvalidRequest,
            Category::Syntax | Category::Eof | Category::Io => ProblemCode::MalformedJson,
        };
        // Its text ends with "at line L column C", and names an unknown field.
        Refusal::new(code, error.to_string())
    })
}
