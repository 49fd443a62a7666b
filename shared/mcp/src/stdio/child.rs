use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{guard, spawn::spawn};
use crate::endpoint::Program;

/// How long a server may take to end when its stdin is closed, and again when it is told to (SIGTERM).
const GRACE: Duration = Duration::from_secs(1);
/// What the environment has of this process's.
const INHERITED: [&str; 2] = ["PATH", "HOME"];

/// A running server: the leader of a process group of its own, with which all that it started is ended.
/// The kernel kills it when this process is gone, and the guard the rest of its group.
pub(super) struct Child {
    process: tokio::process::Child,
    pid: u32,
}

/// A child's ends of the pipes.
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Child {
    /// # Errors
    /// When the operating system cannot start it.
    pub(super) async fn start(program: &Program) -> io::Result<(Self, Pipes)> {
        let mut process = spawn(command(program)).await?;
        let pipes = (process.stdin.take(), process.stdout.take(), process.stderr.take());
        let (Some(pid), (Some(stdin), Some(stdout), Some(stderr))) = (process.id(), pipes) else {
            return Err(io::Error::other("it was started without pipes"));
        };
        guard::watch(pid);
        Ok((Self { process, pid }, Pipes { stdin, stdout, stderr }))
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for its end, and then ends whatever it left behind in its group.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.process.wait().await;
        signal_group(self.pid, libc::SIGKILL);
        guard::release(self.pid);
        status
    }

    /// Waits for it, whose stdin has been closed, to end by itself; then SIGTERM; then SIGKILL.
    pub(super) async fn stop(&mut self) -> io::Result<ExitStatus> {
        for signal in [libc::SIGTERM, libc::SIGKILL] {
            if let Ok(status) = timeout(GRACE, self.wait()).await {
                return status;
            }
            signal_group(self.pid, signal);
        }
        self.wait().await
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that was waited for has no id any more, and its number may be another's.
        if self.process.id().is_some() {
            signal_group(self.pid, libc::SIGKILL);
            guard::release(self.pid);
        }
    }
}

fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.command);
    command
        .args(&program.args)
        .env_clear()
        .envs(INHERITED.iter().filter_map(|name| std::env::var_os(name).map(|value| (*name, value))))
        .envs(&program.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal's Ctrl-C is for this process, which then ends its servers in order.
        .process_group(0)
        .kill_on_drop(true);
    let parent = std::process::id();
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
            Ok(())
        });
    }
    command
}

/// To the group that the process `pid` leads or led. That there is none any more is as well.
fn signal_group(pid: u32, signal: libc::c_int) {
    if let Ok(pid) = libc::pid_t::try_from(pid) {
        // SAFETY: kill has no memory effects.
        unsafe { libc::kill(-pid, signal) };
    }
}
