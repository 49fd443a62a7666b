//! One call, its result, and the rule by which a script sees the result.

use std::{ops::Range, time::Duration};

use rewind_model::{Json, TraceContext};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{Era, error::excerpt};

/// One attempt of a call.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The tool's own name, verbatim.
    pub tool: &'a str,
    /// A JSON object. It is sent as this very text, so that its numbers stay exact.
    pub arguments: &'a Json,
    /// The idempotency key: `_meta["codes.rewind/idempotency-key"]`.
    pub key: &'a str,
    /// `_meta.traceparent` and `_meta.tracestate`.
    pub trace: Option<&'a TraceContext>,
    /// From now to the end of the answer, opening a connection included.
    pub timeout: Duration,
    /// How long the server may be silent; progress notifications break the silence.
    pub idle_timeout: Option<Duration>,
    /// Bytes of the result's JSON text.
    pub max_result_bytes: usize,
}

impl<'a> Call<'a> {
    /// The `_meta` member that carries the idempotency key.
    pub const KEY_MEMBER: &'static str = "codes.rewind/idempotency-key";
    /// Unless the call says otherwise.
    pub const MAX_RESULT_BYTES: usize = 16 << 20;

    /// A call with the default timeout of a policy (60 s) and result limit, and no trace.
    pub fn new(tool: &'a str, arguments: &'a Json, key: &'a str) -> Self {
        Self {
            tool,
            arguments,
            key,
            trace: None,
            timeout: Duration::from_secs(60),
            idle_timeout: None,
            max_result_bytes: Self::MAX_RESULT_BYTES,
        }
    }
}

/// A `CallToolResult`: <https://modelcontextprotocol.io/specification/2026-07-28/server/tools>.
///
/// It holds the text that the server sent, once; the parts are slices of it.
#[derive(Debug, Clone)]
pub struct CallResult {
    raw: Json,
    is_error: bool,
    content: Vec<Range<usize>>,
    structured_content: Option<Range<usize>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parts<'a> {
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(borrow, default)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default, deserialize_with = "present")]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    result_type: Option<String>,
}

/// `null` is a value of its own here.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Why a JSON-RPC result is no [`CallResult`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoCallResult {
    Malformed(String),
    /// A `resultType` other than `complete`.
    Unsupported(String),
}

impl CallResult {
    /// Reads the `result` of a `tools/call` answer.
    ///
    /// A legacy server's `"structuredContent": null` is taken as absent: there it must be an object,
    /// and serialisers that write absent members as `null` are common.
    pub(crate) fn parse(raw: Json, era: Era) -> Result<Self, NoCallResult> {
        let text = raw.as_str();
        // serde would read an array as the members in order.
        if !text.starts_with('{') {
            return Err(NoCallResult::Malformed("it is not an object".into()));
        }
        let parts: Parts<'_> =
            serde_json::from_str(text).map_err(|error| NoCallResult::Malformed(excerpt(&error.to_string())))?;
        if let Some(kind) = parts.result_type.filter(|kind| kind != "complete") {
            return Err(NoCallResult::Unsupported(excerpt(&kind)));
        }
        let place = |part: &RawValue| {
            let start = part.get().as_ptr() as usize - text.as_ptr() as usize;
            start..start + part.get().len()
        };
        let content = parts.content.unwrap_or_default().into_iter().map(place).collect();
        let structured_content =
            parts.structured_content.filter(|value| era == Era::Stateless || value.get() != "null").map(place);
        Ok(Self { is_error: parts.is_error.unwrap_or(false), content, structured_content, raw })
    }

    /// The whole result as the server sent it.
    pub fn raw(&self) -> &Json {
        &self.raw
    }

    pub fn into_raw(self) -> Json {
        self.raw
    }

    pub fn is_error(&self) -> bool {
        self.is_error
    }

    /// JSON texts of the content blocks.
    pub fn content(&self) -> impl ExactSizeIterator<Item = &str> {
        self.content.iter().map(|place| &self.raw.as_str()[place.clone()])
    }

    /// JSON text; may be any JSON.
    pub fn structured_content(&self) -> Option<&str> {
        self.structured_content.clone().map(|place| &self.raw.as_str()[place])
    }

    fn texts(&self) -> impl Iterator<Item = String> {
        self.content().filter_map(text_of)
    }
}

/// What a script sees of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwrapped {
    Value(Json),
    /// The tool says that it failed, and why: its text blocks, at most 4 KiB of them.
    Failed(String),
}

/// The one rule for the result of a call: `isError` is a failure; else `structuredContent` if there is one; else,
/// if the content is exactly one text block, that text parsed as JSON where it is JSON and the text
/// itself where it is not; else the array of content blocks.
pub fn unwrap(result: &CallResult) -> Unwrapped {
    if result.is_error {
        return Unwrapped::Failed(failure(result));
    }
    if let Some(text) = result.structured_content() {
        return Unwrapped::Value(json(text.to_owned()));
    }
    let mut blocks = result.content();
    if let (Some(only), None) = (blocks.next(), blocks.next())
        && let Some(text) = text_of(only)
    {
        return Unwrapped::Value(
            Json::parse(text.clone()).unwrap_or_else(|_| Json::from(serde_json::Value::String(text))),
        );
    }
    let blocks: Vec<&str> = result.content().collect();
    Unwrapped::Value(json(format!("[{}]", blocks.join(","))))
}

