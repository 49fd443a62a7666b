//! A script, a node and a world without IO, to run whole lives of runs in microseconds.
#![allow(dead_code, reason = "each test binary uses some of it")]

pub(crate) mod chance;
pub(crate) mod crash;
pub(crate) mod fixtures;
pub(crate) mod life;
pub(crate) mod node;
pub(crate) mod oracle;
pub(crate) mod past;
pub(crate) mod script;
pub(crate) mod simulation;
