use std::{fmt, fs, io, path::Path};

use serde::{Deserialize, Serialize};

use super::DevError;
use crate::{
    api_key::{ApiKey, random_hex},
    files::write_private,
};

/// Made once for a folder, so that a key given out keeps working.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Secrets {
    pub(super) api_key: ApiKey,
    pub(super) nats_password: String,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(hidden)")
    }
}

impl Secrets {
    /// # Errors
    /// When the file cannot be read or written, or holds something else.
    pub(super) fn load_or_create(folder: &Path) -> Result<Self, DevError> {
        let path = folder.join("dev-secrets.json");
        let failed = |source| DevError::Folder { path: path.clone(), source };
        match fs::read_to_string(&path) {
            Ok(text) => {
                serde_json::from_str(&text).map_err(|error| DevError::Secrets(path.display().to_string(), error))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let secrets = Self { api_key: ApiKey::random(), nats_password: random_hex() };
                let text = serde_json::to_string_pretty(&secrets).map_err(|error| failed(error.into()))?;
                write_private(&path, &text).map_err(failed)?;
                Ok(secrets)
            }
            Err(source) => Err(failed(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_made_once() {
        let dir = tempfile::tempdir().expect("folder");
        let first = Secrets::load_or_create(dir.path()).expect("made");
        assert_eq!(first, Secrets::load_or_create(dir.path()).expect("loaded"));
        assert_eq!(format!("{first:?}"), "Secrets(hidden)");
        fs::write(dir.path().join("dev-secrets.json"), "{}").expect("written");
        assert!(matches!(Secrets::load_or_create(dir.path()), Err(DevError::Secrets(..))));
    }
}
