//! `rewind dev`: NATS, a coordinator and nodes on one machine, started, watched and stopped as one.

mod child;
mod error;
mod lock;
mod log;
mod nats;
mod parts;
mod port;
mod programs;
mod ready;
mod secrets;
mod signals;
pub(crate) mod state;
mod supervisor;

use std::{
    fs::{self, DirBuilder},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::timeout;

pub(crate) use error::DevError;
pub(crate) use state::DEV_JSON;

use self::{
    lock::Lock,
    log::Log,
    nats::Nats,
    parts::{Launch, Parts},
    programs::Programs,
    secrets::Secrets,
    signals::Signals,
    state::StateFile,
};
use crate::{args::DevArgs, error::Error, exit::Exit};

/// Runs until SIGINT, SIGTERM or SIGHUP.
///
/// # Errors
/// When something it needs is missing, the folder is in use, a part says that it cannot run, or not everything is
/// ready in time.
pub(crate) async fn run(args: DevArgs) -> Result<Exit, Error> {
    let mut signals = Signals::new().map_err(DevError::Signals)?;
    let launch = prepare(&args)?;
    let (mut parts, mut failures) = Parts::new(launch);
    let state = parts.launch().state_file();
    // A signal during the start stops it: the parts started so far are stopped below.
    let outcome = tokio::select! {
        outcome = serve(&mut parts, &state, &args) => outcome,
        Some(failure) = failures.recv() => Err(failure),
        () = signals.next() => Ok(()),
    };
    parts.launch().log.say("stopping");
    tokio::select! {
        () = parts.stop() => {}
        () = signals.next() => parts.kill(),
    }
    state.remove()?;
    outcome?;
    Ok(Exit::Done)
}

/// Starts everything, says that it is ready, and then keeps `dev.json` true. Ends only with an error.
async fn serve(parts: &mut Parts, state: &StateFile, args: &DevArgs) -> Result<(), DevError> {
    match timeout(args.ready_timeout, start(parts, args.nodes)).await {
        Ok(started) => started?,
        Err(_) => {
            return Err(DevError::NotReady { after: args.ready_timeout, missing: parts.missing().await });
        }
    }
    let mut pids = parts.pids();
    let launch = parts.launch();
    state.write(&launch.state(pids.borrow_and_update().clone()))?;
    let (api, path, s) = (&launch.api, state.path().display(), if args.nodes == 1 { "" } else { "s" });
    launch.log.say(&format!(
        "ready: {api} with {} node{s}; {path} names it and holds its key and the secret of its webhooks",
        args.nodes
    ));
    loop {
        pids.changed().await.map_err(|_| DevError::Supervisor)?;
        let written = state.write(&launch.state(pids.borrow_and_update().clone()));
        // A full disk is no reason to end everything that runs.
        if let Err(error) = written {
            launch.log.say(&format!("{error}; it holds old process ids"));
        }
    }
}

async fn start(parts: &mut Parts, nodes: u16) -> Result<(), DevError> {
    parts.start_nats();
    parts.launch().nats.wait_until_ready().await;
    parts.nats_was_ready();
    parts.start_coordinator();
    parts.start_nodes(nodes);
    ready::wait_until_ready(&parts.launch().api, 0).await?;
    parts.coordinator_was_ready();
    // The coordinator counts nodes and does not say which: they were all ready once it counts them all.
    ready::wait_until_ready(&parts.launch().api, nodes).await?;
    parts.nodes_were_ready();
    Ok(())
}

/// Everything that can be refused before a process is started.
fn prepare(args: &DevArgs) -> Result<Launch, DevError> {
    let data = make_folder(&args.data)?;
    let lock = Lock::take(&data)?;
    // Left by one that was killed: a reader would take its addresses for ours.
    StateFile::in_folder(&data).remove()?;
    let programs = Programs::find(args)?;
    let mut secrets = Secrets::load_or_create(&data)?;
    let log = Arc::new(Log::new(args.quiet.then(|| data.join("logs")))?);
    let listen = SocketAddr::new(args.listen.ip(), port::claim(args.listen)?);
    let nats = Nats {
        address: nats_address(&data, &mut secrets, &log)?,
        monitor: args.nats_monitor.map(|port| port::claim(localhost(port)).map(localhost)).transpose()?,
        data: data.clone(),
        sync_always: args.sync_always,
    };
    nats.write_config(&secrets)?;
    if let Some(monitor) = nats.monitor {
        log.say(&format!("NATS monitoring at http://{monitor}"));
    }
    Ok(Launch {
        allow_stdio: args.allow_stdio,
        api: api_url(listen),
        data,
        listen,
        lock,
        log,
        nats,
        programs,
        secrets,
        webhook_urls: args.webhook_urls.clone(),
    })
}

fn localhost(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// The same at each start, if it is free: workers that were given NATS's URL then find the next NATS by it.
fn nats_address(data: &Path, secrets: &mut Secrets, log: &Log) -> Result<SocketAddr, DevError> {
    let before = secrets.nats_port;
    if let Some(port) = before.and_then(|port| port::claim(localhost(port)).ok()) {
        return Ok(localhost(port));
    }
    let port = port::claim(localhost(0))?;
    if let Some(before) = before {
        log.say(&format!("another process has NATS's port {before}: it is {port} now, and workers need the new URL"));
    }
    secrets.nats_port = Some(port);
    secrets.write(data)?;
    Ok(localhost(port))
}

/// Makes the folder, readable by its owner only; its absolute path.
fn make_folder(path: &Path) -> Result<PathBuf, DevError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.and_then(|()| fs::canonicalize(path)).map_err(|source| DevError::Folder { path: path.into(), source })
}

/// How a client on this machine reaches an API that listens there.
fn api_url(listen: SocketAddr) -> String {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    format!("http://{}", SocketAddr::new(ip, listen.port()))
}

/// How long a part may take to stop before it is killed.
const GRACE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_on_every_address_is_reached_on_loopback() {
        assert_eq!(api_url("0.0.0.0:80".parse().expect("address")), "http://127.0.0.1:80");
        assert_eq!(api_url("[::]:81".parse().expect("address")), "http://[::1]:81");
        assert_eq!(api_url("10.0.0.1:82".parse().expect("address")), "http://10.0.0.1:82");
    }
}
