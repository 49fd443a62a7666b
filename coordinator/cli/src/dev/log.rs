use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

use super::DevError;
use crate::output::printable;

/// A longer line is shown as several; in bytes.
const LONGEST_LINE: usize = 16 << 10;
/// Of a part that failed.
const SHOWN_LINES: usize = 10;
/// A log file over this becomes `NAME.log.1`, in place of the one before it; in bytes.
const LARGEST_FILE: u64 = 32 << 20;

/// Where the parts' output goes: stderr, each line after the part's name, or a file for each part.
#[derive(Debug)]
pub(super) struct Log {
    files: Option<Files>,
}

impl Log {
    /// With files in `folder`, or on stderr.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub(super) fn new(folder: Option<PathBuf>) -> Result<Self, DevError> {
        if let Some(folder) = &folder {
            fs::create_dir_all(folder).map_err(|source| DevError::Folder { path: folder.clone(), source })?;
        }
        Ok(Self { files: folder.map(|folder| Files { folder, open: Mutex::default() }) })
    }

    /// A line of `rewind dev` itself, always on stderr.
    pub(super) fn say(&self, text: &str) {
        show("rewind", text);
    }

    /// The file that the output of the part `name` is in.
    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        self.files.as_ref().map(|files| files.path(name))
    }

    /// The last lines of that file, each indented; what cannot be read is left out.
    pub(super) fn end_of(&self, name: &str) -> String {
        let bytes = self.file(name).and_then(|path| read_end(&path).ok()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<_> = text.lines().map(|line| format!("    {line}")).collect();
        lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
    }

    /// Copies the output of the part `name` until it ends.
    pub(super) async fn pump(self: Arc<Self>, name: String, output: impl AsyncRead + Unpin) {
        let mut reader = BufReader::with_capacity(LONGEST_LINE, output);
        let mut line = Vec::new();
        loop {
            let bytes = match reader.fill_buf().await {
                Ok(bytes) if !bytes.is_empty() => bytes,
                _ => break,
            };
            let newline = bytes.iter().position(|byte| *byte == b'\n');
            let room = LONGEST_LINE - line.len();
            let taken = newline.unwrap_or(bytes.len()).min(room);
            line.extend_from_slice(&bytes[..taken]);
            let ended = newline == Some(taken);
            reader.consume(taken + usize::from(ended));
            if ended || line.len() == LONGEST_LINE {
                self.line(&name, &line);
                line.clear();
            }
        }
        if !line.is_empty() {
            self.line(&name, &line);
        }
    }

    fn line(&self, name: &str, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        match &self.files {
            None => show(name, text.trim_end()),
            // A full disk must not end the parts: their output is then lost, as it would be without a log.
            Some(files) => drop(files.append(name, text.trim_end())),
        }
    }
}

fn show(name: &str, text: &str) {
    // As in `Log::line`: a closed terminal does not end the parts.
    let _ = writeln!(io::stderr().lock(), "{name} | {}", printable(text));
}

#[derive(Debug)]
struct Files {
    folder: PathBuf,
    open: Mutex<HashMap<String, (File, u64)>>,
}

impl Files {
    fn append(&self, name: &str, text: &str) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.get(name).is_none_or(|(_, size)| *size > LARGEST_FILE) {
            let opened = self.open(name)?;
            open.insert(name.to_owned(), opened);
        }
        if let Some((file, size)) = open.get_mut(name) {
            let line = format!("{text}\n");
            file.write_all(line.as_bytes())?;
            *size += line.len() as u64;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    fn open(&self, name: &str) -> io::Result<(File, u64)> {
        let path = self.path(name);
        if size_of(&path) > LARGEST_FILE {
            fs::rename(&path, self.folder.join(format!("{name}.log.1")))?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        Ok((file, size_of(&path)))
    }
}

fn read_end(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(size_of(path).saturating_sub(LONGEST_LINE as u64)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn size_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_kept_and_long_ones_divided() {
        let dir = tempfile::tempdir().expect("folder");
        let log = Arc::new(Log::new(Some(dir.path().join("logs"))).expect("log"));
        let output = format!("one\n\n{}\nno newline", "x".repeat(LONGEST_LINE + 3));
        log.pump("node-1".into(), output.as_bytes()).await;
        let text = fs::read_to_string(dir.path().join("logs/node-1.log")).expect("read");
        let lines: Vec<_> = text.lines().map(str::len).collect();
        assert_eq!(lines, [3, 0, LONGEST_LINE, 3, 10]);
    }

    #[test]
    fn a_large_file_makes_room() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("nats.log");
        File::create(&path).and_then(|file| file.set_len(LARGEST_FILE + 1)).expect("made");
        let files = Files { folder: dir.path().into(), open: Mutex::default() };
        files.append("nats", "new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "new\n");
        assert_eq!(size_of(&dir.path().join("nats.log.1")), LARGEST_FILE + 1);
    }
}
