use std::{
    ffi::OsString,
    fmt, io,
    os::fd::RawFd,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    process::{ChildStderr, ChildStdout, Command},
    time::timeout,
};

/// How to start a part. Arguments and environment hold secrets, so `Debug` shows neither.
pub(super) struct Spec {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(&'static str, OsString)>,
    /// A descriptor that the part inherits, and so keeps open as long as it lives.
    pub(super) inherits: Option<RawFd>,
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec").field("program", &self.program).finish_non_exhaustive()
    }
}

/// A running part: the leader of a process group of its own, so that a terminal's Ctrl-C reaches `rewind dev`
/// only, which stops the parts in their order. The kernel kills it when `rewind dev` is gone.
#[derive(Debug)]
pub(super) struct Child {
    process: tokio::process::Child,
    pid: u32,
}

impl Child {
    /// # Errors
    /// When the operating system cannot start it.
    pub(super) fn spawn(spec: &Spec) -> io::Result<Self> {
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.args)
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let parent = std::process::id();
        let inherits = spec.inherits;
        // SAFETY: between fork and exec only async-signal-safe functions are called, and nothing is allocated.
        unsafe {
            command.pre_exec(move || {
                if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // The parent may have died before the kernel knew that we want to follow it.
                if u32::try_from(libc::getppid()) != Ok(parent) {
                    libc::_exit(1);
                }
                match inherits {
                    Some(descriptor) if libc::fcntl(descriptor, libc::F_SETFD, 0) != 0 => {
                        Err(io::Error::last_os_error())
                    }
                    _ => Ok(()),
                }
            });
        }
        let process = command.spawn()?;
        let pid = process.id().expect("a process that was not waited for has an id");
        Ok(Self { process, pid })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Its output, once.
    pub(super) fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.process.stdout.take(), self.process.stderr.take())
    }

    /// Waits for its end, and then ends whatever it left behind in its group.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.process.wait().await;
        kill_group(self.pid);
        status
    }

    /// SIGTERM, and after `grace` SIGKILL to its whole group; whether it stopped by itself.
    pub(super) async fn stop(&mut self, grace: Duration) -> io::Result<bool> {
        if let Some(pid) = self.process.id() {
            signal(i64::from(pid), libc::SIGTERM);
        }
        match timeout(grace, self.wait()).await {
            Ok(status) => status.map(|_| true),
            Err(_) => {
                kill_group(self.pid);
                self.wait().await.map(|_| false)
            }
        }
    }
}

/// SIGKILL to the group that the process `pid` leads or led.
pub(super) fn kill_group(pid: u32) {
    signal(-i64::from(pid), libc::SIGKILL);
}

/// That there is no such process any more is what the caller wants.
fn signal(target: i64, signal: libc::c_int) {
    if let Ok(target) = libc::pid_t::try_from(target) {
        // SAFETY: kill has no memory effects.
        unsafe { libc::kill(target, signal) };
    }
}
