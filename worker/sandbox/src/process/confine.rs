//! Takes from the process everything but computing and its socket.

use std::{collections::BTreeMap, io, ptr};

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::protocol::Landlock;

/// Address space of the process, bytes. The node's watchdog holds a tighter bound on what is resident.
const ADDRESS_SPACE: u64 = 8 << 30;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfineError {
    #[error("the sandbox cannot {0}: {1}")]
    Kernel(&'static str, io::Error),
    #[error("the sandbox cannot build its system call filter: {0}")]
    Filter(#[from] seccompiler::BackendError),
    #[error("the sandbox cannot install its system call filter: {0}; the kernel needs seccomp")]
    Install(#[from] seccompiler::Error),
}

/// Gives up, for good: children, files, sockets, other processes, the environment, new privileges.
///
/// The order matters: the filter goes last because it forbids what the steps before it do.
///
/// # Errors
/// When the kernel refuses a step. Landlock alone may be missing.
pub(crate) fn confine() -> Result<Landlock, ConfineError> {
    end_with_parent()?;
    empty_environment();
    close_files()?;
    limit_resources()?;
    forbid_new_privileges()?;
    let landlock = forbid_paths();
    filter_system_calls()?;
    Ok(landlock)
}

/// The node may be killed without a chance to close its sockets.
fn end_with_parent() -> Result<(), ConfineError> {
    // SAFETY: prctl with plain numbers.
    check("end with its node", unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })
}

/// Nothing of the node's environment is for scripts. The time zone is read now: later there are no files.
fn empty_environment() {
    unsafe extern "C" {
        fn tzset();
    }
    // SAFETY: the process has one thread, and nothing holds a pointer into the environment.
    unsafe {
        libc::clearenv();
        libc::setenv(c"TZ".as_ptr(), c"UTC0".as_ptr(), 1);
        tzset();
        libc::clearenv();
    }
}

/// All but the socket (0), standard output and standard error.
fn close_files() -> Result<(), ConfineError> {
    // SAFETY: nothing in this process uses a descriptor over 2.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32) };
    check("close inherited files", i32::try_from(closed).unwrap_or(-1))
}

fn limit_resources() -> Result<(), ConfineError> {
    for (resource, bound) in
        [(libc::RLIMIT_CORE, 0), (libc::RLIMIT_NOFILE, 3), (libc::RLIMIT_FSIZE, 0), (libc::RLIMIT_AS, ADDRESS_SPACE)]
    {
        let limit = libc::rlimit { rlim_cur: bound, rlim_max: bound };
        // SAFETY: `limit` lives through the call.
        check("limit its resources", unsafe { libc::setrlimit(resource, &raw const limit) })?;
    }
    // SAFETY: prctl with plain numbers. No other process of the user may read this one's memory.
    check("forbid being traced", unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })
}

fn forbid_new_privileges() -> Result<(), ConfineError> {
    // SAFETY: prctl with plain numbers.
    check("give up new privileges", unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

/// A rule set without a rule: no path, no port, no signal. Beneath seccomp, in case that has a gap.
fn forbid_paths() -> Landlock {
    let newest = ABI::V6;
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(newest)))
        .and_then(|rules| rules.scope(Scope::from_all(newest)))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    match restricted.map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => Landlock::Enforced,
        Ok(RulesetStatus::PartiallyEnforced) => Landlock::Partial,
        Ok(RulesetStatus::NotEnforced) | Err(_) => Landlock::Absent,
    }
}

/// What remains: reading the socket, writing to it and to standard error, memory that is not
/// executable, clocks, the CPU alarm, and ending. Anything else fails with EPERM.
fn filter_system_calls() -> Result<(), ConfineError> {
    let only = |argument: u8, values: &[u64]| -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        values
            .iter()
            .map(|value| {
                SeccompRule::new(vec![SeccompCondition::new(
                    argument,
                    SeccompCmpArgLen::Dword,
                    SeccompCmpOp::Eq,
                    *value,
                )?])
            })
            .collect()
    };
    let not_executable = |argument: u8| -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
        let exec = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
        Ok(vec![SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, exec, 0)?])?])
    };
    let own = u64::from(std::process::id());
    let mut rules = BTreeMap::from([
        (libc::SYS_read, only(0, &[0])?),
        (libc::SYS_write, only(0, &[0, 2])?),
        (libc::SYS_writev, only(0, &[2])?),
        (libc::SYS_mmap, not_executable(2)?),
        (libc::SYS_mprotect, not_executable(2)?),
        // abort() sends its own process a signal.
        (libc::SYS_tgkill, only(0, &[own])?),
    ]);
    for free in [
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_futex,
        libc::SYS_getrandom,
        libc::SYS_clock_gettime,
        libc::SYS_gettimeofday,
        libc::SYS_setitimer,
        libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigaction,
        libc::SYS_sigaltstack,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_restart_syscall,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ] {
        rules.insert(free, Vec::new());
    }
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, refuse, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?;
    let program: BpfProgram = filter.try_into()?;
    Ok(seccompiler::apply_filter(&program)?)
}