fn json(text: String) -> Json {
    Json::parse(text).expect("part of a JSON text that has been parsed, or an array of such parts")
}

fn failure(result: &CallResult) -> String {
    const LONGEST: usize = 4 << 10;
    let mut message = result.texts().collect::<Vec<_>>().join("\n");
    if message.trim().is_empty() {
        message = result.structured_content().unwrap_or("the tool failed and does not say why").to_owned();
    }
    if message.len() > LONGEST {
        message.truncate(message.floor_char_boundary(LONGEST));
        message.push('…');
    }
    message
}

/// The text of a text block.
fn text_of(block: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Block {
        r#type: String,
        text: String,
    }
    serde_json::from_str(block).ok().filter(|block: &Block| block.r#type == "text").map(|block| block.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, era: Era) -> Result<CallResult, NoCallResult> {
        CallResult::parse(Json::parse(text).expect("JSON"), era)
    }

    fn value(text: &str) -> String {
        match unwrap(&parse(text, Era::Stateless).expect("a result")) {
            Unwrapped::Value(json) => json.into_string(),
            Unwrapped::Failed(message) => panic!("failed: {message}"),
        }
    }

    fn failed(text: &str) -> String {
        match unwrap(&parse(text, Era::Stateless).expect("a result")) {
            Unwrapped::Value(json) => panic!("a value: {}", json.as_str()),
            Unwrapped::Failed(message) => message,
        }
    }

    #[test]
    fn structured_content_wins_over_text() {
        assert_eq!(value(r#"{"content":[{"type":"text","text":"1"}],"structuredContent":{"a": 2}}"#), r#"{"a": 2}"#);
        assert_eq!(value(r#"{"content":[{"type":"text","text":"1"}],"structuredContent":false}"#), "false");
        assert_eq!(value(r#"{"content":[],"structuredContent":null}"#), "null");
    }

    #[test]
    fn null_structured_content_of_a_legacy_server_is_absent() {
        let result = parse(r#"{"content":[{"type":"text","text":"7"}],"structuredContent":null}"#, Era::Session);
        assert_eq!(unwrap(&result.expect("a result")), Unwrapped::Value(Json::parse("7").expect("JSON")));
    }

    #[test]
    fn one_text_block_is_json_where_it_is_json() {
        assert_eq!(value(r#"{"content":[{"type":"text","text":" {\"a\":1} "}]}"#), r#"{"a":1}"#);
        assert_eq!(value(r#"{"content":[{"type":"text","text":"{\"a\":"}]}"#), r#""{\"a\":""#);
        assert_eq!(value(r#"{"content":[{"type":"text","text":"plain"}]}"#), r#""plain""#);
        assert_eq!(value(r#"{"content":[{"type":"text","text":""}]}"#), r#""""#);
        assert_eq!(value(r#"{"content":[{"type":"text","text":"NaN"}]}"#), r#""NaN""#);
    }

    #[test]
    fn other_content_is_the_array_of_blocks_as_sent() {
        assert_eq!(value(r#"{"content":[]}"#), "[]");
        assert_eq!(
            value(r#"{"content":[{"type":"image","data":"","mimeType":"image/png"}]}"#),
            r#"[{"type":"image","data":"","mimeType":"image/png"}]"#
        );
        let two = r#"[{"type":"text","text":"1"},{"type":"text","text":"2","annotations":{"priority":1.0}}]"#;
        assert_eq!(value(&format!(r#"{{"content":{two}}}"#)), two);
    }

    #[test]
    fn numbers_that_no_double_holds_stay_exact() {
        let big = "12345678901234567890123.00000000000000000001";
        assert_eq!(
            value(&format!(r#"{{"content":[],"structuredContent":{{"n":{big}}}}}"#)),
            format!(r#"{{"n":{big}}}"#)
        );
        assert_eq!(value(&format!(r#"{{"content":[{{"type":"text","text":"{big}"}}]}}"#)), big);
    }

    #[test]
    fn an_error_is_told_by_its_text_blocks() {
        let both = r#"{"isError":true,"content":[{"type":"text","text":"no such"},{"type":"image"},{"type":"text","text":"repo"}]}"#;
        assert_eq!(failed(both), "no such\nrepo");
        assert_eq!(failed(r#"{"isError":true,"content":[]}"#), "the tool failed and does not say why");
        assert_eq!(failed(r#"{"isError":true,"content":[],"structuredContent":{"why":1}}"#), r#"{"why":1}"#);
        let long = format!(r#"{{"isError":true,"content":[{{"type":"text","text":"{}"}}]}}"#, "é".repeat(4_000));
        assert_eq!(failed(&long).len(), 4_096 + "…".len());
    }

    #[test]
    fn what_is_no_complete_result_is_refused() {
        let unsupported = |kind: &str| Err(NoCallResult::Unsupported(kind.to_owned()));
        assert_eq!(
            parse(r#"{"resultType":"input_required"}"#, Era::Stateless).map(|_| ()),
            unsupported("input_required")
        );
        assert_eq!(parse(r#"{"resultType":"task","taskId":"1"}"#, Era::Stateless).map(|_| ()), unsupported("task"));
        assert!(parse(r#"{"resultType":"complete","content":[]}"#, Era::Stateless).is_ok());
        for bad in ["[]", "1", r#"{"content":1}"#, r#"{"isError":"yes"}"#] {
            assert!(matches!(parse(bad, Era::Stateless), Err(NoCallResult::Malformed(_))), "{bad}");
        }
    }
}
