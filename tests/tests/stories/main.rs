//! Stories of whole systems: real processes, through public interfaces only.

mod bad_input;
mod decisions;
mod demo;
mod drift;
mod intruders;
mod kills;
mod limits;
mod observed;
mod outages;
mod restarts;
mod scripts;
mod sleepers;
mod stdio;
mod support;
mod toolsets;
mod workflows;
