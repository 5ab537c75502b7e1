//! One CPU timer per thread that sends it `SIGPROF`, for systems that refuse the kernel's events.
//!
//! The handler allocates nothing, takes no lock, preserves `errno` and reads the stack through a system call that cannot fault.
//! It stays installed: a signal that was pending when the profile ended would otherwise end the process. Other users of
//! `SIGPROF` in the process are displaced.
#![expect(unsafe_code, reason = "signal handlers and POSIX timers have no safe interface")]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ring::{Event, Ring};
use crate::stack::RawStack;
use crate::sys::calls;

/// CPU time per sample; 0 while no profile runs.
static PERIOD_NS: AtomicU64 = AtomicU64::new(0);
static RING: OnceLock<Ring> = OnceLock::new();

/// The ring that the handler fills.
pub(crate) fn ring() -> &'static Ring {
    RING.get_or_init(Ring::new)
}

pub(crate) fn start(period_ns: u64) -> io::Result<()> {
    ring().drain(|_, _| {});
    ring().take_dropped();
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
    // SAFETY: the action is zeroed and then filled; the handler keeps to what a signal handler may do (above).
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut())
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    PERIOD_NS.store(period_ns, Ordering::Release);
    Ok(())
}

pub(crate) fn stop() {
    PERIOD_NS.store(0, Ordering::Release);
}

extern "C" fn on_signal(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let period_ns = PERIOD_NS.load(Ordering::Relaxed);
    let Some(ring) = RING.get() else { return };
    if period_ns == 0 {
        return;
    }
    // SAFETY: the kernel hands over both structures, valid until we return. `si_overrun` is the second word of the
    // timer's part of `siginfo`, which begins at 16 bytes; `libc` has no name for it.
    let (overrun, program_counter, frame_pointer, errno) = unsafe {
        let overrun = *info.cast::<i32>().add(5);
        let (program_counter, frame_pointer) = registers(&*context.cast::<libc::ucontext_t>());
        (overrun, program_counter, frame_pointer, *libc::__errno_location())
    };
    // CPU timers expire on scheduler ticks: at a higher rate than the tick's, several periods come as one signal.
    let count = 1 + u64::from(overrun.max(0) as u32);
    let event =
        Event { thread: calls::thread_id(), at_ns: calls::monotonic_ns(), weight: period_ns * count, count };
    ring.push(event, &RawStack::of_registers(program_counter, frame_pointer));
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = errno };
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> (u64, u64) {
    let registers = &context.uc_mcontext.gregs;
    (registers[libc::REG_RIP as usize] as u64, registers[libc::REG_RBP as usize] as u64)
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> (u64, u64) {
    (context.uc_mcontext.pc, context.uc_mcontext.regs[29])
}

/// A running timer of one thread; deleted when dropped.
#[derive(Debug)]
pub(crate) struct CpuTimer(libc::timer_t);

// SAFETY: the kernel's timer is the process's; any thread may delete it.
unsafe impl Send for CpuTimer {}

impl CpuTimer {
    pub(crate) fn start(thread: u32, period_ns: u64) -> io::Result<Self> {
        // The kernel's encoding of "scheduled CPU time of this thread": the inverted number, per-thread, scheduler's.
        let clock = (!(thread as libc::clockid_t) << 3) | 0b110;
        let mut timer: libc::timer_t = std::ptr::null_mut();
        let period = libc::timespec { tv_sec: 0, tv_nsec: period_ns as libc::c_long };
        let setting = libc::itimerspec { it_interval: period, it_value: period };
        // SAFETY: `event` is zeroed and then filled; all pointers are to locals that outlive the calls.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGPROF;
            event.sigev_notify_thread_id = thread as libc::c_int;
            if libc::timer_create(clock, &raw mut event, &raw mut timer) != 0 {
                return Err(io::Error::last_os_error());
            }
            let timer = CpuTimer(timer);
            match libc::timer_settime(timer.0, 0, &raw const setting, std::ptr::null_mut()) {
                0 => Ok(timer),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }
}

impl Drop for CpuTimer {
    fn drop(&mut self) {
        // SAFETY: made by `timer_create`, and deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}
