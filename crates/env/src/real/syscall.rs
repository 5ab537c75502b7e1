//! System calls that `std` has no safe name for: by rustix if it has them. Each function is one call and its error.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::rand::GetRandomFlags;

/// `preadv2(RWF_NOWAIT)`: reads what the page cache holds, answers how many bytes that were.
pub(super) fn read_cached(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file_offset(offset)?;
    Ok(rustix::io::preadv2(file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)?)
}

/// `fallocate(mode 0)` of the bytes from 0 to `len`, which is not 0.
pub(super) fn allocate(file: &File, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len)?)
}

/// `sync_file_range(SYNC_FILE_RANGE_WRITE)`: starts writing dirty pages and does not wait for them.
pub(super) fn start_writeback(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let (offset, len) = (file_offset(offset)?, file_offset(len)?);
    // SAFETY: no pointers; the descriptor is open as long as `file` lives.
    #[expect(unsafe_code, reason = "neither std nor rustix can start a writeback")]
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    succeeded(result)
}

/// `fstatvfs`: the bytes that a process without privileges may still write.
pub(super) fn free_bytes(file: &File) -> io::Result<u64> {
    let answer = rustix::fs::fstatvfs(file)?;
    Ok(answer.f_bavail.saturating_mul(answer.f_frsize))
}

/// `ioctl(SIOCOUTQ)`: the bytes written to a TCP socket that the other end has not acknowledged.
pub(super) fn unacknowledged_bytes(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the call writes one integer, to `bytes`, which outlives it; the descriptor is open as long as it is borrowed.
    #[expect(unsafe_code, reason = "neither std nor rustix can ask for it")]
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    succeeded(result)?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}

/// `getrandom`: fills `buffer`, of at most 256 bytes, which the kernel never fills in part.
pub(super) fn random_bytes(buffer: &mut [u8]) -> io::Result<()> {
    assert!(buffer.len() <= 256, "getrandom may answer in part beyond 256 bytes");
    loop {
        match rustix::rand::getrandom(&mut *buffer, GetRandomFlags::empty()) {
            Ok(filled) if filled == buffer.len() => return Ok(()),
            // A signal before the system has gathered its first seed.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Offsets are signed in the kernel; one beyond that is refused here as the kernel would.
pub(super) fn file_offset(offset: u64) -> io::Result<i64> {
    i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Gives the calling thread a smaller share of the processor: `nice` goes from 0 to 19, each a fifth less than the one
/// before. Linux keeps this value by thread, not by process.
pub(super) fn lower_thread_priority(nice: i32) {
    // If the system refuses, the thread keeps its priority.
    let _ = rustix::process::setpriority_process(None, nice);
}

/// Makes the calling thread run only on idle cores, and invisible to the scheduler's placement: another thread that wakes up is
/// put on its core as if the core was idle. If the system refuses that policy, nice 19 is left, and then other threads avoid
/// that core and crowd on the rest. Answers whether the system took the policy.
pub(super) fn run_thread_when_idle() -> bool {
    lower_thread_priority(19);
    let parameters = libc::sched_param { sched_priority: 0 };
    #[expect(unsafe_code, reason = "neither std nor rustix has the policy or the class")]
    // SAFETY: `parameters` outlives the call; 0 means the calling thread, which needs no privilege to lower its priority. The
    // second call takes plain numbers: class "best effort" (2), lowest level (7), as at nice 19. Without it the policy would
    // also make the thread's reads and syncs wait for those of all others.
    unsafe {
        let refused = libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters);
        libc::syscall(libc::SYS_ioprio_set, 1, 0, (2 << 13) | 7);
        refused == 0
    }
}

/// `signal(SIGXFSZ, SIG_IGN)`: a write beyond the largest file that the process may have fails with `EFBIG` then, as the
/// manual has it; by default the signal ends the process.
pub(super) fn ignore_file_size_signal() {
    #[expect(unsafe_code, reason = "neither std nor rustix has signals of the C library")]
    // SAFETY: takes plain numbers; no handler of ours runs in a signal's context.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
