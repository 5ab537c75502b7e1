//! `perf_event_open` and the ring that the kernel fills, one per thread.
#![expect(unsafe_code, reason = "a system call without a wrapper, and memory that is shared with the kernel")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// `struct perf_event_attr` up to `PERF_ATTR_SIZE_VER5`; see `linux/perf_event.h`.
#[repr(C)]
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    kind: u32,
    size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    read_format: u64,
    pub(crate) flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config_1: u64,
    config_2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock_id: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<Attributes>() == 112);

const PERF_TYPE_SOFTWARE: u32 = 1;
pub(crate) const SW_CPU_CLOCK: u64 = 0;
pub(crate) const SW_CONTEXT_SWITCHES: u64 = 3;

pub(crate) const SAMPLE_IP: u64 = 1;
pub(crate) const SAMPLE_TID: u64 = 1 << 1;
pub(crate) const SAMPLE_TIME: u64 = 1 << 2;
pub(crate) const SAMPLE_CALLCHAIN: u64 = 1 << 5;

pub(crate) const FLAG_DISABLED: u64 = 1;
pub(crate) const FLAG_EXCLUDE_IDLE: u64 = 1 << 7;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
const FLAG_USE_CLOCK_ID: u64 = 1 << 25;
pub(crate) const FLAG_CONTEXT_SWITCH: u64 = 1 << 26;

const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_REFRESH: libc::c_ulong = 0x2402;

/// Rings, without the page in front of them. A thread's holds 60 of the deepest samples and 400 usual ones. A core's has
/// everybody's samples in it, and is as large as the system lets anybody lock (`perf_event_mlock_kb` a core).
const THREAD_RING_BYTES: usize = 64 * 1024;
const CORE_RING_BYTES: usize = 512 * 1024;
const PAGE_BYTES: usize = 4096;
/// Offsets in `struct perf_event_mmap_page`.
const DATA_HEAD_AT: usize = 1024;
const DATA_TAIL_AT: usize = 1032;

impl Attributes {
    /// A software event whose samples have the time of `CLOCK_MONOTONIC`.
    pub(crate) fn software(config: u64, sample_period: u64, sample_type: u64, flags: u64) -> Self {
        Attributes {
            kind: PERF_TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config,
            sample_period,
            sample_type,
            flags: flags | FLAG_SAMPLE_ID_ALL | FLAG_USE_CLOCK_ID,
            clock_id: libc::CLOCK_MONOTONIC,
            sample_max_stack: super::FRAMES_MAX as u16,
            ..Attributes::default()
        }
    }
}

/// What an event watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// A thread, wherever it runs.
    Thread(u32),
    /// Whatever runs on a core.
    Core(u32),
}

/// One event, with its ring.
pub(crate) struct PerfEvent {
    file: OwnedFd,
    pages: NonNull<u8>,
    ring_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and the kernel does not care which thread reads it.
unsafe impl Send for PerfEvent {}

impl PerfEvent {
    pub(crate) fn open(attributes: &Attributes, target: Target) -> io::Result<Self> {
        let (thread, cpu, ring_bytes): (libc::pid_t, libc::c_int, usize) = match target {
            Target::Thread(id) => (id as libc::pid_t, -1, THREAD_RING_BYTES),
            Target::Core(index) => (-1, index as libc::c_int, CORE_RING_BYTES),
        };
        let no_group: libc::c_int = -1;
        // SAFETY: the structure is as its own `size` says; the call reads it and gives a new descriptor or an error.
        let descriptor = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                std::ptr::from_ref(attributes),
                thread,
                cpu,
                no_group,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made for us.
        let file = unsafe { OwnedFd::from_raw_fd(descriptor as libc::c_int) };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES + ring_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(address.cast::<u8>()) {
            Some(pages) if address != libc::MAP_FAILED => Ok(PerfEvent { file, pages, ring_bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Enables the event for so many samples, after which the kernel disables it.
    pub(crate) fn enable_for(&self, samples: u32) -> io::Result<()> {
        self.control(IOC_REFRESH, samples)
    }

    pub(crate) fn disable(&self) -> io::Result<()> {
        self.control(IOC_DISABLE, 0)
    }

    fn control(&self, request: libc::c_ulong, argument: u32) -> io::Result<()> {
        // SAFETY: both requests take a number.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, argument) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Appends the bytes that the kernel has written since the last call.
    pub(crate) fn read_into(&self, bytes: &mut Vec<u8>) {
        // SAFETY: both words lie in the first page of the mapping, aligned; the kernel's side is atomic as well.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(self.pages.as_ptr().add(DATA_HEAD_AT).cast()),
                AtomicU64::from_ptr(self.pages.as_ptr().add(DATA_TAIL_AT).cast()),
            )
        };
        let written = head.load(Ordering::Acquire);
        let read = tail.load(Ordering::Relaxed);
        let wanted = written.wrapping_sub(read) as usize;
        if wanted > self.ring_bytes {
            // Cannot be, and must not make us read elsewhere.
            tail.store(written, Ordering::Release);
            return;
        }
        let from = read as usize % self.ring_bytes;
        let first = wanted.min(self.ring_bytes - from);
        // SAFETY: both ranges lie within the data pages, and the kernel does not write what lies between tail and head.
        unsafe {
            let data = self.pages.as_ptr().add(PAGE_BYTES);
            bytes.extend_from_slice(std::slice::from_raw_parts(data.add(from), first));
            bytes.extend_from_slice(std::slice::from_raw_parts(data, wanted - first));
        }
        tail.store(written, Ordering::Release);
    }
}

impl Drop for PerfEvent {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, with this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.pages.as_ptr().cast(), PAGE_BYTES + self.ring_bytes) };
    }
}
