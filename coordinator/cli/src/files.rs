//! Files that only their owner may read.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Replaces the file at `path` by `text` (mode 0600) so that a reader sees the old or the new, never a part.
///
/// # Errors
/// When the folder cannot be written to.
pub(crate) fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // One left by a crash may have been made by hand with another mode.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The rename itself is durable once the folder is.
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => Ok(()),
    }
}

/// Removes the file at `path`; that there is none is fine.
///
/// # Errors
/// When it is there and cannot be removed.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_private_file_is_replaced_whole_and_stays_private() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("secrets.json");
        fs::write(&path, "old").expect("written");
        fs::write(dir.path().join("secrets.json.new"), "left by a crash").expect("written");
        write_private(&path, "new").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "new");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert!(!dir.path().join("secrets.json.new").exists());
        remove_if_there(&path).expect("removed");
        remove_if_there(&path).expect("nothing to remove");
    }
}
