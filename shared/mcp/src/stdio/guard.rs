//! A small process that outlives this one by a moment, to end what the servers have started.
//!
//! When this process is killed, the kernel kills the servers (`PR_SET_PDEATHSIG`), but not *their*
//! children: a launcher such as `npx` is then gone, and the server behind it is not.

use std::{
    fs::File,
    io::{self, Write},
    mem::MaybeUninit,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    ptr,
    sync::OnceLock,
};

use libc::pid_t;

/// Process groups that are watched at once; those of more servers are not.
const MOST: usize = 1_024;

/// From now on the group is killed when this process is gone.
pub(super) fn watch(group: u32) {
    tell(pid_t::try_from(group).unwrap_or(0));
}

/// The group has ended, and its number may become another's.
pub(super) fn release(group: u32) {
    tell(-pid_t::try_from(group).unwrap_or(0));
}

fn tell(word: pid_t) {
    static GUARD: OnceLock<Option<File>> = OnceLock::new();
    let guard = GUARD.get_or_init(|| {
        start().inspect_err(|error| tracing::warn!(%error, "nobody sees to the children of MCP servers")).ok()
    });
    if let Some(mut guard) = guard.as_ref() {
        // A guard that somebody has killed is missed only if this process is killed, too.
        let _ = guard.write_all(&word.to_ne_bytes());
    }
}

/// The pipe by which the guard is told, and by whose end it knows that this process is gone.
fn start() -> io::Result<File> {
    let mut ends = [0; 2];
    // SAFETY: it writes two descriptors, for which there is room.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both are new, and nobody else's.
    let [words, pipe] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    // SAFETY: the child does as `guard` promises, and never returns.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => unsafe { guard(words.as_raw_fd()) },
        _ => Ok(pipe.into()),
    }
}

/// # Safety
/// For a process that was just forked from one with many threads: it calls async-signal-safe functions
/// only, and allocates nothing.
unsafe fn guard(words: RawFd) -> ! {
    let mut groups: [pid_t; MOST] = [0; MOST];
    // SAFETY: every pointer is to a local; no descriptor that is closed is used again.
    unsafe {
        // What ends this process in order is for this process alone.
        let mut all = MaybeUninit::uninit();
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut());
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"mcp-guard".as_ptr());
        // All but the pipe, and above all its other end: without that there would be no end.
        libc::dup2(words, 0);
        if libc::syscall(libc::SYS_close_range, 1, libc::c_uint::MAX, 0) != 0 {
            (1..65_536).for_each(|descriptor| {
                libc::close(descriptor);
            });
        }
        let mut word: pid_t = 0;
        while libc::read(0, (&raw mut word).cast(), size_of::<pid_t>()) == size_of::<pid_t>().cast_signed() {
            let (place, content) = if word > 0 { (0, word) } else { (-word, 0) };
            if let Some(place) = groups.iter_mut().find(|group| **group == place) {
                *place = content;
            }
        }
        for group in groups.iter().filter(|group| **group > 0) {
            libc::kill(-*group, libc::SIGKILL);
        }
        libc::_exit(0)
    }
}
