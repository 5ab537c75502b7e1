use std::thread;
use std::time::Duration;

use ladoga_backup::{Error, Source};
use ladoga_env::Clock;
use ladoga_storage::StoreFile;

/// Reads no faster than it may: what a node sends for a backup it does not do for its clients.
#[derive(Clone, Copy)]
pub(super) struct Pace<'c> {
    clock: &'c dyn Clock,
    /// None if it does not matter.
    bytes_per_second: Option<u64>,
    /// When the next piece may be asked for.
    due_ns: u64,
}

impl<'c> Pace<'c> {
    pub(super) fn new(clock: &'c dyn Clock, bytes_per_second: Option<u64>) -> Pace<'c> {
        Pace { clock, bytes_per_second, due_ns: clock.monotonic_ns() }
    }

    /// Reads a piece when it is time for it.
    pub(super) fn read(&mut self, read: impl FnOnce() -> Result<Vec<u8>, Error>) -> Result<Vec<u8>, Error> {
        let now_ns = self.clock.monotonic_ns();
        if let Some(early_ns) = self.due_ns.checked_sub(now_ns) {
            thread::sleep(Duration::from_nanos(early_ns));
        }
        let piece = read()?;
        // What was not used in time is gone: a burst is what this is to prevent.
        self.due_ns = self.due_ns.max(now_ns) + took_ns(piece.len(), self.bytes_per_second);
        Ok(piece)
    }
}

/// A source that is read at a pace.
pub(super) struct Paced<'s, 'c> {
    source: &'s mut dyn Source,
    pace: Pace<'c>,
}

impl<'s, 'c> Paced<'s, 'c> {
    pub(super) fn new(source: &'s mut dyn Source, pace: Pace<'c>) -> Paced<'s, 'c> {
        Paced { source, pace }
    }
}

impl Source for Paced<'_, '_> {
    fn read(&mut self, file: StoreFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let Paced { source, pace } = self;
        pace.read(|| source.read(file, offset, bytes_max))
    }
}

/// What so many bytes take at this rate.
fn took_ns(bytes: usize, bytes_per_second: Option<u64>) -> u64 {
    let Some(rate) = bytes_per_second else { return 0 };
    u64::try_from(bytes as u128 * 1_000_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_takes_its_part_of_a_second() {
        assert_eq!(took_ns(1 << 20, Some(64 << 20)), 15_625_000);
        assert_eq!(took_ns(1 << 20, None), 0);
        assert_eq!(took_ns(usize::MAX, Some(1)), u64::MAX);
    }
}
