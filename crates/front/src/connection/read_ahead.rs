use std::cell::RefCell;

use bytes::{Bytes, BytesMut};

use ladoga_runtime::SCRATCH_BYTES;

use super::meter::HEAD_BYTES_MAX;

/// As much as there can be: hyper reads on while it has less than a head, and only once nothing is left here.
const READ_AHEAD_BYTES_MAX: usize = HEAD_BYTES_MAX + SCRATCH_BYTES;

/// What has arrived on a connection and nobody has used: the one place for it between two hyper connections, or a hyper
/// connection and another protocol. In the order in which it came.
#[derive(Debug, Default)]
pub(super) struct ReadAhead(RefCell<Bytes>);

impl ReadAhead {
    /// Puts back what was taken last and not used: it came before what was not taken.
    pub(super) fn give_back(&self, unused: Bytes) {
        let mut ahead = self.0.borrow_mut();
        if ahead.is_empty() {
            *ahead = unused;
        } else if !unused.is_empty() {
            let mut all = BytesMut::with_capacity(unused.len() + ahead.len());
            all.extend_from_slice(&unused);
            all.extend_from_slice(&ahead);
            *ahead = all.freeze();
        }
        debug_assert!(ahead.len() <= READ_AHEAD_BYTES_MAX, "{} bytes were read ahead", ahead.len());
    }

    /// Takes what came first, up to so many bytes; nothing where nothing is there.
    pub(super) fn take(&self, bytes_max: usize) -> Bytes {
        let mut ahead = self.0.borrow_mut();
        if ahead.len() <= bytes_max { std::mem::take(&mut *ahead) } else { ahead.split_to(bytes_max) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_comes_before_what_was_not_taken() {
        let ahead = ReadAhead::default();
        ahead.give_back(Bytes::from_static(b"abcdef"));
        assert_eq!(ahead.take(4), "abcd");
        ahead.give_back(Bytes::from_static(b"cd"));
        assert_eq!(ahead.take(3), "cde");
        ahead.give_back(Bytes::new());
        assert_eq!(ahead.take(usize::MAX), "f");
        ahead.give_back(Bytes::from_static(b"f"));
        assert_eq!(ahead.take(1), "f");
        assert!(ahead.is_empty());
        assert_eq!(ahead.take(1), "");
    }

    #[test]
    fn whatever_is_taken_and_given_back_nothing_is_lost_or_changes_its_place() {
        let all: Vec<u8> = (0..2_000_u32).map(|number| (number * 7 % 251) as u8).collect();
        for (takes, uses) in [(1, 1), (7, 3), (64, 64), (100, 99), (500, 1), (3_000, 1_999)] {
            let ahead = ReadAhead::default();
            ahead.give_back(Bytes::from(all.clone()));
            let mut used = Vec::new();
            while !ahead.is_empty() {
                let mut taken = ahead.take(takes);
                used.extend_from_slice(&taken.split_to(uses.min(taken.len())));
                ahead.give_back(taken);
            }
            assert!(used == all, "taken by {takes}, used by {uses}");
        }
    }
}
