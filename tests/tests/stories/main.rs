//! Stories of whole systems: real processes, through public interfaces only.

mod bad_input;
mod cancels;
mod crowds;
mod decisions;
mod demo;
mod drift;
mod forks;
mod intruders;
mod kills;
mod later;
mod limits;
mod observed;
mod once;
mod outages;
mod parking;
mod restarts;
mod retention;
mod scripts;
mod sleepers;
mod stdio;
mod support;
mod toolsets;
mod webhooks;
mod workflows;