fn check(what: &'static str, answer: i32) -> Result<(), ConfineError> {
    if answer < 0 { Err(ConfineError::Kernel(what, io::Error::last_os_error())) } else { Ok(()) }
}

/// Ends the process, with [`super::EXIT_CPU`], when it uses `after` more CPU time: for the engine's
/// native loops, which never ask whether they may go on. Zero disarms it.
pub(crate) fn alarm(after: std::time::Duration) {
    let value = libc::timeval {
        tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        tv_usec: i64::from(after.subsec_micros()),
    };
    let once = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: value };
    // SAFETY: `once` lives through the call; the old value is not wanted.
    unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const once, ptr::null_mut()) };
}

/// Installs what [`alarm`] calls.
///
/// # Errors
/// When the kernel refuses a handler.
pub(crate) fn handle_alarm() -> Result<(), ConfineError> {
    extern "C" fn overrun(_: libc::c_int) {
        // SAFETY: `_exit` may be called in a signal handler.
        unsafe { libc::_exit(super::EXIT_CPU) }
    }
    // SAFETY: the handler has the type that `signal` wants and calls only what a handler may.
    let before = unsafe { libc::signal(libc::SIGPROF, overrun as *const () as libc::sighandler_t) };
    check("handle its CPU alarm", if before == libc::SIG_ERR { -1 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name, and a system call that gives its answer.
    type Attempt = (&'static str, fn() -> i64);

    /// What must not succeed any more.
    fn attempts() -> [Attempt; 12] {
        // SAFETY: system calls with constants and pointers that live through them; the process that
        // makes them ends right after.
        unsafe {
            [
                ("open", || libc::syscall(libc::SYS_openat, libc::AT_FDCWD, c"/etc/passwd".as_ptr(), libc::O_RDONLY)),
                ("socket", || libc::syscall(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0)),
                ("socketpair", || {
                    libc::syscall(libc::SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, [0i32; 2].as_mut_ptr())
                }),
                ("exec", || {
                    libc::syscall(libc::SYS_execve, c"/bin/true".as_ptr(), ptr::null::<u8>(), ptr::null::<u8>())
                }),
                ("clone", || libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0)),
                ("ptrace", || libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0)),
                ("kill", || libc::syscall(libc::SYS_kill, libc::getppid(), 0)),
                ("executable memory", || {
                    let memory = libc::mmap(
                        ptr::null_mut(),
                        4096,
                        libc::PROT_READ | libc::PROT_EXEC,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                        -1,
                        0,
                    );
                    if memory == libc::MAP_FAILED { -1 } else { 0 }
                }),
                ("writing elsewhere", || libc::write(1, c"x".as_ptr().cast(), 1) as i64),
                ("unshare", || libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER)),
                ("prlimit", || {
                    libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, ptr::null::<u8>(), ptr::null::<u8>())
                }),
                ("io_uring", || libc::syscall(libc::SYS_io_uring_setup, 1, ptr::null::<u8>())),
            ]
        }
    }

    #[test]
    fn a_confined_process_can_compute_and_nothing_else() {
        let attempts = attempts();
        // SAFETY: the child only confines itself, tries system calls and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = match confine() {
                Err(_) => 100,
                Ok(_) => attempts
                    .iter()
                    .position(|(_, attempt)| {
                        attempt() >= 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EPERM)
                    })
                    .map_or(0, |index| i32::try_from(index).unwrap_or(0) + 1),
            };
            // SAFETY: ends the child without running the test harness's clean-up.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: `status` lives through the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "the child was killed by signal {}", libc::WTERMSIG(status));
        let code = libc::WEXITSTATUS(status);
        let what =
            usize::try_from(code).ok().and_then(|code| code.checked_sub(1)).and_then(|index| attempts.get(index));
        assert_eq!(code, 0, "not confined, or still allowed: {:?}", what.map(|(name, _)| name));
    }
}
