use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::error::Error;

/// Whether a store takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum WriteState {
    /// It does.
    Open = 0,
    /// It takes deletes only, until there is room on the disk.
    DiskFull = 1,
    /// It takes none until it is reopened.
    Poisoned = 2,
}

/// How much has to be free on a full disk before puts are taken again: an eighth more than the reserve, so that the state does not
/// flap.
const fn open_again_bytes(reserve_bytes: u64) -> u64 {
    reserve_bytes + reserve_bytes / 8
}

/// Why writes are refused, if they are.
#[derive(Default)]
pub(crate) struct Health {
    state: AtomicU8,
    reason: OnceLock<String>,
    free_bytes: AtomicU64,
    /// Whether a lack of descriptors or of room was logged that the free space does not show.
    has_told_of_lack: AtomicBool,
}

impl Health {
    #[inline]
    pub(crate) fn state(&self) -> WriteState {
        match self.state.load(Ordering::Acquire) {
            0 => WriteState::Open,
            1 => WriteState::DiskFull,
            _ => WriteState::Poisoned,
        }
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.get().cloned()
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Refuses writes from now on, for good; the first reason stays.
    pub(crate) fn poison(&self, error: &Error) -> Error {
        let reason = self.reason.get_or_init(|| {
            tracing::error!(%error, "writes are refused from now on");
            error.to_string()
        });
        self.state.store(WriteState::Poisoned as u8, Ordering::Release);
        Error::Poisoned { reason: reason.clone() }
    }

    /// Notes how much space is free.
    pub(crate) fn observe_free(&self, free_bytes: u64, reserve_bytes: u64) {
        self.free_bytes.store(free_bytes, Ordering::Relaxed);
        let (open, full) = (WriteState::Open as u8, WriteState::DiskFull as u8);
        let (from, to) = if free_bytes < reserve_bytes {
            (open, full)
        } else if free_bytes >= open_again_bytes(reserve_bytes) {
            (full, open)
        } else {
            return;
        };
        if self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            tracing::warn!(
                free_bytes,
                reserve_bytes,
                refuses_puts = to == full,
                "free space on the disk crossed a limit"
            );
        }
    }

    /// Logs what failed. A condition that may pass is logged once: a full disk when it becomes full, a lack of descriptors, or of room
    /// that the free space does not show, such as of inodes, with the first failure since something succeeded that needs them.
    pub(crate) fn tell(&self, what: &str, error: &Error) {
        let is_full = error.is_disk_full() && self.state() == WriteState::DiskFull;
        let is_known = is_full || error.may_pass() && self.has_told_of_lack.swap(true, Ordering::Relaxed);
        if !is_known {
            tracing::error!(%error, "{what} failed");
        }
    }

    /// What needs room and descriptors has succeeded: the next lack is a new one.
    pub(crate) fn forget_lack(&self) {
        self.has_told_of_lack.store(false, Ordering::Relaxed);
    }

    /// Refuses a write that the state does not allow.
    pub(crate) fn admit(&self, has_puts: bool, reserve_bytes: u64) -> Result<(), Error> {
        match self.state() {
            WriteState::Open => Ok(()),
            WriteState::DiskFull if !has_puts => Ok(()),
            WriteState::DiskFull => {
                let needed_bytes = open_again_bytes(reserve_bytes);
                Err(Error::DiskFull { free_bytes: self.free_bytes(), needed_bytes })
            }
            WriteState::Poisoned => Err(Error::Poisoned { reason: self.reason().unwrap_or_default() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_refuses_puts_until_there_is_room_and_poison_is_for_good() {
        let health = Health::default();
        health.observe_free(99, 100);
        assert_eq!(health.state(), WriteState::DiskFull);
        assert!(health.admit(true, 100).expect_err("full").is_disk_full());
        health.admit(false, 100).expect("deletes go on");
        health.observe_free(105, 100);
        assert_eq!(health.state(), WriteState::DiskFull, "not enough to come back");
        let told = health.admit(true, 100).expect_err("full").to_string();
        assert_eq!(told, "the disk is full: 105 bytes are free, 112 are needed", "no contradiction");
        health.observe_free(113, 100);
        health.admit(true, 100).expect("there is room");

        health.poison(&Error::Closed);
        health.observe_free(1, 100);
        health.observe_free(1000, 100);
        assert_eq!(health.state(), WriteState::Poisoned);
        assert!(matches!(health.admit(false, 100), Err(Error::Poisoned { .. })));
    }
}
