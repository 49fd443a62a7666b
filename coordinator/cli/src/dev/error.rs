use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use rewind_model::format_duration;

/// Why `rewind dev` did not start, or stopped by itself.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevError {
    #[error("{} cannot be used: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("rewind dev already runs on {} (process {pid}): stop it, or give another --data", path.display())]
    Running { path: PathBuf, pid: String },
    #[error("{0} is not what rewind dev wrote ({1}): repair it, or move it away and lose the runs' key")]
    Secrets(String, serde_json::Error),
    #[error("{what} was not found: {hint}; looked at {looked}")]
    Missing { what: &'static str, hint: &'static str, looked: String },
    #[error("{address} is not free: {source}; give another address, or port 0 for a free one")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("{role} {ending} before it was ready; {output}")]
    Part { role: String, ending: String, output: String },
    #[error("not ready after {}: {missing}. The output above (or DIR/logs) says why", format_duration(*after))]
    NotReady { after: Duration, missing: String },
    #[error("signals cannot be received: {0}")]
    Signals(io::Error),
    #[error("no HTTP client can be made: {0}")]
    Http(reqwest::Error),
    #[error("the supervisor of the parts ended: this is a fault in rewind dev")]
    Supervisor,
}
