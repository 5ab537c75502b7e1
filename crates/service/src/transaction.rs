use bytes::Bytes;
use ladoga_model::{Cell, Value, Version};

/// Writes to several keys, all of which happen, or none.
#[derive(Debug)]
pub struct Transaction<F> {
    /// What some keys were like. If one of them has been written since, nothing happens.
    pub seen: Vec<(Bytes, Seen)>,
    /// What keys get, each of which is named once.
    pub writes: Vec<(Bytes, NewValue<F>)>,
}

/// What a key gets: a value in memory, or one that was uploaded; or it is deleted.
#[derive(Debug)]
pub struct NewValue<F> {
    /// None deletes the key.
    pub value: Option<Value<Bytes, F>>,
    /// When it expires, in milliseconds since 1970; 0 if it never does.
    pub expires_at_ms: u64,
}

/// Nothing was written, because a key has changed: the one with this number among those that were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed(pub usize);

/// What a key is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Of its value, or of its deletion as far as one is known of.
    pub version: Option<Version>,
    /// Whether there is a value.
    pub is_there: bool,
}

impl Seen {
    /// What is known of the newest cell of a key at this time. One without its value is not there by any clock: it was taken off what
    /// had expired by the clock of that moment.
    pub fn of<B, L>(newest: Option<&Cell<B, L>>, now_ms: u64) -> Seen {
        let is_there = newest.is_some_and(|newest| !newest.is_absent(now_ms));
        Seen { version: newest.map(|newest| newest.stamp.version), is_there }
    }

    /// The version of the value; none if there was none.
    pub fn of_value(self) -> Option<Version> {
        self.version.filter(|_| self.is_there)
    }

    /// Whether nobody has written the key since it was like `before`. A deletion may be forgotten meanwhile.
    pub fn is_as(self, before: Seen) -> bool {
        let is_forgotten = !self.is_there && self.version.is_none();
        self.is_there == before.is_there && (self.version == before.version || is_forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_model::Stamp;

    fn seen(timestamp: Option<u64>, is_there: bool) -> Seen {
        Seen { version: timestamp.map(|timestamp| Version { timestamp, node: 0 }), is_there }
    }

    #[test]
    fn a_key_has_changed_if_it_was_written_and_not_if_its_deletion_is_forgotten() {
        for (now, before, is_same) in [
            (seen(Some(7), true), seen(Some(7), true), true),
            (seen(Some(8), true), seen(Some(7), true), false),
            (seen(Some(7), false), seen(Some(7), true), false),
            (seen(None, false), seen(Some(7), false), true),
            (seen(None, false), seen(Some(7), true), false),
            (seen(Some(9), false), seen(None, false), false),
            (seen(Some(9), false), seen(Some(7), false), false),
            (seen(None, false), seen(None, false), true),
        ] {
            assert_eq!(now.is_as(before), is_same, "{now:?} {before:?}");
        }
    }

    #[test]
    fn what_has_expired_is_not_there() {
        let stamp = Stamp { expires_at_ms: 50, ..Stamp::new(Version { timestamp: 7, node: 0 }) };
        let value = Cell::<&[u8], ()> { stamp, value: Some(Value::Inline(b"v")) };
        assert!(Seen::of(Some(&value), 49).is_there);
        assert!(!Seen::of(Some(&value), 50).is_there);
        assert_eq!(Seen::of::<&[u8], ()>(None, 0), seen(None, false));
        assert_eq!(Seen::of(Some(&value), 50).of_value(), None);
        // By a clock that was set back after it had expired, and lost its value.
        let taken_off = Cell::<&[u8], ()>::tombstone(stamp);
        assert!(!Seen::of(Some(&taken_off), 49).is_there);
    }
}
