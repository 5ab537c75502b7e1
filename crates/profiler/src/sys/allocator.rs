//! The global allocator's wrapper, and the unwinder that serves builds without frame pointers.
#![expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait, and the unwinder's interface is C")]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_void};

use crate::memory;
use crate::stack::RawStack;

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

/// As in the C++ ABI's `unwind.h`; std links the library that has it.
#[repr(C)]
struct UnwindContext {
    _opaque: [u8; 0],
}

const UNWIND_CONTINUE: c_int = 0;
const UNWIND_STOP: c_int = 5;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut UnwindContext, *mut c_void) -> c_int,
        state: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut UnwindContext) -> usize;
}

/// About a microsecond per frame, against some nanoseconds by frame pointers. Not for signal handlers.
pub(crate) fn unwind_by_tables(stack: &mut RawStack) {
    extern "C" fn visit(context: *mut UnwindContext, state: *mut c_void) -> c_int {
        // SAFETY: the unwinder hands over a valid context, and `state` as it was given below.
        let (stack, address) = unsafe { (&mut *state.cast::<RawStack>(), _Unwind_GetIP(context)) };
        if address != 0 && stack.push(address as u64) { UNWIND_CONTINUE } else { UNWIND_STOP }
    }
    // SAFETY: `visit` does not unwind, and `stack` outlives the call, which is synchronous.
    unsafe {
        _Unwind_Backtrace(visit, std::ptr::from_mut(stack).cast());
    }
}
