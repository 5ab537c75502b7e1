//! What of the log goes: what is too old, and the oldest if the disk lacks room.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;

use super::{Kept, KeptLog, RoomLimits};
use crate::error::Error;
use crate::log_file::{KeptSegment, large_name};

/// More segments are not kept, however old they may become.
pub(super) const KEPT_SEGMENTS_MAX: usize = if cfg!(test) { 100 } else { 1 << 16 };

/// So many are removed in a turn of the thread that flushes: after the time to keep them was made shorter there may be all of them.
const REMOVED_AT_ONCE: usize = 64;

/// No more segments go for room once so many cannot be removed: the others would not go either. Of a single one, the name may be damaged.
const LEFT_MAX: usize = 2;

impl KeptLog {
    /// Removes what is older than it has to be, or some of it, and what could not be removed or shortened before.
    pub(crate) fn remove_old(&self) {
        self.shorten_others();
        let _changing = self.changing.lock();
        self.tell(self.remove_left(|_| true));
        let old = std::iter::from_fn(|| self.take_old()).take(REMOVED_AT_ONCE).collect();
        self.remove(old);
    }

    fn take_old(&self) -> Option<Kept> {
        let now_ms = self.clock.wall_ms();
        let mut segments = self.segments.lock();
        let is_too_much = segments.len() > KEPT_SEGMENTS_MAX;
        // One of a time that is still to come is of a clock that was ahead: it is older than those behind it.
        let mut since_ms = segments.values().map(|kept| kept.segment.kept_ms).filter(|&ms| ms <= now_ms);
        let is_old = since_ms.next().is_some_and(|ms| ms.saturating_add(self.keep_ms) < now_ms);
        if !is_old && !is_too_much {
            return None;
        }
        let (_, oldest) = segments.pop_first()?;
        drop(segments);
        if !is_old {
            self.tell_too_many();
            self.note_gap();
        }
        Some(oldest)
    }

    /// Once: each segment that is kept from now on takes the place of another one.
    fn tell_too_many(&self) {
        if !self.has_told_too_many.swap(true, Ordering::Relaxed) {
            let (segments_max, keep_ms) = (KEPT_SEGMENTS_MAX, self.keep_ms);
            tracing::warn!(
                segments_max,
                keep_ms,
                "there is more log than can be kept: from now on the oldest goes before its time"
            );
        }
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
        if !is_enough(free_bytes) {
            // What could not be removed gives more than the next one would, which would not give all of its own either.
            let before_bytes = self.sizes.lock().room_bytes();
            let removed = self.remove_left(|_| true);
            let bytes = before_bytes.saturating_sub(self.sizes.lock().room_bytes());
            if bytes > 0 {
                self.awaited.lock().add(bytes, self.clock.monotonic_ns());
            }
            free_bytes = measure().unwrap_or(free_bytes);
            let keeps_others =
                |error: Error| error.is_out_of_descriptors() || self.left.lock().len() >= LEFT_MAX;
            if removed.is_err_and(keeps_others) {
                return free_bytes;
            }
        }
        while !is_enough(free_bytes) {
            let Some(bytes) = self.remove_oldest() else { break };
            self.awaited.lock().add(bytes, self.clock.monotonic_ns());
            free_bytes = measure().unwrap_or(free_bytes);
        }
        free_bytes
    }

    /// Removes the oldest segment, because the disk has no room for it. Answers how much it gives back, most of which may be large values
    /// that nothing else has; `None` if there is none, or if some of it is left.
    fn remove_oldest(&self) -> Option<u64> {
        let (number, oldest) = self.segments.lock().pop_first()?;
        let bytes = self.sizes.lock().room_of(oldest.bytes, &oldest.larges);
        self.give_up(BTreeMap::from([(number, oldest)]));
        let is_left = self.left.lock().iter().any(|kept| kept.segment.number == number);
        (!is_left).then_some(bytes)
    }

