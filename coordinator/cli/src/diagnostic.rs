//! What the type-checker says of a script, as text.

use std::path::Path;

use rewind_model::{Diagnostic, Run};

use crate::{
    error::Error,
    output::{one_line, printable},
};

/// What the API calls every script.
const SCRIPT: &str = "script.ts";

/// `script.ts:line:col CODE message`, and the hint on a line of its own.
pub(crate) fn diagnostic_text(diagnostic: &Diagnostic) -> String {
    let Diagnostic { file, line, column, code, message, hint } = diagnostic;
    let place = format!("{}:{line}:{column} {}", one_line(file), one_line(code));
    let mut text = format!("{place} {}", printable(message).replace('\n', "\n    "));
    if let Some(hint) = hint {
        text.push_str("\n    hint: ");
        text.push_str(&one_line(hint));
    }
    text
}

/// Those of a script, by the name under which it was given. One that came from stdin has none.
pub(crate) fn name<'d>(path: Option<&Path>, diagnostics: impl IntoIterator<Item = &'d mut Diagnostic>) {
    let Some(path) = path.filter(|path| *path != Path::new("-")) else { return };
    for diagnostic in diagnostics.into_iter().filter(|diagnostic| diagnostic.file == SCRIPT) {
        diagnostic.file = path.display().to_string();
    }
}

/// [`name`], for what kept a script from being run.
pub(crate) fn name_in_error(path: Option<&Path>, mut error: Error) -> Error {
    if let Error::Refused(problem) = &mut error {
        name(path, problem.diagnostics.iter_mut().chain(&mut problem.warnings));
    }
    error
}

/// [`name`], for what did not keep it.
pub(crate) fn name_in_run(path: Option<&Path>, mut run: Run) -> Run {
    name(path, &mut run.warnings);
    run
}
