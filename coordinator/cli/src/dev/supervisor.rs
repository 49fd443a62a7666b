use std::{
    process::ExitStatus,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rewind_model::format_duration;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::timeout,
};

use super::{
    DevError,
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

/// What the supervisors of all parts have.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) log: Arc<Log>,
    pub(super) pids: watch::Sender<Pids>,
    /// Gets the reason of a part that will never run: it is not started again.
    pub(super) failed: mpsc::UnboundedSender<DevError>,
}

/// A part that is kept running until it is told to stop.
#[derive(Debug)]
pub(super) struct Part {
    stop: Option<oneshot::Sender<()>>,
    ready: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Part {
    pub(super) fn start(role: Role, spec: Spec, grace: Duration, common: Common) -> Self {
        let (stop, stopped) = oneshot::channel();
        let ready = Arc::new(AtomicBool::new(false));
        let supervisor = Supervisor { role, spec, grace, common, ready: Arc::clone(&ready) };
        Self { stop: Some(stop), ready, task: tokio::spawn(supervisor.run(stopped)) }
    }

    /// It has run as it should: from now on it is restarted, however it ends.
    pub(super) fn was_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
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
    common: Common,
    ready: Arc<AtomicBool>,
}

impl Supervisor {
    async fn run(self, mut stop: oneshot::Receiver<()>) {
        let mut backoff = Backoff::new();
        loop {
            let started = Instant::now();
            let ended = match Child::spawn(&self.spec) {
                Err(error) => Ending { text: format!("cannot be started: {error}"), code: None },
                Ok(child) => match self.attend(child, &mut stop).await {
                    Some(ended) => ended,
                    None => return,
                },
            };
            if ended.says_why() && !self.ready.load(Ordering::Relaxed) {
                self.fail(ended);
                let _ = stop.await;
                return;
            }
            let wait = backoff.after(started.elapsed());
            let file = self.common.log.file(&self.role.to_string());
            let file = file.map(|path| format!(" (see {})", path.display())).unwrap_or_default();
            let again = format_duration(wait);
            self.common.log.say(&format!("{} {}; restarting in {again}{file}", self.role, ended.text));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = &mut stop => return,
            }
        }
    }

    /// Nothing would be different the next time.
    fn fail(&self, Ending { text: ending, .. }: Ending) {
        let role = self.role.to_string();
        let output = match self.common.log.file(&role) {
            Some(path) => format!("{} ends with\n{}", path.display(), self.common.log.end_of(&role)),
            None => "its output is above".to_owned(),
        };
        // A receiver that is gone has had another part's reason.
        let _ = self.common.failed.send(DevError::Part { role, ending, output });
    }

    /// How the child ended by itself; `None` when it was stopped as asked.
    async fn attend(&self, mut child: Child, stop: &mut oneshot::Receiver<()>) -> Option<Ending> {
        self.common.pids.send_modify(|pids| pids.set(self.role, child.pid()));
        let (stdout, stderr) = child.take_output();
        let name = self.role.to_string();
        let pumps = [
            stdout.map(|out| tokio::spawn(Arc::clone(&self.common.log).pump(name.clone(), out))),
            stderr.map(|out| tokio::spawn(Arc::clone(&self.common.log).pump(name, out))),
        ];
        let ended = tokio::select! {
            status = child.wait() => Some(match status {
                Ok(status) => ending(status),
                Err(error) => Ending { text: format!("was lost: {error}"), code: None },
            }),
            _ = stop => {
                match child.stop(self.grace).await {
                    Ok(true) => {}
                    Ok(false) => self.common.log.say(&format!(
                        "{} did not stop within {} and was killed", self.role, format_duration(self.grace)
                    )),
                    Err(error) => self.common.log.say(&format!("{} was lost: {error}", self.role)),
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

/// How a child ended, for people, and the code that it exited with.
#[derive(Debug)]
struct Ending {
    text: String,
    code: Option<i32>,
}

impl Ending {
    /// These codes are a program's own word that it cannot do what it was told.
    fn says_why(&self) -> bool {
        matches!(self.code, Some(1 | 2))
    }
}

fn ending(status: ExitStatus) -> Ending {
    use std::os::unix::process::ExitStatusExt as _;

    let text = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => format!("ended ({status})"),
    };
    Ending { text, code: status.code() }
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

    /// With the log in `folder`; and what comes of a part that fails.
    fn common(
        folder: Option<std::path::PathBuf>,
    ) -> (Common, watch::Receiver<Pids>, mpsc::UnboundedReceiver<DevError>) {
        let (sender, pids) = watch::channel(Pids::default());
        let (failed, failures) = mpsc::unbounded_channel();
        (Common { log: Arc::new(Log::new(folder).expect("log")), pids: sender, failed }, pids, failures)
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
        let (common, mut pids, _failures) = common(None);
        let mut part = Part::start(Role::Nats, sh("exec sleep 1000"), Duration::from_secs(5), common);
        let first = next_pid(&mut pids).await;
        super::super::child::kill_group(first);
        let second = next_pid(&mut pids).await;
        assert_ne!(first, second);
        part.stopped().await;
        assert!(!alive(first) && !alive(second));
    }

    #[tokio::test]
    async fn one_that_says_why_it_cannot_run_fails_unless_it_was_ready() {
        let dir = tempfile::tempdir().expect("folder");
        let go = dir.path().join("go");
        let script = format!("echo no such option; while [ ! -e {} ]; do read -t 0.01 _; done; exit 2", go.display());
        let bash = || Spec { program: "/bin/bash".into(), ..sh(&script) };
        let (common, mut pids, mut failures) = common(Some(dir.path().join("logs")));
        let mut ready = Part::start(Role::Nats, bash(), Duration::from_secs(5), common.clone());
        let first = next_pid(&mut pids).await;
        ready.was_ready();
        std::fs::write(&go, "").expect("written");
        assert_ne!(next_pid(&mut pids).await, first);
        ready.stopped().await;
        assert!(failures.try_recv().is_err());

        let mut part = Part::start(Role::Nats, bash(), Duration::from_secs(5), common);
        let failure =
            timeout(Duration::from_secs(10), failures.recv()).await.expect("in time").expect("kept").to_string();
        let log = dir.path().join("logs/nats.log");
        assert!(failure.starts_with("nats exited with code 2 before it was ready"), "{failure}");
        assert!(failure.contains(&*log.to_string_lossy()) && failure.ends_with("no such option"), "{failure}");
        part.stopped().await;
    }

    #[tokio::test]
    async fn one_that_ignores_sigterm_is_killed_with_all_that_it_started() {
        let dir = tempfile::tempdir().expect("folder");
        let file = dir.path().join("child");
        let script =
            format!("trap '' TERM; sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait; wait", file.display());
        let (common, mut pids, _failures) = common(None);
        let mut part = Part::start(Role::Nats, sh(&script), Duration::from_millis(200), common);
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
