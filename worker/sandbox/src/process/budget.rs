//! What one run may use, and whether it has gone over.

use std::{cell::Cell, time::Duration};

use super::stack;
use crate::protocol::{Limit, ScriptLimits};

/// Bytes beyond the heap's limit from which small allocations are still served once the limit is
/// tripped: the engine aborts the process when it cannot allocate while it unwinds.
const UNWINDING_RESERVE: usize = 1 << 20;
const SMALL: usize = 16 << 10;

/// Shared by the allocator, the interrupt handler and the host functions of one engine. Once a limit
/// has tripped it stays so: what the script catches does not matter.
#[derive(Debug)]
pub(crate) struct Budget {
    heap_bytes: usize,
    stack_bytes: usize,
    turn: Duration,
    run: Duration,
    tripped: Cell<Option<Limit>>,
    heap: Cell<usize>,
    /// Thread CPU time when this delivery began.
    began: Cell<Duration>,
    /// CPU time of the run before this delivery.
    spent: Cell<Duration>,
}

impl Budget {
    pub(crate) fn new(limits: &ScriptLimits) -> Self {
        Self {
            heap_bytes: limits.heap_bytes,
            // rquickjs takes anything over 16 MiB to mean no limit.
            stack_bytes: limits.stack_bytes.clamp(64 << 10, 4 << 20).min(stack::available()),
            turn: Duration::from_millis(limits.turn_cpu_ms),
            run: Duration::from_millis(limits.run_cpu_ms),
            tripped: Cell::new(None),
            heap: Cell::new(0),
            began: Cell::new(Duration::ZERO),
            spent: Cell::new(Duration::ZERO),
        }
    }

    pub(crate) fn stack_bytes(&self) -> usize {
        self.stack_bytes
    }

    pub(crate) fn heap(&self) -> usize {
        self.heap.get()
    }

    pub(crate) fn tripped(&self) -> Option<Limit> {
        self.tripped.get()
    }

    /// The first limit that trips is the one that is reported.
    pub(crate) fn trip(&self, limit: Limit) {
        if self.tripped.get().is_none() {
            self.tripped.set(Some(limit));
        }
    }

    /// A delivery begins: its CPU time counts from here. Returns how much it may use.
    pub(crate) fn begin(&self) -> Duration {
        self.began.set(thread_cpu());
        self.turn.min(self.run.saturating_sub(self.spent.get()))
    }

    /// The delivery is done. Returns the CPU time that it took.
    pub(crate) fn finish(&self) -> Duration {
        let used = thread_cpu().saturating_sub(self.began.get());
        self.spent.set(self.spent.get() + used);
        used
    }

    /// Must the engine stop here? Asked by its interrupt handler, every 10,000 steps or so.
    pub(crate) fn interrupts(&self) -> bool {
        let used = thread_cpu().saturating_sub(self.began.get());
        if used > self.turn || self.spent.get() + used > self.run {
            self.trip(Limit::Cpu);
        }
        self.tripped.get().is_some()
    }

    /// May the engine have `bytes` more?
    pub(crate) fn allows(&self, bytes: usize) -> bool {
        let wanted = self.heap.get().saturating_add(bytes);
        if wanted <= self.heap_bytes {
            return true;
        }
        self.trip(Limit::Memory);
        bytes <= SMALL && wanted <= self.heap_bytes + UNWINDING_RESERVE
    }

    pub(crate) fn allocated(&self, bytes: usize) {
        self.heap.set(self.heap.get() + bytes);
    }

    pub(crate) fn freed(&self, bytes: usize) {
        self.heap.set(self.heap.get().saturating_sub(bytes));
    }
}

/// CPU time of this thread, user and system.
pub(crate) fn thread_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
