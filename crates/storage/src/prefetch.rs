//! Asking the processor for a line before it is needed.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "std has no stable name for it"))]

/// Of the processor's cache.
pub(crate) const LINE_BYTES: usize = 64;

/// For how many keys what look-ups wait for is fetched together: about as many lines as a processor waits for at the same time.
pub(crate) const KEYS_AHEAD_MAX: usize = 16;

/// Prefetches the cache line of this address. Does nothing on processors for which we have no instruction.
#[inline]
pub(crate) fn prefetch_line(address: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every processor of this architecture has the instruction, and it takes any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches the cache lines of these bytes, but for the last one if they begin within a line.
#[inline]
pub(crate) fn prefetch_bytes(address: usize, length: usize) {
    (0..length).step_by(LINE_BYTES).for_each(|line| prefetch_line(address + line));
}

/// Prefetches all cache lines of `place`.
#[inline]
pub(crate) fn prefetch<T>(place: &T) {
    prefetch_bytes(std::ptr::from_ref(place).addr(), size_of::<T>());
}
