use std::{net::SocketAddr, path::PathBuf};

use rewind_secrets::Secret;

/// The coordinator of a Rewind installation: API, toolset registry, type-checker, shard assignment.
#[derive(Debug, clap::Parser)]
#[command(version)]
pub(crate) struct Config {
    /// NATS server with JetStream, `nats://user:password@host:port`; several with commas between.
    #[arg(long, env = "REWIND_NATS", hide_env_values = true)]
    pub(crate) nats: Secret<String>,
    /// Address and port on which the API answers.
    #[arg(long, env = "REWIND_LISTEN", default_value = "127.0.0.1:7346")]
    pub(crate) listen: SocketAddr,
    /// TypeScript 7's native compiler (npm package `typescript`, `lib/tsc` of its platform package).
    #[arg(long, env = "REWIND_TSC")]
    pub(crate) tsc: PathBuf,
    /// The first API key, an administrator's: 16 to 256 visible characters of your choice. Only its hash
    /// is stored. Better given by environment: others on the machine can read a command line.
    #[arg(long, env = "REWIND_BOOTSTRAP_KEY", hide_env_values = true)]
    pub(crate) bootstrap_key: Option<Secret<String>>,
    /// Let toolsets name commands as MCP servers (stdio), and start each, with this process's rights, to list
    /// its tools: for people on one machine. Nodes need the same option to call them.
    #[arg(long, env = "REWIND_ALLOW_STDIO")]
    pub(crate) allow_stdio: bool,
    #[command(flatten)]
    pub(crate) retention: crate::retention::Retention,
    #[command(flatten)]
    pub(crate) webhooks: crate::webhooks::WebhookArgs,
    #[command(flatten)]
    pub(crate) telemetry: rewind_service::TelemetryArgs,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let config = Config::try_parse_from([
            "rewind-coordinator",
            "--nats",
            "nats://me:hunter2@host",
            "--tsc",
            "/tsc",
            "--bootstrap-key",
            "rw_hunter3",
        ]);
        let shown = format!("{:?}", config.expect("valid"));
        assert!(!shown.contains("hunter"), "{shown}");
    }
}
