use std::{
    process::ExitStatus,
    sync::Arc,
    time::{Duration, Instant},
};

use rewind_model::format_duration;
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

use super::{
    child::{Child, Spec},
    log::Log,
    state::{Pids, Role},
};

/// How long the last lines of a part that ended may take to arrive.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The wait before a restart: short after a part that ran, growing while it keeps dying.
#[derive(Debug)]
struct Backoff {
    next: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(10);
    /// A part that lived this long was well.
    const WELL: Duration = Duration::from_secs(10);

    fn new() -> Self {
        Self { next: Self::FIRST }
    }

    fn after(&mut self, lived: Duration) -> Duration {
        if lived >= Self::WELL {
            self.next = Self::FIRST;
        }
        let wait = self.next;
        self.next = (wait * 2).min(Self::LONGEST);
        wait
    }
}

/// A part that is kept running until it is told to stop.
#[derive(Debug)]
pub(super) struct Part {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Part {
    pub(super) fn start(role: Role, spec: Spec, grace: Duration, log: Arc<Log>, pids: watch::Sender<Pids>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let supervisor = Supervisor { role, spec, grace, log, pids };
        Self { stop: Some(stop), task: tokio::spawn(supervisor.run(stopped)) }
    }

    /// Asks it to stop, without waiting.
    pub(super) fn request_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // A receiver that is gone has stopped.
            let _ = stop.send(());
        }
    }

    /// No longer restarts it, and drops its process, which kills it.
    pub(super) fn abandon(&self) {
        self.task.abort();
    }

    /// Waits until it has stopped.
    pub(super) async fn stopped(&mut self) {
        self.request_stop();
        // The supervisor has no way to panic that would leave a process: dropping a child kills it.
        let _ = (&mut self.task).await;
    }
}

#[derive(Debug)]
struct Supervisor {
    role: Role,
    spec: Spec,
    grace: Duration,
    log: Arc<Log>,
    pids: watch::Sender<Pids>,
}

impl Supervisor {
    async fn run(self, mut stop: oneshot::Receiver<()>) {
        let mut backoff = Backoff::new();
        loop {
            let started = Instant::now();
            let ended = match Child::spawn(&self.spec) {
                Err(error) => format!("cannot be started: {error}"),
                Ok(child) => match self.attend(child, &mut stop).await {
                    Some(ended) => ended,
                    None => return,
                },
            };
            let wait = backoff.after(started.elapsed());
            self.log.say(&format!("{} {ended}; restarting in {}", self.role, format_duration(wait)));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = &mut stop => return,
            }
        }
    }

    /// How the child ended by itself; `None` when it was stopped as asked.
    async fn attend(&self, mut child: Child, stop: &mut oneshot::Receiver<()>) -> Option<String> {
        self.pids.send_modify(|pids| pids.set(self.role, child.pid()));
        let (stdout, stderr) = child.take_output();
        let name = self.role.to_string();
        let pumps = [
            stdout.map(|out| tokio::spawn(Arc::clone(&self.log).pump(name.clone(), out))),
            stderr.map(|out| tokio::spawn(Arc::clone(&self.log).pump(name, out))),
        ];
        let ended = tokio::select! {
            status = child.wait() => Some(match status {
                Ok(status) => ending(status),
                Err(error) => format!("was lost: {error}"),
            }),
            _ = stop => {
                match child.stop(self.grace).await {
                    Ok(true) => {}
                    Ok(false) => self.log.say(&format!(
                        "{} did not stop within {} and was killed", self.role, format_duration(self.grace)
                    )),
                    Err(error) => self.log.say(&format!("{} was lost: {error}", self.role)),
                }
                None
            }
        };
        for pump in pumps.into_iter().flatten() {
            // A process that left the group may hold the pipe: its lines are not waited for.
            let _ = timeout(LAST_LINES, pump).await;
        }
        ended
    }
}

fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;

    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => format!("ended ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_while_a_part_keeps_dying_and_begin_anew_after_it_ran() {
        let mut backoff = Backoff::new();
        let waits: Vec<_> = (0..9).map(|_| backoff.after(Duration::ZERO).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(backoff.after(Backoff::WELL), Backoff::FIRST);
    }

    fn sh(script: &str) -> Spec {
        Spec { program: "/bin/sh".into(), args: vec!["-c".into(), script.into()], env: Vec::new(), inherits: None }
    }

    async fn next_pid(pids: &mut watch::Receiver<Pids>) -> u32 {
        let last = pids.borrow_and_update().nats;
        timeout(Duration::from_secs(10), pids.wait_for(|pids| pids.nats != last))
            .await
            .expect("in time")
            .expect("kept")
            .nats
    }

    fn alive(pid: u32) -> bool {
        std::path::Path::new(&format!("/proc/{pid}")).exists()
    }

    #[tokio::test]
    async fn a_part_that_dies_is_started_again() {
        let (sender, mut pids) = watch::channel(Pids::default());
        let log = Arc::new(Log::new(None).expect("log"));
        let mut part = Part::start(Role::Nats, sh("exec sleep 1000"), Duration::from_secs(5), log, sender);
        let first = next_pid(&mut pids).await;
        super::super::child::kill_group(first);
        let second = next_pid(&mut pids).await;
        assert_ne!(first, second);
        part.stopped().await;
        assert!(!alive(first) && !alive(second));
    }

    #[tokio::test]
    async fn one_that_ignores_sigterm_is_killed_with_all_that_it_started() {
        let dir = tempfile::tempdir().expect("folder");
        let file = dir.path().join("child");
        let script =
            format!("trap '' TERM; sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait; wait", file.display());
        let (sender, mut pids) = watch::channel(Pids::default());
        let log = Arc::new(Log::new(None).expect("log"));
        let mut part = Part::start(Role::Nats, sh(&script), Duration::from_millis(200), log, sender);
        let leader = next_pid(&mut pids).await;
        let child: u32 = loop {
            match std::fs::read_to_string(&file) {
                Ok(text) => break text.trim().parse().expect("a pid"),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        assert!(alive(leader) && alive(child));
        part.stopped().await;
        assert!(!alive(leader));
        timeout(Duration::from_secs(10), async {
            while std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .expect("its child is gone, or a zombie that init has yet to reap");
    }
}
