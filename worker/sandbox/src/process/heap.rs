use std::{ptr, rc::Rc};

use rquickjs::allocator::Allocator;

use super::budget::Budget;

/// The C allocator, counted against one run's [`Budget`]. The engine has a limit of its own, but does
/// not tell afterwards that it was met, and scripts can catch the error.
#[derive(Debug)]
pub(crate) struct Heap(pub(crate) Rc<Budget>);

impl Heap {
    fn counted(&self, block: *mut libc::c_void) -> *mut u8 {
        if !block.is_null() {
            self.0.allocated(usable(block.cast()));
        }
        block.cast()
    }
}

/// Bytes of a live block of the C allocator.
fn usable(block: *mut u8) -> usize {
    // SAFETY: `block` comes from this allocator and has not been freed.
    unsafe { libc::malloc_usable_size(block.cast()) }
}

// SAFETY: every block comes from the C allocator, whose blocks are aligned for every basic type.
unsafe impl Allocator for Heap {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        if !self.0.allows(size) {
            return ptr::null_mut();
        }
        // SAFETY: malloc may be asked for any size.
        self.counted(unsafe { libc::malloc(size) })
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        if !self.0.allows(count.saturating_mul(size)) {
            return ptr::null_mut();
        }
        // SAFETY: calloc may be asked for any size, and refuses a product that overflows.
        self.counted(unsafe { libc::calloc(count, size) })
    }

    unsafe fn dealloc(&mut self, block: *mut u8) {
        if !block.is_null() {
            self.0.freed(usable(block));
            // SAFETY: the caller says that this allocator made the block.
            unsafe { libc::free(block.cast()) };
        }
    }

    unsafe fn realloc(&mut self, block: *mut u8, size: usize) -> *mut u8 {
        let before = if block.is_null() { 0 } else { usable(block) };
        if size > before && !self.0.allows(size - before) {
            return ptr::null_mut();
        }
        // SAFETY: the caller says that this allocator made the block.
        let moved = unsafe { libc::realloc(block.cast(), size) };
        if !moved.is_null() || size == 0 {
            self.0.freed(before);
        }
        self.counted(moved)
    }

    unsafe fn usable_size(block: *mut u8) -> usize {
        if block.is_null() { 0 } else { usable(block) }
    }
}
