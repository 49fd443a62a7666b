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

/// Characters of what is said about a wrong body: it may name a member, and that is as long as somebody likes.
const LONGEST_REASON: usize = 1 << 10;

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
    read_json(body).map_err(|wrong| match wrong {
        Wrong::Syntax(why) => Refusal::new(ProblemCode::MalformedJson, why),
        Wrong::Value(why) => Refusal::invalid(why),
    })
}

/// Why a text is not the JSON that is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It is no JSON; the text says at which line and column.
    Syntax(String),
    /// It is JSON; the text says where in it, `a.b[0]: …`, and names an unknown member.
    Value(String),
}

pub(crate) fn read_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, Wrong> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let (path, error) = match serde_path_to_error::deserialize(&mut deserializer) {
        Ok(value) => return deserializer.end().map(|()| value).map_err(|error| Wrong::Syntax(error.to_string())),
        Err(error) => (error.path().to_string(), error.into_inner()),
    };
    // serde calls a value of a wrong kind a fault of the syntax where an enum is wanted.
    if error.classify() != Category::Data && serde_json::from_slice::<IgnoredAny>(text).is_err() {
        return Err(Wrong::Syntax(error.to_string()));
    }
    let (message, place) = (error.to_string(), format!(" at line {} column {}", error.line(), error.column()));
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let whole = if path == "." { message.to_owned() } else { format!("{path}: {message}") };
    Err(Wrong::Value(whole.chars().take(LONGEST_REASON).collect()))
}

#[cfg(test)]
mod tests {
    use rewind_model::{RegisterToolset, StartRun};

    use super::*;

    fn wrong<T: DeserializeOwned + std::fmt::Debug>(text: &str) -> Wrong {
        read_json::<T>(text.as_bytes()).expect_err("refused")
    }

    #[test]
    fn what_is_wrong_is_named_by_its_path() {
        let value = |why: &str| Wrong::Value(why.to_owned());
        let found = wrong::<RegisterToolset>(r#"{"host_tools": {"ask": {"input_schema": {}}}}"#);
        assert_eq!(found, value("host_tools.ask: missing field `description`"));
        let found = wrong::<RegisterToolset>(r#"{"mcp_servers": {"s": {"url": 7}}}"#);
        assert_eq!(found, value("mcp_servers.s.url: invalid type: integer `7`, expected a string"));
        assert_eq!(wrong::<StartRun>("{}"), value("missing field `toolset`"));
        let Wrong::Syntax(why) = wrong::<StartRun>("{\n  toolset: 1}") else { panic!("no JSON") };
        assert!(why.ends_with("at line 2 column 3"), "{why}");
        assert!(
            matches!(wrong::<StartRun>(&format!("{{\"{}\": 1}}", "x".repeat(9_999))), Wrong::Value(why) if why.len() <= LONGEST_REASON)
        );
    }

    #[test]
    fn raw_json_keeps_its_text() {
        let toolset = format!("ts_{}", "0".repeat(64));
        let text =
            format!(r#"{{"toolset": "{toolset}", "input": {{"n": 12345678901234567890123}}, "cassette": null}}"#);
        let request: StartRun = read_json(text.as_bytes()).expect("a request");
        assert_eq!(request.input.as_str(), r#"{"n": 12345678901234567890123}"#);
        assert!(request.cassette.is_some_and(|cassette| cassette.as_str() == "null"));
    }
}
