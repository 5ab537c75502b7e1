//! The unwinder that serves builds without frame pointers.
#![expect(unsafe_code, reason = "the unwinder's interface is C")]

use std::ffi::{c_int, c_void};

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

/// Who gets the addresses of a stack.
struct Visitor<'a> {
    push: &'a mut dyn FnMut(u64) -> bool,
}

/// Gives the addresses of the calling thread's stack to `push`, leaf first, for as long as that answers `true`. About a
/// microsecond per frame, against some nanoseconds by frame pointers. Not for signal handlers.
pub(crate) fn unwind_by_tables(push: &mut dyn FnMut(u64) -> bool) {
    extern "C" fn visit(context: *mut UnwindContext, state: *mut c_void) -> c_int {
        // SAFETY: the unwinder hands over a valid context, and `state` as it was given below.
        let (visitor, address) = unsafe { (&mut *state.cast::<Visitor<'_>>(), _Unwind_GetIP(context)) };
        if address != 0 && (visitor.push)(address as u64) { UNWIND_CONTINUE } else { UNWIND_STOP }
    }
    let mut visitor = Visitor { push };
    // SAFETY: `visit` does not unwind, and `visitor` outlives the call, which is synchronous.
    unsafe {
        _Unwind_Backtrace(visit, (&raw mut visitor).cast());
    }
}
