use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::DevError;
use crate::{
    api_key::{ApiKey, Hidden},
    files::{remove_if_there, write_private},
};

/// Name of the file, in the data folder, by which clients find a running `rewind dev`.
pub(crate) const DEV_JSON: &str = "dev.json";

/// What `dev.json` holds while everything runs.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct DevState {
    /// The API's URL.
    pub(super) api: String,
    pub(super) key: ApiKey,
    /// NATS's URL with user and password, for `nats --server`.
    pub(super) nats: String,
    /// What webhooks are signed with, for who verifies them.
    pub(super) webhook_secret: Hidden,
    pub(super) pids: Pids,
}

impl fmt::Debug for DevState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevState").field("api", &self.api).field("pids", &self.pids).finish_non_exhaustive()
    }
}

/// Process ids of the parts. That of a part that is being restarted is its last one until it has the next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pids {
    pub(super) nats: u32,
    pub(super) coordinator: u32,
    /// `node-1` first.
    pub(super) nodes: Vec<u32>,
}

impl Pids {
    pub(super) fn set(&mut self, role: Role, pid: u32) {
        match role {
            Role::Nats => self.nats = pid,
            Role::Coordinator => self.coordinator = pid,
            Role::Node(index) => {
                if self.nodes.len() <= index {
                    self.nodes.resize(index + 1, 0);
                }
                self.nodes[index] = pid;
            }
        }
    }

    /// Of every part that was started.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> {
        let both = [self.nats, self.coordinator];
        both.into_iter().chain(self.nodes.iter().copied()).filter(|pid| *pid != 0)
    }
}

/// A part of Rewind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Nats,
    Coordinator,
    /// From 0; its name counts from 1.
    Node(usize),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Nats => f.write_str("nats"),
            Role::Coordinator => f.write_str("coordinator"),
            Role::Node(index) => write!(f, "node-{}", index + 1),
        }
    }
}

#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
}

impl StateFile {
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self { path: folder.join(DEV_JSON) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// # Errors
    /// When the folder cannot be written to.
    pub(super) fn write(&self, state: &DevState) -> Result<(), DevError> {
        let text = serde_json::to_string_pretty(state).map_err(|error| self.failed(error.into()))?;
        write_private(&self.path, &format!("{text}\n")).map_err(|error| self.failed(error))
    }

    /// # Errors
    /// When it is there and cannot be removed.
    pub(super) fn remove(&self) -> Result<(), DevError> {
        remove_if_there(&self.path).map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> DevError {
        DevError::Folder { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_documented_shape_and_debug_no_secret() {
        let dir = tempfile::tempdir().expect("folder");
        let mut pids = Pids::default();
        pids.set(Role::Node(1), 4);
        pids.set(Role::Nats, 1);
        pids.set(Role::Coordinator, 2);
        pids.set(Role::Node(0), 3);
        assert_eq!(pids.all().collect::<Vec<_>>(), [1, 2, 3, 4]);
        let state = DevState {
            api: "http://127.0.0.1:7346".into(),
            key: ApiKey::random(),
            nats: "nats://rewind:hunter2@127.0.0.1:1".into(),
            webhook_secret: Hidden::new("whsec_hunter3".into()),
            pids,
        };
        let file = StateFile::in_folder(dir.path());
        file.write(&state).expect("written");
        let read: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(file.path()).expect("read")).expect("JSON");
        assert_eq!(read["pids"], serde_json::json!({"nats": 1, "coordinator": 2, "nodes": [3, 4]}));
        assert_eq!(read["key"].as_str(), Some(state.key.reveal()));
        let debug = format!("{state:?}");
        assert!(!debug.contains("hunter") && !debug.contains(state.key.reveal()), "{debug}");
    }
}
