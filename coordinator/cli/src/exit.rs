use std::process::ExitCode;

/// Exit codes of `rewind`. Scripts rely on them: a code never gets another meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did what it says.
    Done,
    /// `run start --wait`, `run fork --wait` and `run watch`: the run failed or was cancelled.
    /// `toolset check`: the script has errors.
    Failed,
    /// The command line, or a file that it names, is wrong. The code that clap uses as well.
    Usage,
    /// The API refused the request; its problem is on stderr.
    Refused,
    /// No server was found, it did not answer, or what answered is not Rewind's API.
    Unreachable,
    /// Something on this machine failed: `rewind dev` could not start, or output could not be written.
    Local,
}

impl Exit {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::Unreachable => 4,
            Exit::Local => 5,
        }
    }

    /// The table that `--help` ends with.
    pub(crate) const HELP: &'static str = "\
Exit codes:
  0  done
  1  the run failed or was cancelled (run start --wait, run fork --wait, run watch), or the script has errors
     (toolset check)
  2  the command line, or a file that it names, is wrong
  3  the API refused the request, or a script with errors (run start, run fork); its problem is printed
  4  the server cannot be reached, or is not Rewind's API
  5  something on this machine failed (rewind dev could not start, output could not be written)";
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_code() {
        for exit in [Exit::Done, Exit::Failed, Exit::Usage, Exit::Refused, Exit::Unreachable, Exit::Local] {
            assert!(Exit::HELP.contains(&format!("\n  {}  ", exit.code())), "{exit:?}");
        }
    }
}
