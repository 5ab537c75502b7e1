use std::time::Duration;

use parking_lot::Mutex;

use crate::error::Error;

/// Flushes that may fail in a row before the store is given up: until then the log has everything.
pub(super) const FLUSH_FAILURES_MAX: u32 = 10;
/// How far apart they are that count. The thread that flushes is woken at any time, and what passes within seconds, such as
/// permissions that somebody is changing, must not be what the store is given up for.
pub(super) const FLUSH_FAILURES_APART: Duration = Duration::from_secs(1);

/// Flushes that failed.
#[derive(Default)]
pub(super) struct FlushFailures {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    failures: u64,
    error: Option<Error>,
    put_off: u64,
    /// Why a flush was put off, the last time.
    put_off_for: Option<Error>,
    /// In a row, for a reason that is not known to pass, and apart from each other.
    counted: u32,
    counted_ns: u64,
}

/// What a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    /// It has to wait for something to pass: for room on the disk, or for a descriptor.
    PutOff,
    /// Nothing new: another one has just been counted.
    Again,
    Counted,
    /// It was the last one that may be.
    ForGood,
}

impl FlushFailures {
    pub(super) fn note(&self, error: &Error, now_ns: u64) -> Failed {
        let mut seen = self.seen.lock();
        seen.failures += 1;
        seen.error = Some(error.clone());
        if error.may_pass() {
            seen.put_off += 1;
            seen.put_off_for = Some(error.clone());
            return Failed::PutOff;
        }
        let since_last = Duration::from_nanos(now_ns.saturating_sub(seen.counted_ns));
        if seen.counted > 0 && since_last < FLUSH_FAILURES_APART {
            return Failed::Again;
        }
        (seen.counted, seen.counted_ns) = (seen.counted + 1, now_ns);
        if seen.counted < FLUSH_FAILURES_MAX { Failed::Counted } else { Failed::ForGood }
    }

    /// Notes a flush that succeeded.
    pub(super) fn flushed(&self) {
        self.seen.lock().counted = 0;
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.seen.lock().failures
    }

    /// Why the last one failed, if there were more than so many.
    pub(super) fn since(&self, count: u64) -> Option<Error> {
        let seen = self.seen.lock();
        seen.error.clone().filter(|_| seen.failures > count)
    }

    /// How many were put off.
    pub(super) fn put_off(&self) -> u64 {
        self.seen.lock().put_off
    }

    /// Why flushes have to wait, if more than so many were put off.
    pub(super) fn put_off_since(&self, count: u64) -> Option<Error> {
        let seen = self.seen.lock();
        seen.put_off_for.clone().filter(|_| seen.put_off > count)
    }
}
