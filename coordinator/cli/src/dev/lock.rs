use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::{fd::AsRawFd as _, fd::RawFd, unix::fs::OpenOptionsExt as _},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use super::DevError;

/// How long the nats-server of a killed `rewind dev` may take to be gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// Held by the one `rewind dev` that uses a folder, and by its nats-server, whose data must not be opened twice:
/// when `rewind dev` is killed, the next one can only start once that nats-server is gone too.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// # Errors
    /// When another process holds it, or the folder cannot be written to.
    pub(super) fn take(folder: &Path) -> Result<Self, DevError> {
        let path = folder.join("dev.lock");
        let failed = |source| DevError::Folder { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(failed)?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if started.elapsed() < PATIENCE => thread::sleep(PATIENCE / 100),
                Err(TryLockError::WouldBlock) => {
                    return Err(DevError::Running { path: folder.into(), pid: holder(&mut file) });
                }
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
        }
        write_pid(&mut file).map_err(failed)?;
        Ok(Self { file })
    }

    /// The descriptor that nats-server inherits.
    pub(super) fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(20).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_refused_and_told_who_holds_it() {
        let dir = tempfile::tempdir().expect("folder");
        let first = Lock::take(dir.path()).expect("taken");
        let refused = Lock::take(dir.path()).expect_err("held").to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        Lock::take(dir.path()).expect("free again");
    }
}
