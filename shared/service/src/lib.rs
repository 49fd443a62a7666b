//! What every binary of Rewind does the same way: logging and tracing, orderly ends.

mod shutdown;
mod telemetry;

pub use shutdown::shutdown_signal;
pub use telemetry::{Telemetry, TelemetryArgs};
