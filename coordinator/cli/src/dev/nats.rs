use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde_json::json;
use tokio::{io::AsyncReadExt as _, net::TcpStream, time::timeout};

use super::{DevError, secrets::Secrets};
use crate::files::write_private;

const USER: &str = "rewind";
/// NATS's own default; larger payloads are kept as blobs.
const MAX_PAYLOAD: u32 = 1 << 20;
const POLL: Duration = Duration::from_millis(25);
const ANSWER: Duration = Duration::from_secs(2);

/// The nats-server of one `rewind dev`.
#[derive(Debug)]
pub(super) struct Nats {
    pub(super) address: SocketAddr,
    pub(super) monitor: Option<SocketAddr>,
    /// JetStream's files are in `jetstream` under it.
    pub(super) data: PathBuf,
    pub(super) sync_always: bool,
}

impl Nats {
    pub(super) fn config_path(&self) -> PathBuf {
        self.data.join("nats-server.conf")
    }

    /// With the password in it: for `dev.json` and the parts only.
    pub(super) fn url(&self, secrets: &Secrets) -> String {
        format!("nats://{USER}:{}@{}", secrets.nats_password, self.address)
    }

    /// # Errors
    /// When the folder cannot be written to.
    pub(super) fn write_config(&self, secrets: &Secrets) -> Result<(), DevError> {
        let path = self.config_path();
        write_private(&path, &self.config(secrets)).map_err(|source| DevError::Folder { path, source })
    }

    /// NATS's configuration format is a superset of JSON, and JSON needs no quoting of our own.
    fn config(&self, secrets: &Secrets) -> String {
        let mut config = json!({
            "server_name": "rewind-dev",
            "host": self.address.ip().to_string(),
            "port": self.address.port(),
            "max_payload": MAX_PAYLOAD,
            "authorization": { "user": USER, "password": secrets.nats_password },
            // nats-server adds `jetstream` to this folder.
            "jetstream": { "store_dir": self.data.to_string_lossy() },
        });
        if self.sync_always {
            config["jetstream"]["sync_interval"] = "always".into();
        }
        if let Some(monitor) = self.monitor {
            config["http"] = monitor.to_string().into();
        }
        format!("{config:#}\n")
    }

    /// Returns once nats-server greets its clients, which it does after JetStream has recovered.
    pub(super) async fn wait_until_ready(&self) {
        while !timeout(ANSWER, self.greets()).await.unwrap_or(false) {
            tokio::time::sleep(POLL).await;
        }
    }

    async fn greets(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(self.address).await else {
            return false;
        };
        let mut greeting = [0; 5];
        stream.read_exact(&mut greeting).await.is_ok() && &greeting == b"INFO "
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_loopback_only_and_private() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().expect("folder");
        let secrets = Secrets::load_or_create(dir.path()).expect("made");
        let mut nats = Nats {
            address: "127.0.0.1:4222".parse().expect("address"),
            monitor: None,
            data: dir.path().into(),
            sync_always: false,
        };
        nats.write_config(&secrets).expect("written");
        let mode = std::fs::metadata(nats.config_path()).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = |nats: &Nats| serde_json::from_str::<serde_json::Value>(&nats.config(&secrets)).expect("JSON");
        let plain = read(&nats);
        assert_eq!((plain["host"].as_str(), plain["port"].as_u64()), (Some("127.0.0.1"), Some(4222)));
        assert!(plain.get("http").is_none() && plain["jetstream"].get("sync_interval").is_none());

        nats.sync_always = true;
        nats.monitor = Some("127.0.0.1:8222".parse().expect("address"));
        let asked = read(&nats);
        assert_eq!(asked["jetstream"]["sync_interval"], "always");
        assert_eq!(asked["http"], "127.0.0.1:8222");
    }
}
