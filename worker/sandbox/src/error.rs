use std::{io, process::ExitStatus};

use crate::protocol::Limit;

/// Why a sandbox gave no turn.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The run made its process overrun, and the process was ended. Load the run again in a process
    /// of its own; the second time it has failed with this limit.
    #[error(
        "the script was at work when its sandbox process had to be ended for overrunning its {0:?} limit: load it again, isolated"
    )]
    Blamed(Limit),
    /// The run was at work when its process died without a limit being the reason.
    #[error("the script was at work when its sandbox process died ({0}): load it again, isolated")]
    Crashed(ExitStatus),
    /// The process ended through no fault of this run. Replay it in another.
    #[error("the sandbox process that held the run is gone: load the run again")]
    Lost,
    #[error("a sandbox process cannot be started: {0}; check the limits on processes and memory")]
    Spawn(#[source] io::Error),
    /// The child ended, or said something else, before it was confined: the kernel refused part of it.
    #[error("a sandbox process did not confine itself ({0}): its own message is on standard error")]
    NotConfined(String),
    /// One message is over what a frame may hold.
    #[error("a message to the sandbox is too large: {0}")]
    TooLarge(String),
    #[error("the sandbox pool has shut down")]
    ShutDown,
}
