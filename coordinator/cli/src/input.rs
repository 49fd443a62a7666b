//! What a command reads: scripts, toolsets and inputs, from a file or from stdin.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use rewind_model::Json;

use crate::{args::parse_json, error::Error};

/// More than the API takes of anything, so its own limits are what a user meets; in bytes.
const LARGEST: u64 = 64 << 20;

/// The text of the file at `path`; `-` is stdin.
///
/// # Errors
/// When it cannot be read, is not UTF-8, or is over 64 MiB.
pub(crate) fn text_of(path: &Path) -> Result<String, Error> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        let bytes = if path == Path::new("-") {
            io::stdin().lock().take(LARGEST + 1).read_to_string(&mut text)?
        } else {
            File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?
        };
        if bytes as u64 > LARGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is over {LARGEST} bytes")));
        }
        Ok(text)
    };
    read().map_err(|source| Error::Unreadable { path: path.to_owned(), source })
}

/// The lines of the file at `path`; `-` is stdin.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn lines_of(path: &Path) -> Result<Box<dyn BufRead>, Error> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let opened = File::open(path).map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
    Ok(Box::new(BufReader::new(opened)))
}

/// The JSON of the file at `path`; `-` is stdin.
///
/// # Errors
/// When it cannot be read, or is no JSON.
pub(crate) fn json_of_file(path: &Path) -> Result<Json, Error> {
    let name = if path == Path::new("-") { "stdin".into() } else { path.display().to_string() };
    parse_json(text_of(path)?, &name)
}

/// The JSON of an `--input`: the text itself, or the file after `@`.
///
/// # Errors
/// When the file cannot be read, or the text is not one JSON value.
pub(crate) fn json_of(argument: &str) -> Result<Json, Error> {
    match argument.strip_prefix('@') {
        Some(path) => json_of_file(Path::new(path)),
        None => parse_json(argument.to_owned(), "--input"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_keeps_its_exact_text() {
        assert_eq!(json_of("12345678901234567890123").expect("JSON").as_str(), "12345678901234567890123");
        assert!(matches!(json_of("{"), Err(Error::Usage(_))));
        assert!(matches!(json_of("@/nowhere/at/all"), Err(Error::Unreadable { .. })));
    }
}
