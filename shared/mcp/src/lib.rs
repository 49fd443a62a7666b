//! The MCP client: lists the tools of a server and calls them, over streamable HTTP or over the stdio of a
//! process that it starts, in both eras of the protocol (sessions, up to 2025-11-25; stateless, from
//! 2026-07-28).
//!
//! The journal owns retries: nothing here sends a call twice unless the first one is known to have
//! been refused unprocessed (see [`Client::call`]). Every error says whether the call may have
//! reached the tool ([`McpError::may_have_been_sent`]).
//!
//! `rmcp` speaks the protocol: handshake, negotiation, headers, request ids, cancellation. The exchange
//! under it is this crate's own (`http`, `stdio`), for three things that `rmcp`'s does not give:
//! arguments and results as the exact text that was sent and received (a parsed value rounds an
//! integer over 64 bits), an error that tells "nothing was sent" from "the answer was lost", and one
//! broken tool in a list that does not spoil the others.

mod call;
mod changes;
mod client;
mod connection;
mod endpoint;
mod error;
mod events;
mod exchange;
mod http;
mod listing;
mod stdio;
mod transport;
mod wire;

pub use call::{Call, CallResult, Unwrapped, unwrap};
pub use client::Client;
pub use endpoint::Endpoint;
pub use error::McpError;
pub use listing::{Era, ListLimits, Listing};
