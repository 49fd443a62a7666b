//! Whole systems for story tests, the demo and the benchmarks: real processes, on loopback, each
//! with a folder of its own, ended by their own pid.

mod client;
mod cluster;
mod effects;
mod peers;
mod process;
mod tools;
mod wait;

pub use client::{Api, Refusal};
pub use cluster::{Cluster, ClusterOptions, Coordinator, DevFile, Pids};
pub use effects::{Effect, effects_of, one_effect_per_key};
pub use peers::Everything;
pub use process::{Peer, kill, pause, resume};
pub use tools::Tools;
pub use wait::{eventually, eventually_within};
