use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// The token of the alarm clock in an event queue; no connection has it.
pub(super) const ALARM_CLOCK: u64 = u64::MAX;

/// Ends a sleep on an event queue in time. The queue's own timeout is rounded up to milliseconds on kernels before
/// 5.11, which no schedule could bear.
pub(super) struct AlarmClock {
    timer: OwnedFd,
}

impl AlarmClock {
    pub(super) fn new(poller: &OwnedFd) -> Result<Self, Errno> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Edge-triggered: it rings once and need not be read.
        let events = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(poller, &timer, epoll::EventData::new_u64(ALARM_CLOCK), events)?;
        Ok(Self { timer })
    }

    /// Rings once in so long, which is not zero; what it was set to before is forgotten.
    pub(super) fn set(&self, in_ns: u64) {
        debug_assert!(in_ns > 0);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value =
            Timespec { tv_sec: (in_ns / 1_000_000_000) as i64, tv_nsec: (in_ns % 1_000_000_000) as i64 };
        let time = Itimerspec { it_interval: zero, it_value: value };
        if let Err(error) = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &time) {
            unreachable!("setting a timer of our own: {error}");
        }
    }
}
