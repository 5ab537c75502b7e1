use std::collections::{BTreeMap, BTreeSet};

/// How long the files of the log are that is kept: sums, so that who asks for them does not look at each.
#[derive(Default)]
pub(crate) struct KeptSizes {
    segment_bytes: u64,
    larges: BTreeMap<u64, KeptLarge>,
    /// Of all of `larges`.
    large_bytes: u64,
    /// What is free once all of them are removed.
    large_room_bytes: u64,
}

/// A large value, which several segments may name.
struct KeptLarge {
    bytes: u64,
    segments: u64,
    /// Whether the store refers to it, too.
    is_used: bool,
    /// Whether it stays until the store is opened again.
    is_stuck: bool,
}

impl KeptLarge {
    /// What is free once it is removed.
    const fn room_bytes(&self) -> u64 {
        if self.is_used || self.is_stuck { 0 } else { self.bytes }
    }
}

impl KeptSizes {
    pub(crate) const fn add_segment(&mut self, bytes: u64) {
        self.segment_bytes += bytes;
    }

    /// One is removed, or so much shorter.
    pub(crate) const fn remove_segment(&mut self, bytes: u64) {
        self.segment_bytes -= bytes;
    }

    /// One more segment names a large value, which the store uses.
    pub(crate) fn add_large(&mut self, file: u64, bytes: u64) {
        let large = self.larges.entry(file).or_insert_with(|| {
            self.large_bytes += bytes;
            KeptLarge { bytes, segments: 0, is_used: true, is_stuck: false }
        });
        large.segments += 1;
    }

    /// One segment less names it.
    pub(crate) fn remove_large(&mut self, file: u64) {
        let Some(large) = self.larges.get_mut(&file) else { return };
        large.segments -= 1;
        if large.segments == 0 {
            self.large_bytes -= large.bytes;
            self.large_room_bytes -= large.room_bytes();
            self.larges.remove(&file);
        }
    }

    /// The store does not use it any more, and never will.
    pub(crate) fn set_unused(&mut self, file: u64) {
        self.change(file, |large| large.is_used = false);
    }

    /// It stays until the store is opened again: no removal gives its room back.
    pub(crate) fn set_stuck(&mut self, file: u64) {
        self.change(file, |large| large.is_stuck = true);
    }

    fn change(&mut self, file: u64, change: impl FnOnce(&mut KeptLarge)) {
        if let Some(large) = self.larges.get_mut(&file) {
            self.large_room_bytes -= large.room_bytes();
            change(large);
            self.large_room_bytes += large.room_bytes();
        }
    }

    /// Those are not used that `is_used` does not know.
    pub(crate) fn set_all_unused_but(&mut self, is_used: impl Fn(u64) -> bool) {
        let unused: Vec<u64> = self.larges.keys().copied().filter(|&file| !is_used(file)).collect();
        unused.into_iter().for_each(|file| self.set_unused(file));
    }

    /// All files, each once.
    pub(crate) const fn bytes(&self) -> u64 {
        self.segment_bytes + self.large_bytes
    }

    /// What is free once a segment of so many bytes is removed, and nothing else.
    pub(crate) fn room_of(&self, segment_bytes: u64, larges: &BTreeSet<u64>) -> u64 {
        let larges = larges.iter().filter_map(|file| self.larges.get(file));
        let last = larges.filter(|large| large.segments == 1);
        segment_bytes + last.map(KeptLarge::room_bytes).sum::<u64>()
    }

    /// What is free once all are removed but segments of so many bytes, and these large values.
    pub(crate) fn room_beside(&self, segment_bytes: u64, larges: &BTreeSet<u64>) -> u64 {
        let larges = larges.iter().filter_map(|file| self.larges.get(file));
        let large_bytes = larges.map(KeptLarge::room_bytes).sum::<u64>();
        self.room_bytes().saturating_sub(segment_bytes + large_bytes)
    }

    /// What is free once all of them are removed.
    pub(crate) const fn room_bytes(&self) -> u64 {
        self.segment_bytes + self.large_room_bytes
    }
}
