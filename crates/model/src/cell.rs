use crate::Stamp;

/// A value, as far as whoever holds it goes: `B` is bytes in memory, however they are held; `L` is whatever stands for a
/// value that is not to be held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Value<B, L> {
    /// All of it.
    Inline(B),
    /// What it is to be read by, or how long it is.
    Large(L),
}

/// One version of a key: what a replica stores, sends and merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell<B, L> {
    /// Its version, expiry, and for how many nodes it is.
    pub stamp: Stamp,
    /// `None` for a tombstone: the key is deleted, or its value has expired.
    pub value: Option<Value<B, L>>,
}

/// What is known of a cell without its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellMark {
    /// Its version, expiry, and for how many nodes it is.
    pub stamp: Stamp,
    /// Whether it was written as a deletion. A value that expires is never a tombstone, whether or not its time is over and its
    /// bytes are still there: so this is the same on all replicas at all times.
    pub is_tombstone: bool,
}

impl<B, L> Value<B, L> {
    /// The same with the large value held otherwise.
    #[inline]
    pub fn map_large<M>(self, map: impl FnOnce(L) -> M) -> Value<B, M> {
        match self {
            Value::Inline(bytes) => Value::Inline(bytes),
            Value::Large(large) => Value::Large(map(large)),
        }
    }

    /// The same with a value in memory held otherwise.
    #[inline]
    pub fn map_inline<C>(self, map: impl FnOnce(B) -> C) -> Value<C, L> {
        match self {
            Value::Inline(bytes) => Value::Inline(map(bytes)),
            Value::Large(large) => Value::Large(large),
        }
    }
}

impl<B: AsRef<[u8]>, L> Value<B, L> {
    /// How many bytes of it are in memory.
    pub fn inline_bytes(&self) -> u64 {
        match self {
            Value::Inline(bytes) => bytes.as_ref().len() as u64,
            Value::Large(_) => 0,
        }
    }
}

impl<B, L> Cell<B, L> {
    /// A deletion.
    pub const fn tombstone(stamp: Stamp) -> Cell<B, L> {
        Cell { stamp, value: None }
    }

    /// Everything about it but its value.
    pub const fn mark(&self) -> CellMark {
        CellMark { stamp: self.stamp, is_tombstone: self.value.is_none() && self.stamp.expires_at_ms == 0 }
    }

    /// Whether it reads as absent at `now_ms`: deleted, or expired by then.
    pub const fn is_absent(&self, now_ms: u64) -> bool {
        self.value.is_none() || self.stamp.is_expired(now_ms)
    }

    /// The same without its value, if it has expired by `now_ms`.
    #[inline]
    #[must_use]
    pub fn as_of_ms(self, now_ms: impl FnOnce() -> u64) -> Cell<B, L> {
        // Few cells expire: only for those it matters what time it is.
        if self.stamp.expires_at_ms != 0 && self.stamp.is_expired(now_ms()) {
            return Cell::tombstone(self.stamp);
        }
        self
    }

    /// The same with a large value held otherwise.
    #[inline]
    pub fn map_large<M>(self, map: impl FnOnce(L) -> M) -> Cell<B, M> {
        Cell { stamp: self.stamp, value: self.value.map(|value| value.map_large(map)) }
    }

    /// The same with a value in memory held otherwise.
    #[inline]
    pub fn map_inline<C>(self, map: impl FnOnce(B) -> C) -> Cell<C, L> {
        Cell { stamp: self.stamp, value: self.value.map(|value| value.map_inline(map)) }
    }
}

impl<B: AsRef<[u8]>, L> Cell<B, L> {
    /// How many bytes of its value are in memory.
    pub fn inline_bytes(&self) -> u64 {
        self.value.as_ref().map_or(0, Value::inline_bytes)
    }
}

impl CellMark {
    /// Whether the cell may be on the replica at this place of its key's preference list. A deletion may be anywhere: it
    /// is no copy of anything, and must reach every node that may have an older value.
    pub const fn belongs_on(&self, replica: usize) -> bool {
        self.is_tombstone || self.stamp.copies == 0 || replica < self.stamp.copies as usize
    }

    /// The timestamp from which on it counts as deleted: for a tombstone that of its version, for a value that expires its
    /// expiry; none for a value that never expires. Once every node's write floor is past it, and every node has everything
    /// that is older, the cell is no longer compared and may be dropped.
    pub const fn deleted_at(&self) -> Option<u64> {
        if self.is_tombstone { Some(self.stamp.version.timestamp) } else { self.stamp.ends_at() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;

    #[test]
    fn a_value_is_for_its_copies_and_a_deletion_for_all() {
        let stamp = Stamp { copies: 2, ..Stamp::new(Version::ZERO) };
        let value: Cell<&[u8], u64> = Cell { stamp, value: Some(Value::Large(7)) };
        let deletion: Cell<&[u8], u64> = Cell::tombstone(stamp);
        let places = |cell: Cell<&[u8], u64>| [0, 1, 2].map(|replica| cell.mark().belongs_on(replica));
        assert_eq!(places(value), [true, true, false]);
        assert_eq!(places(deletion), [true; 3]);
        let for_all = Cell { stamp: Stamp::new(Version::ZERO), ..value };
        assert_eq!(places(for_all), [true; 3]);
    }

    #[test]
    fn a_value_that_expires_is_the_same_to_all_whenever_they_look_and_however_it_is_kept() {
        let version = Version { timestamp: crate::HybridClock::at_wall_ms(1_000), node: 1 };
        let stamp = Stamp { expires_at_ms: 61_000, copies: 2, version };
        let value: Cell<&[u8], u64> = Cell { stamp, value: Some(Value::Inline(b"value")) };
        let emptied: Cell<&[u8], u64> = Cell::tombstone(stamp);
        assert_eq!(value.mark(), emptied.mark());
        assert_eq!(value.mark().deleted_at(), stamp.ends_at());
        assert_eq!([0, 1, 2].map(|replica| emptied.mark().belongs_on(replica)), [true, true, false]);
        assert!(!value.is_absent(60_999) && value.is_absent(61_000) && emptied.is_absent(0));
        assert_eq!(value.as_of_ms(|| 60_999), value);
        assert_eq!(value.as_of_ms(|| 61_000), emptied);
        let deletion: Cell<&[u8], u64> = Cell::tombstone(Stamp::new(version));
        assert_eq!(deletion.mark().deleted_at(), Some(version.timestamp));
        assert_eq!(Cell { stamp: Stamp::new(version), ..value }.mark().deleted_at(), None);
        assert_eq!(
            Cell { stamp: Stamp::new(version), ..value }
                .as_of_ms(|| unreachable!("it never expires"))
                .stamp
                .version,
            version
        );
    }

    #[test]
    fn a_large_value_takes_no_memory_and_its_handle_is_what_is_exchanged() {
        let stamp = Stamp::new(Version::ZERO);
        let inline: Cell<&[u8], u64> = Cell { stamp, value: Some(Value::Inline(b"value")) };
        let large: Cell<&[u8], u64> = Cell { stamp, value: Some(Value::Large(7)) };
        assert_eq!([inline.inline_bytes(), large.inline_bytes()], [5, 0]);
        assert_eq!(inline.map_large(|bytes| bytes + 1).value, inline.value);
        assert_eq!(large.map_large(|bytes| bytes + 1).value, Some(Value::Large(8)));
        assert_eq!(Cell::<&[u8], u64>::tombstone(stamp).map_large(|bytes| bytes + 1).value, None);
    }
}
