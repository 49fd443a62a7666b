//! A script, a node and a world without IO, to run whole lives of runs in microseconds.

pub(crate) mod fixtures;
pub(crate) mod oracle;
pub(crate) mod script;
pub(crate) mod simulation;
