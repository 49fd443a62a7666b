use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdStream},
    process::Stdio,
    sync::mpsc,
    thread,
};

use tokio::{
    net::UnixStream,
    process::{Child, Command},
    sync::oneshot,
};

use super::PoolConfig;

/// Starts children, all from one thread: a child asks the kernel to end with the *thread* that made it
/// (`PR_SET_PDEATHSIG`), so that must be one which lives as long as they may. It ends with the last
/// clone of this.
#[derive(Debug, Clone)]
pub(super) struct Spawner {
    jobs: mpsc::Sender<Job>,
}

struct Job {
    command: Command,
    runtime: tokio::runtime::Handle,
    spawned: oneshot::Sender<io::Result<Child>>,
}

impl Spawner {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, todo) = mpsc::channel::<Job>();
        thread::Builder::new().name("sandbox-spawner".into()).spawn(move || {
            for mut job in todo {
                // tokio reaps the child through the runtime.
                let _entered = job.runtime.enter();
                // A child whose requester is gone is killed when it is dropped.
                let _ = job.spawned.send(job.command.spawn());
            }
        })?;
        Ok(Self { jobs })
    }

    /// A child whose descriptor 0 is the other end of the stream. Its environment is empty.
    pub(super) async fn spawn(&self, config: &PoolConfig) -> io::Result<(Child, UnixStream)> {
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(&config.exe);
        command
            .args(&config.args)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            // A terminal's Ctrl-C is for the node, which then ends its sandboxes in order.
            .process_group(0)
            .kill_on_drop(true);
        let (spawned, child) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts sandbox processes has ended");
        self.jobs.send(Job { command, runtime: tokio::runtime::Handle::current(), spawned }).map_err(|_| gone())?;
        let child = child.await.map_err(|_| gone())??;
        Ok((child, UnixStream::from_std(ours)?))
    }
}
