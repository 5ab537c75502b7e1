//! Small system calls. Each is async-signal-safe: the SIGPROF handler and the allocator use them.
#![expect(unsafe_code, reason = "system calls that std does not offer, and one register")]

use std::cell::Cell;

/// Nanoseconds of `CLOCK_MONOTONIC`: the clock of the kernel's samples too, so that all timestamps compare.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write; the clocks above exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

thread_local! {
    static THREAD_ID: Cell<u32> = const { Cell::new(0) };
}

/// The kernel's number of this thread, as in `/proc/self/task`.
pub(crate) fn thread_id() -> u32 {
    THREAD_ID.with(|cached| {
        if cached.get() == 0 {
            // SAFETY: takes no arguments and cannot fail.
            cached.set(unsafe { libc::gettid() } as u32);
        }
        cached.get()
    })
}

/// Copies words of the process's own memory from `address`; returns how many could be read. An address that is not
/// mapped is no fault, which is why a stack of unknown extent can be walked with it.
pub(crate) fn read_own_memory(address: u64, words: &mut [u64]) -> usize {
    let local = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(words) };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: size_of_val(words) };
    // SAFETY: `local` describes the caller's slice, of which any bit pattern is valid; the kernel checks `remote`.
    let bytes =
        unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(bytes).map_or(0, |bytes| bytes / size_of::<u64>())
}

/// The frame pointer of the function into which this is inlined; any value if that function has none.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the register of the caller is asked for")]
pub(crate) fn frame_pointer() -> u64 {
    let value: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: copies one register.
    unsafe {
        std::arch::asm!("mov {}, rbp", out(reg) value, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: copies one register.
    unsafe {
        std::arch::asm!("mov {}, x29", out(reg) value, options(nomem, nostack, preserves_flags));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_mapped_reads_as_nothing() {
        let mut words = [7; 4];
        assert_eq!(read_own_memory(8, &mut words), 0);
        let source = [1u64, 2, 3, 4];
        assert_eq!(read_own_memory(source.as_ptr() as u64, &mut words), 4);
        assert_eq!(words, source);
    }

    #[test]
    fn clocks_run() {
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first && unix_ns() > 1_600_000_000_000_000_000);
        assert_ne!(thread_id(), 0);
    }
}