    /// Removes all of it, for the same reason, as soon as it is seen that it can be removed. Answers whether any of it is gone.
    pub(crate) fn remove_all(&self) -> bool {
        let _changing = self.changing.lock();
        let before_bytes = self.sizes.lock().room_bytes();
        self.tell(self.remove_left(|_| true));
        while self.left.lock().len() < LEFT_MAX && !self.segments.lock().is_empty() {
            if self.remove_oldest().is_some() {
                let others = std::mem::take(&mut *self.segments.lock());
                self.give_up(others);
            }
        }
        self.sizes.lock().room_bytes() < before_bytes
    }

    fn give_up(&self, segments: BTreeMap<u64, Kept>) {
        for &segment in segments.keys() {
            tracing::warn!(segment, "the disk is nearly full: the oldest log that was kept goes");
            self.note_gap();
        }
        self.remove(segments.into_values().collect());
    }

    pub(super) fn remove(&self, segments: Vec<Kept>) {
        self.tell(self.try_to_remove(segments));
    }

    /// What is free once all of it is removed that nothing has kept from being removed so far.
    pub(crate) fn room_bytes(&self) -> u64 {
        let left = self.left.lock();
        let segment_bytes = left.iter().map(|kept| kept.bytes).sum();
        let larges = left.iter().flat_map(|kept| &kept.larges).copied().collect();
        self.sizes.lock().room_beside(segment_bytes, &larges)
    }

    /// Tells of a failure, once until nothing is left: what is left is tried again many times a second.
    fn tell(&self, removed: Result<(), Error>) {
        match removed {
            Err(error) if !self.has_told.swap(true, Ordering::Relaxed) => {
                tracing::warn!(%error, "could not remove log that was kept; it is tried again");
            }
            Ok(()) if self.left.lock().is_empty() => self.has_told.store(false, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Tries again to remove what is left of some that are kept no more.
    pub(super) fn remove_left(&self, is_meant: impl Fn(&KeptSegment) -> bool) -> Result<(), Error> {
        let mut left = self.left.lock();
        let some = left.extract_if(.., |kept| is_meant(&kept.segment)).take(REMOVED_AT_ONCE).collect();
        drop(left);
        self.try_to_remove(some)
    }

    /// The segments first, durably: what a crash leaves of their large values is removed when the store is opened again. What a failure
    /// leaves counts still, and is tried again. Answers one of the failures.
    fn try_to_remove(&self, segments: Vec<Kept>) -> Result<(), Error> {
        let (mut removed, mut left, mut result) = (Vec::new(), Vec::new(), Ok(()));
        for mut kept in segments {
            match self.remove_name(&kept.segment.file_name()) {
                Ok(()) => {
                    self.sizes.lock().remove_segment(std::mem::take(&mut kept.bytes));
                    removed.push(kept);
                }
                Err(error) => {
                    left.push(kept);
                    result = Err(error);
                }
            }
        }
        removed.retain(|kept| !kept.larges.is_empty());
        match if removed.is_empty() { Ok(()) } else { self.sync_names() } {
            Ok(()) => {
                result = removed.iter_mut().map(|kept| self.remove_larges(kept)).fold(result, Result::and);
                removed.retain(|kept| !kept.larges.is_empty());
            }
            Err(error) => {
                // If the directory could not be opened, nothing was synced. Otherwise, another sync may succeed although the segments
                // are there again after a power cut: their large values stay until the store is opened again.
                if !error.is_out_of_descriptors() {
                    let mut sizes = self.sizes.lock();
                    removed.drain(..).flat_map(|kept| kept.larges).for_each(|large| sizes.set_stuck(large));
                }
                result = Err(error);
            }
        }
        left.append(&mut removed);
        self.left.lock().append(&mut left);
        result
    }

    fn remove_larges(&self, kept: &mut Kept) -> Result<(), Error> {
        let mut result = Ok(());
        for large in std::mem::take(&mut kept.larges) {
            match self.remove_name(&large_name(kept.segment.number, large)) {
                Ok(()) => self.sizes.lock().remove_large(large),
                Err(error) => {
                    kept.larges.insert(large);
                    result = Err(error);
                }
            }
        }
        result
    }

    /// There is no such name any more. It may be one that was never made.
    pub(super) fn remove_name(&self, name: &str) -> Result<(), Error> {
        let path = self.kept.join(name);
        match self.disk.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::io("remove", path)),
        }
    }
}
