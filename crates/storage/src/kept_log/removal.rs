//! What of the log goes: what is too old, and the oldest if the disk lacks room.

use std::collections::BTreeMap;
use std::io;

use super::{Kept, KeptLog, RoomLimits};
use crate::log_file::large_name;

/// More segments are not kept, however old they may become.
const KEPT_SEGMENTS_MAX: usize = 1 << 16;

/// So many are removed in a turn of the thread that flushes: after the time to keep them was made shorter there may be all of them.
const REMOVED_AT_ONCE: usize = 64;

impl KeptLog {
    /// Removes what is older than it has to be, or some of it.
    pub(crate) fn remove_old(&self) {
        let _changing = self.changing.lock();
        let old: Vec<Kept> = std::iter::from_fn(|| self.take_old()).take(REMOVED_AT_ONCE).collect();
        self.forget_sizes(&old);
        self.remove(&old);
    }

    fn take_old(&self) -> Option<Kept> {
        let now_ms = self.clock.wall_ms();
        let mut segments = self.segments.lock();
        let is_too_much = segments.len() > KEPT_SEGMENTS_MAX;
        // One of a time that is still to come is of a clock that was ahead: it is older than those behind it.
        let mut since_ms = segments.values().map(|kept| kept.segment.kept_ms).filter(|&ms| ms <= now_ms);
        let is_old = since_ms.next().is_some_and(|ms| ms.saturating_add(self.keep_ms) < now_ms);
        let oldest = segments.first_entry()?;
        (is_too_much || is_old).then(|| oldest.remove())
    }

    /// Removes the oldest segments if less is free than is wanted, until it is or will be. Some file systems show room only a while after
    /// a file is gone: no more goes than has as many bytes as are missing, of which large values that live are none. Answers what is
    /// free then; `measure` looks.
    pub(crate) fn make_room(
        &self,
        free_bytes: u64,
        limits: RoomLimits,
        measure: &dyn Fn() -> Option<u64>,
    ) -> u64 {
        let is_enough =
            |free_bytes| self.awaited.lock().is_enough(free_bytes, limits, self.clock.monotonic_ns());
        // Nobody waits for those who keep segments unless one has to go.
        if is_enough(free_bytes) {
            return free_bytes;
        }
        let _changing = self.changing.lock();
        // Whoever had the lock may have made it: several find the same lack at once.
        let mut free_bytes = measure().unwrap_or(free_bytes);
        while !is_enough(free_bytes) {
            let Some(bytes) = self.remove_oldest() else { break };
            self.awaited.lock().add(bytes, self.clock.monotonic_ns());
            free_bytes = measure().unwrap_or(free_bytes);
        }
        free_bytes
    }

    /// Removes the oldest segment, because the disk has no room for it. Answers how much it gives back, most of which may be large values
    /// that nothing else has; `None` if there is none.
    fn remove_oldest(&self) -> Option<u64> {
        let (number, oldest) = self.segments.lock().pop_first()?;
        let bytes = self.sizes.lock().room_of(oldest.bytes, &oldest.larges);
        self.give_up(BTreeMap::from([(number, oldest)]));
        Some(bytes)
    }

    /// Removes all of it, for the same reason.
    pub(crate) fn remove_all(&self) -> bool {
        let _changing = self.changing.lock();
        let all = std::mem::take(&mut *self.segments.lock());
        self.give_up(all)
    }

    fn give_up(&self, segments: BTreeMap<u64, Kept>) -> bool {
        for &segment in segments.keys() {
            tracing::warn!(segment, "the disk is nearly full: removed the oldest log that was kept");
            self.note_gap();
        }
        let segments: Vec<Kept> = segments.into_values().collect();
        self.forget_sizes(&segments);
        self.remove(&segments);
        !segments.is_empty()
    }

    fn forget_sizes(&self, segments: &[Kept]) {
        let mut sizes = self.sizes.lock();
        for kept in segments {
            sizes.remove_segment(kept.bytes);
            kept.larges.iter().for_each(|&large| sizes.remove_large(large));
        }
    }

    /// The segments first, durably: what a crash or a failure leaves of their large values is removed when the store is opened again.
    pub(super) fn remove(&self, segments: &[Kept]) {
        let removed = segments.iter().filter(|kept| self.remove_name(&kept.segment.file_name()));
        let removed: Vec<&Kept> = removed.filter(|kept| !kept.larges.is_empty()).collect();
        if removed.is_empty() {
            return;
        }
        if let Err(error) = self.sync_names() {
            tracing::warn!(%error, "could not remove large values of log that was kept");
            return;
        }
        for kept in removed {
            for &large in &kept.larges {
                self.remove_name(&large_name(kept.segment.number, large));
            }
        }
    }

    /// Whether there is no such name any more. It may be one that was never made.
    pub(super) fn remove_name(&self, name: &str) -> bool {
        let path = self.kept.join(name);
        match self.disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "could not remove log that was kept");
                false
            }
            _ => true,
        }
    }
}
