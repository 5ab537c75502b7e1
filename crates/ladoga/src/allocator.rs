//! The allocator of the process.
//!
//! The system's allocator, jemalloc and this one take the same processor time a request, within what can be measured,
//! and about the same memory; this one builds in seconds. Its huge pages are switched off in the workspace's manifest:
//! with them, a budget of 16 MiB had a resident set of 125 MiB instead of 20.
#![expect(unsafe_code, reason = "mimalloc takes its options through a C interface")]

use std::ffi::{c_int, c_long};

use ladoga_profiler::ProfilingAllocator;
use mimalloc::MiMalloc;

/// Around the allocator, what allocation profiles see: a load and a branch an allocation while there are none.
#[global_allocator]
static ALLOCATOR: ProfilingAllocator<MiMalloc> = ProfilingAllocator::new(MiMalloc);

/// `mi_option_purge_delay` of mimalloc's `mi_option_t`, for which the bindings have no name.
const PURGE_DELAY_OPTION: c_int = 15;
/// How long freed memory stays with the process. mimalloc's own second is long beside a flood: with a budget of 64 MiB, peers
/// that wrote 94 MB in half a second left 76 to 85 MiB resident, of which 20 MiB were in use.
const PURGE_DELAY_MS: c_long = 100;

/// Makes the allocator return freed memory to the system soon, so that resident memory follows what is in use.
pub(crate) fn give_back_soon() {
    // SAFETY: takes plain numbers; the option exists, and setting it is allowed at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY_OPTION, PURGE_DELAY_MS) };
}
