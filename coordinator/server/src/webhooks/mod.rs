//! Webhooks: harnesses are told when runs end and when calls wait for somebody.
//!
//! ```text
//! projection ─ backlog ─ publisher (of the leading coordinator) ─ event: what follows from the journal
//!                                      ▼
//!                                REWIND_EVENTS, each event once
//!                                      ▼
//! delivery (of every coordinator, a consumer an endpoint) ─ signature, schedule, hosts
//!                                      ▼ after a day
//!                                REWIND_DEAD ─ dead: listed, sent again
//! ```

mod backlog;
pub(crate) mod dead;
mod delivery;
mod endpoint;
mod event;
mod hosts;
mod publisher;
mod schedule;
mod settings;
mod signature;

pub(crate) use delivery::deliver;
pub(crate) use endpoint::Endpoint;
pub(crate) use publisher::publish;
pub(crate) use settings::{WebhookArgs, Webhooks};
