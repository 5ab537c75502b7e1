use std::sync::atomic::{AtomicU64, Ordering};
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
    failures: AtomicU64,
    put_off: AtomicU64,
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    error: Option<Error>,
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
        let mut last = self.last.lock();
        last.error = Some(error.clone());
        self.failures.fetch_add(1, Ordering::Release);
        if error.may_pass() {
            last.put_off_for = Some(error.clone());
            self.put_off.fetch_add(1, Ordering::Release);
            return Failed::PutOff;
        }
        let since_last = Duration::from_nanos(now_ns.saturating_sub(last.counted_ns));
        if last.counted > 0 && since_last < FLUSH_FAILURES_APART {
            return Failed::Again;
        }
        (last.counted, last.counted_ns) = (last.counted + 1, now_ns);
        if last.counted < FLUSH_FAILURES_MAX { Failed::Counted } else { Failed::ForGood }
    }

    /// Notes a flush that succeeded.
    pub(super) fn flushed(&self) {
        self.last.lock().counted = 0;
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.failures.load(Ordering::Acquire)
    }

    /// Why the last one failed, if there were more than `seen`.
    pub(super) fn since(&self, seen: u64) -> Option<Error> {
        if self.count() == seen { None } else { self.last.lock().error.clone() }
    }

    /// How many were put off.
    pub(super) fn put_off(&self) -> u64 {
        self.put_off.load(Ordering::Acquire)
    }

    /// Why flushes have to wait, if more were put off than `seen`.
    pub(super) fn put_off_since(&self, seen: u64) -> Option<Error> {
        if self.put_off() == seen { None } else { self.last.lock().put_off_for.clone() }
    }
}
