//! The global allocator's wrapper.
#![expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout};

use crate::memory;

/// A global allocator that an allocation profile can look into.
///
/// ```
/// use ladoga_profiler::ProfilingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: ProfilingAllocator<std::alloc::System> = ProfilingAllocator::new(std::alloc::System);
/// # fn main() {}
/// ```
///
/// While no profile runs it costs one relaxed load and a branch per allocation, and nothing per deallocation.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProfilingAllocator<A> {
    inner: A,
}

impl<A> ProfilingAllocator<A> {
    /// Wraps the allocator that does the work.
    pub const fn new(inner: A) -> Self {
        ProfilingAllocator { inner }
    }
}

// SAFETY: every call goes to `inner` unchanged, and its answer back unchanged; `memory::count` neither unwinds nor
// touches the block.
unsafe impl<A: GlobalAlloc> GlobalAlloc for ProfilingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        memory::count(layout.size());
        // SAFETY: as our own contract.
        unsafe { self.inner.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as our own contract.
        unsafe { self.inner.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        memory::count(layout.size());
        // SAFETY: as our own contract.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Growing is what costs; a shrinking block asks for nothing.
        memory::count(size.saturating_sub(layout.size()));
        // SAFETY: as our own contract.
        unsafe { self.inner.realloc(block, layout, size) }
    }
}
