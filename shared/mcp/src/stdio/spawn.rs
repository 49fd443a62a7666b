use std::{
    io,
    sync::{OnceLock, mpsc},
    thread,
};

use tokio::{
    process::{Child, Command},
    sync::oneshot,
};

struct Job {
    command: Command,
    runtime: tokio::runtime::Handle,
    spawned: oneshot::Sender<io::Result<Child>>,
}

/// Starts a child from a thread that lives as long as this process does: a child that asks the kernel to
/// end with its parent (`PR_SET_PDEATHSIG`) ends with the *thread* that made it.
///
/// # Errors
/// When the operating system cannot start it, or has no thread to give.
pub(super) async fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let spawner = match SPAWNER.get() {
        Some(spawner) => spawner,
        None => {
            let (jobs, todo) = mpsc::channel();
            thread::Builder::new().name("mcp-spawner".into()).spawn(move || work(&todo))?;
            // Where two come at once, the thread of the second one ends with its sender.
            SPAWNER.get_or_init(|| jobs)
        }
    };
    let (spawned, child) = oneshot::channel();
    let gone = || io::Error::other("the thread that starts MCP servers has ended");
    let job = Job { command, runtime: tokio::runtime::Handle::current(), spawned };
    spawner.send(job).map_err(|_| gone())?;
    child.await.map_err(|_| gone())?
}

fn work(todo: &mpsc::Receiver<Job>) {
    for mut job in todo {
        // tokio reaps the child through the runtime.
        let _entered = job.runtime.enter();
        // A child whose requester is gone is killed when it is dropped.
        let _ = job.spawned.send(job.command.spawn());
    }
}
