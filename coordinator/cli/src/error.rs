use std::{fmt::Write as _, io, path::PathBuf};

use rewind_model::Problem;

use crate::{diagnostic::diagnostic_text, exit::Exit, output::printable};

/// Why a command did not do what it says.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} ({}, {})", .0.title, .0.slug(), .0.status)]
    Refused(Box<Problem>),
    #[error("{} ({}, {})\n{}", .problem.title, .problem.slug(), .problem.status, give_a_key(*sent))]
    Unauthorized { problem: Box<Problem>, sent: bool },
    #[error(
        "no server: give --api URL and --key KEY (or REWIND_API and REWIND_KEY), or start `rewind dev`; \
         looked for {}", .0.display()
    )]
    NoServer(PathBuf),
    #[error("{api} cannot be reached: {reason}. Is the coordinator (or `rewind dev`) running?")]
    Unreachable { api: String, reason: String },
    #[error("{api} does not answer as Rewind's API does: {reason}")]
    NotRewind { api: String, reason: String },
    #[error("output cannot be written: {0}")]
    Output(#[from] io::Error),
    #[error(transparent)]
    Dev(#[from] crate::dev::DevError),
}

fn give_a_key(sent: bool) -> &'static str {
    if sent {
        "the key that was sent is not one of this server's: give another with --key or REWIND_KEY"
    } else {
        "no key was sent: give one with --key or REWIND_KEY; with --api (or REWIND_API), that of dev.json is not used"
    }
}

impl Error {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Error::Usage(_) | Error::Unreadable { .. } => Exit::Usage,
            Error::Refused(_) | Error::Unauthorized { .. } => Exit::Refused,
            Error::NoServer(_) | Error::Unreachable { .. } | Error::NotRewind { .. } => Exit::Unreachable,
            // `rewind run list | head`: whoever read the output has seen enough.
            Error::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Error::Output(_) | Error::Dev(_) => Exit::Local,
        }
    }

    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Error::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// May the same request succeed in a moment, because the coordinator or its store is restarting?
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Error::Unreachable { .. } => true,
            Error::Refused(problem) => problem.status == 503,
            Error::Usage(_)
            | Error::Unreadable { .. }
            | Error::Unauthorized { .. }
            | Error::NoServer(_)
            | Error::NotRewind { .. }
            | Error::Output(_)
            | Error::Dev(_) => false,
        }
    }

    /// What stands on stderr: the message, and of a problem its diagnostics, or its detail where it has none.
    pub(crate) fn report(&self) -> String {
        let mut text = format!("error: {}", printable(&self.to_string()));
        if let Error::Refused(problem) = self {
            // The detail repeats the first of the diagnostics.
            if let Some(detail) = problem.detail.as_ref().filter(|_| problem.diagnostics.is_empty()) {
                let _ = write!(text, "\n{}", printable(detail));
            }
            for diagnostic in &problem.diagnostics {
                let _ = write!(text, "\n{}", diagnostic_text(diagnostic));
            }
            for warning in &problem.warnings {
                let _ = write!(text, "\nwarning: {}", diagnostic_text(warning));
            }
        }
        text
    }
}
