use std::{
    hint::black_box,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Bytes below the end of the engine's stack that are watched: what the engine itself needs there to
/// make the error that it throws (the frame of its stack trace alone has 5 KiB).
const WINDOW: usize = 8 << 10;
/// What an untouched word holds; no address and no small number.
const PAINT: u64 = 0x5f52_4557_494e_445f;

/// Notices a stack that has come to its end although the script caught the error: words just below the
/// end are painted before a delivery and looked at after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackEnd(usize);

impl StackEnd {
    /// The end of a stack of `bytes` that begins at the caller's frame. They must be well within the
    /// thread's own stack.
    #[inline(always)]
    pub(crate) fn below(bytes: usize) -> Self {
        let here = 0u64;
        let top = ptr::from_ref(black_box(&here)).expose_provenance();
        Self((top - bytes) & !(align_of::<u64>() - 1))
    }

    pub(crate) fn paint(self) {
        for word in self.words() {
            // SAFETY: within the thread's stack, which the kernel extends when it is touched, and
            // far below every live frame: nothing else reads or writes there now.
            unsafe { word.write_volatile(PAINT) };
        }
    }

    /// Did anything run beyond the end since it was painted?
    pub(crate) fn touched(self) -> bool {
        // SAFETY: as in `paint`, which has written these words.
        self.words().any(|word| unsafe { word.read_volatile() } != PAINT)
    }

    fn words(self) -> impl Iterator<Item = *mut u64> {
        (self.0 - WINDOW..self.0).step_by(size_of::<u64>()).map(ptr::with_exposed_provenance_mut)
    }
}

/// Bytes of stack that scripts may use: half of this thread's, the other half is Rust's.
static AVAILABLE: AtomicUsize = AtomicUsize::new(512 << 10);

pub(crate) fn available() -> usize {
    AVAILABLE.load(Ordering::Relaxed)
}

/// Asks the kernel how large this thread's stack may become, while it still may be asked.
pub(crate) fn measure() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives through the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0 {
        AVAILABLE.store(usize::try_from(limit.rlim_cur / 2).unwrap_or(usize::MAX), Ordering::Relaxed);
    }
}
