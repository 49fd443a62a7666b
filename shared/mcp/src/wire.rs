//! What is sent: the text of a message.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions, JsonRpcMessage, RequestId, RequestMetaObject};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::exchange::Exchange;

pub(crate) fn exchange_of(message: &ClientJsonRpcMessage) -> Option<&Exchange> {
    match message {
        JsonRpcMessage::Request(request) => request.request.extensions().get(),
        _ => None,
    }
}

/// The text that is sent. A call is written here, with its arguments as they were given; `rmcp` would
/// go through a parsed value twice.
pub(crate) fn text(message: &ClientJsonRpcMessage) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Request<'a> {
        jsonrpc: &'a str,
        id: &'a RequestId,
        method: &'a str,
        params: Params<'a>,
    }
    #[derive(Serialize)]
    struct Params<'a> {
        name: &'a str,
        arguments: &'a RawValue,
        #[serde(rename = "_meta")]
        meta: Option<&'a RequestMetaObject>,
    }
    if let JsonRpcMessage::Request(request) = message
        && let ClientRequest::CallToolRequest(call) = &request.request
        && let Some(arguments) = exchange_of(message).and_then(Exchange::arguments)
    {
        return serde_json::to_vec(&Request {
            jsonrpc: "2.0",
            id: &request.id,
            method: "tools/call",
            params: Params { name: &call.params.name, arguments, meta: call.extensions.get() },
        });
    }
    serde_json::to_vec(message)
}
