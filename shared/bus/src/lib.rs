//! Rewind on NATS: the only crate that talks to it.
//!
//! [`Bus`] is one connection with all of Rewind's streams and buckets behind it; each noun has its
//! file: the fenced [`journal`], [`command`]s to runs, [`host`] calls, [`blob`]s, the [`catalog`], the
//! [`cluster`]'s leases, API [`key`]s, what
//! results looked like. Every name on the wire is in [`names`].

mod begun;
pub mod blob;
pub mod catalog;
pub mod cluster;
pub mod command;
mod connection;
pub mod dead;
mod error;
pub mod event;
pub mod host;
pub mod journal;
pub mod key;
pub mod names;
mod object;
mod observed;
mod publish;
mod purge;
mod refs;
mod streams;
mod timer;

pub use connection::{Bus, Url};
pub use error::BusError;
