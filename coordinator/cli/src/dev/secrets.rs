use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use super::DevError;
use crate::{
    api_key::{ApiKey, Hidden, random_hex},
    files::write_private,
};

/// Made once for a folder, so that a key and a URL of NATS that were given out keep working.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Secrets {
    pub(super) api_key: ApiKey,
    pub(super) nats_password: String,
    /// What webhooks are signed with. A folder of an older build has none yet.
    #[serde(default = "new_webhook_secret")]
    pub(super) webhook_secret: Hidden,
    /// No secret, but a part of NATS's URL as the password is. Absent until one was claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) nats_port: Option<u16>,
}

/// As the Standard Webhooks specification writes it.
fn new_webhook_secret() -> Hidden {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).expect("the operating system provides randomness");
    Hidden::new(format!("whsec_{}", STANDARD.encode(bytes)))
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
        let path = path_in(folder);
        let failed = |source| DevError::Folder { path: path.clone(), source };
        let (before, secrets) = match fs::read_to_string(&path) {
            Ok(text) => {
                let secrets: Self = serde_json::from_str(&text)
                    .map_err(|error| DevError::Secrets(path.display().to_string(), error))?;
                (Some(text), secrets)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => (None, Self::new()),
            Err(source) => return Err(failed(source)),
        };
        if before.as_ref() != Some(&secrets.to_text(&path)?) {
            secrets.write(folder)?;
        }
        Ok(secrets)
    }

    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> Result<(), DevError> {
        let path = path_in(folder);
        let written = write_private(&path, &self.to_text(&path)?);
        written.map_err(|source| DevError::Folder { path, source })
    }

    fn to_text(&self, path: &Path) -> Result<String, DevError> {
        serde_json::to_string_pretty(self).map_err(|error| DevError::Folder { path: path.into(), source: error.into() })
    }

    fn new() -> Self {
        Self {
            api_key: ApiKey::random(),
            nats_password: random_hex(),
            webhook_secret: new_webhook_secret(),
            nats_port: None,
        }
    }
}

fn path_in(folder: &Path) -> PathBuf {
    folder.join("dev-secrets.json")
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
        // One of an older build keeps what it has.
        let old = serde_json::json!({"api_key": first.api_key, "nats_password": first.nats_password}).to_string();
        fs::write(dir.path().join("dev-secrets.json"), old).expect("written");
        let more = Secrets::load_or_create(dir.path()).expect("completed");
        assert!(more.api_key == first.api_key && more.webhook_secret != first.webhook_secret);
        assert_eq!(more, Secrets::load_or_create(dir.path()).expect("loaded"));
        fs::write(dir.path().join("dev-secrets.json"), "{}").expect("written");
        assert!(matches!(Secrets::load_or_create(dir.path()), Err(DevError::Secrets(..))));
    }
}
