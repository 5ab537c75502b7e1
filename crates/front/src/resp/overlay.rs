use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use ladoga_model::{Stamp, Value, Version};
use ladoga_runtime::{Address, Gate, OverCapacity};
use ladoga_service::{Error, Seen, StoredCell};

use super::transaction_room::TransactionRoom;

/// A key that is watched, and what it was like then.
pub(super) type Watched = (Bytes, Seen);

/// What the commands of a transaction on a node on its own have read and written, before it happens: each sees what those before it
/// wrote. It happens in one step, if nothing that they read has changed meanwhile.
#[derive(Default)]
pub(super) struct Overlay {
    /// Keys that must be as they were: first those that are watched, then those that were read.
    pub(super) seen: Vec<(Bytes, Seen)>,
    /// Where in `seen` a key is that was read.
    read: HashMap<Bytes, usize>,
    /// Where in `seen` a key is that was not always the same when it was read.
    pub(super) torn: Option<usize>,
    pub(super) written: BTreeMap<Bytes, Written>,
    room: Option<(TransactionRoom, Gate, Address)>,
    /// Why the store did not answer a command; then nothing of the transaction happens.
    failure: Option<Error>,
}

/// What a key gets.
pub(super) struct Written {
    /// None if it is deleted.
    pub(super) value: Option<Bytes>,
    /// In milliseconds since 1970; 0 if it does not expire.
    pub(super) expires_at_ms: u64,
}

impl Overlay {
    /// For a transaction that depends on these keys. With a gate, what it holds is counted there, for this address.
    pub(super) fn new(watched: Vec<Watched>, counted: Option<(Gate, Address)>) -> Overlay {
        let room = counted.map(|(gate, address)| (TransactionRoom::default(), gate, address));
        Overlay { seen: watched, room, ..Overlay::default() }
    }

    /// What a key has if it was written.
    pub(super) fn cell(&self, key: &[u8]) -> Option<StoredCell> {
        self.written.get(key).map(|written| StoredCell {
            stamp: Stamp { expires_at_ms: written.expires_at_ms, ..Stamp::new(Version::ZERO) },
            value: written.value.clone().map(Value::Inline),
        })
    }

    /// A key was read. What counts is what it was like the first time.
    pub(super) fn saw(&mut self, key: &[u8], seen: Seen) {
        if let Some(&number) = self.read.get(key) {
            if self.seen[number].1 != seen {
                self.torn.get_or_insert(number);
            }
            return;
        }
        let key = Bytes::copy_from_slice(key);
        self.read.insert(key.clone(), self.seen.len());
        self.seen.push((key, seen));
    }

    /// A key gets a value, or loses the one that it has.
    pub(super) fn write(
        &mut self,
        key: Bytes,
        value: Option<Bytes>,
        expires_at_ms: u64,
    ) -> Result<(), OverCapacity> {
        self.hold(value.as_ref().map_or(0, |value| value.len() as u64))?;
        self.written.insert(key, Written { value, expires_at_ms });
        Ok(())
    }

    /// It holds so many bytes more.
    pub(super) fn hold(&mut self, bytes: u64) -> Result<(), OverCapacity> {
        let Some((room, gate, address)) = &mut self.room else { return Ok(()) };
        room.hold(bytes, gate, *address)
    }

    /// Whether what it holds is counted, so that it may not wait for more.
    pub(super) const fn is_counted(&self) -> bool {
        self.room.is_some()
    }

    /// The store did not answer.
    pub(super) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Why the transaction cannot happen, if it cannot.
    pub(super) const fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }
}

/// What a cell that was read says about its key.
pub(super) fn seen_of(cell: Option<&StoredCell>) -> Seen {
    Seen {
        version: cell.map(|cell| cell.stamp.version),
        is_there: cell.is_some_and(|cell| cell.value.is_some()),
    }
}

/// What was read of a key.
pub(super) fn note(overlay: &RefCell<Overlay>, key: &[u8], found: &Result<Option<StoredCell>, Error>) {
    if let Ok(cell) = found {
        overlay.borrow_mut().saw(key, seen_of(cell.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_seen_and_what_was_read_first_counts() {
        let mut overlay = Overlay::new(Vec::new(), None);
        let seen = |timestamp| Seen { version: Some(Version { timestamp, node: 0 }), is_there: true };
        overlay.saw(b"a", seen(7));
        overlay.saw(b"a", seen(7));
        assert_eq!(overlay.torn, None);
        overlay.saw(b"a", seen(8));
        assert_eq!(overlay.torn, Some(0));
        assert_eq!(overlay.seen, [(Bytes::from_static(b"a"), seen(7))]);
        assert!(overlay.cell(b"a").is_none());
        overlay
            .write(Bytes::from_static(b"a"), Some(Bytes::from_static(b"value")), 50)
            .expect("it is not counted");
        let cell = overlay.cell(b"a").expect("it was written");
        assert_eq!(cell.stamp.expires_at_ms, 50);
        assert!(matches!(cell.value, Some(Value::Inline(value)) if value == "value"));
        overlay.write(Bytes::from_static(b"a"), None, 0).expect("it is not counted");
        assert!(overlay.cell(b"a").is_some_and(|cell| cell.value.is_none()));
    }
}
