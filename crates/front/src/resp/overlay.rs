use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use bytes::Bytes;
use ladoga_model::{Stamp, Value, Version};
use ladoga_resp::{Reply, Request};
use ladoga_service::{Seen, StoredCell};

use super::failed::Failed;
use super::held::HeldPermits;
use super::transaction_room::{NoRoom, TransactionRoom};

/// A key that is watched, and what it was like then.
pub(super) type Watched = (Bytes, Seen);

/// What the commands of a transaction on a node on its own have read and written, before it happens: each sees what those before it
/// wrote. It happens in one step, if nothing that they read has changed meanwhile.
#[derive(Default)]
pub(super) struct Overlay {
    /// Keys that must be as they were: first those that are watched, then those that were read.
    pub(super) seen: Vec<(Bytes, Seen)>,
    read: HashMap<Bytes, Read>,
    /// Where in `seen` a key is that was not always the same when it was read.
    pub(super) torn: Option<usize>,
    pub(super) written: BTreeMap<Bytes, Written>,
    room: Option<(TransactionRoom, Rc<HeldPermits>)>,
    /// When it began, in milliseconds since 1970: for its commands, time stands still.
    pub(super) began_ms: u64,
    /// The command that is done now. What it holds is counted where it is queued.
    request: Option<Request>,
    /// Why the store did not answer a command; then nothing of the transaction happens.
    failure: Option<Failed>,
}

/// A key that was read.
struct Read {
    /// Where in `seen` it is.
    number: usize,
    /// What was found, unless that is long, or there was no room for it.
    kept: Option<Kept>,
}

/// What is known of a key: by what the transaction wrote, or read before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kept {
    Nothing,
    /// Without a value if it was deleted.
    Cell(Stamp, Option<Bytes>),
}

impl Kept {
    pub(super) fn into_cell(self) -> Option<StoredCell> {
        match self {
            Kept::Nothing => None,
            Kept::Cell(stamp, value) => Some(StoredCell { stamp, value: value.map(Value::Inline) }),
        }
    }
}

/// A value up to this length is kept for the next command that reads it: however often others write it meanwhile, all find the same.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Keys that are watched and read. All of them are looked at again in the commit, while other writes wait.
const SEEN_KEYS_MAX: usize = 1 << 16;

/// What a key gets.
pub(super) struct Written {
    /// None if it is deleted.
    pub(super) value: Option<Bytes>,
    /// In milliseconds since 1970; 0 if it does not expire.
    pub(super) expires_at_ms: u64,
}

impl Written {
    /// Whether the key has a value at this time of day.
    pub(super) const fn is_there(&self, now_ms: u64) -> bool {
        self.value.is_some() && (self.expires_at_ms == 0 || self.expires_at_ms > now_ms)
    }
}

impl Overlay {
    /// For a transaction that depends on these keys. What it holds is counted there, if that is given.
    pub(super) fn new(
        watched: Vec<Watched>,
        room: Option<(TransactionRoom, Rc<HeldPermits>)>,
        began_ms: u64,
    ) -> Overlay {
        Overlay { seen: watched, room, began_ms, ..Overlay::default() }
    }

    /// This command is next.
    pub(super) fn begin(&mut self, request: &Request) {
        self.request = Some(request.clone());
    }

    /// What a key has at this time of day, if it was written, or read and kept.
    pub(super) fn kept(&self, key: &[u8], now_ms: u64) -> Option<Kept> {
        let kept = match self.written.get(key) {
            Some(Written { value, expires_at_ms }) => {
                let stamp = Stamp { expires_at_ms: *expires_at_ms, ..Stamp::new(Version::ZERO) };
                Kept::Cell(stamp, value.clone())
            }
            None => self.read.get(key)?.kept.clone()?,
        };
        Some(match kept {
            Kept::Cell(stamp, Some(_)) if stamp.is_expired(now_ms) => Kept::Cell(stamp, None),
            kept => kept,
        })
    }

    /// A key was read. What counts is what it was like the first time.
    pub(super) fn saw(&mut self, key: &[u8], found: Option<&StoredCell>) {
        let seen = seen_of(found);
        if let Some(&Read { number, .. }) = self.read.get(key) {
            if self.seen[number].1 != seen {
                self.torn.get_or_insert(number);
            }
            return;
        }
        if let Err(failure) = self.hold_read(key) {
            return self.fail(failure);
        }
        let (key, kept) = (Bytes::copy_from_slice(key), self.keep(found));
        self.read.insert(key.clone(), Read { number: self.seen.len(), kept });
        self.seen.push((key, seen));
    }

    /// It holds one more key that was read.
    fn hold_read(&mut self, key: &[u8]) -> Result<(), Failed> {
        if self.seen.len() == SEEN_KEYS_MAX {
            let words = format_args!("a transaction reads at most {SEEN_KEYS_MAX} keys");
            return Err(Failed::Told(Reply::error(words)));
        }
        let bytes = size_of::<(Bytes, Read)>() + size_of::<(Bytes, Seen)>() + key.len();
        Ok(self.hold(bytes as u64)?)
    }

    fn keep(&mut self, found: Option<&StoredCell>) -> Option<Kept> {
        let Some(StoredCell { stamp, value }) = found else { return Some(Kept::Nothing) };
        let value = match value {
            None => None,
            Some(Value::Inline(value)) if value.len() <= KEPT_BYTES_MAX => {
                Some(Bytes::copy_from_slice(value))
            }
            Some(_) => return None,
        };
        self.hold(value.as_ref().map_or(0, Bytes::len) as u64).ok()?;
        Some(Kept::Cell(*stamp, value))
    }

    /// A key gets a value, or loses the one that it has.
    pub(super) fn write(
        &mut self,
        key: Bytes,
        value: Option<Bytes>,
        expires_at_ms: u64,
    ) -> Result<(), NoRoom> {
        let is_own = |value: &&Bytes| !self.request.as_ref().is_some_and(|request| request.contains(value));
        let own_bytes = value.as_ref().filter(is_own).map_or(0, Bytes::len);
        self.hold((size_of::<(Bytes, Written)>() + own_bytes) as u64)?;
        self.written.insert(key, Written { value, expires_at_ms });
        Ok(())
    }

    /// It holds so many bytes more.
    pub(super) fn hold(&mut self, bytes: u64) -> Result<(), NoRoom> {
        let Some((room, held)) = &mut self.room else { return Ok(()) };
        room.hold(bytes, held)
    }

    /// Whether it can ever hold so many bytes more.
    pub(super) fn check(&self, bytes: u64) -> Result<(), NoRoom> {
        let Some((room, held)) = &self.room else { return Ok(()) };
        room.check(bytes, &held.bodies)
    }

    /// What it holds, for those who need it longer. From now on nothing is counted.
    pub(super) fn take_room(&mut self) -> Option<TransactionRoom> {
        self.room.take().map(|(room, _)| room)
    }

    /// Whether what it holds is counted, so that it may not wait for more.
    pub(super) const fn is_counted(&self) -> bool {
        self.room.is_some()
    }

    /// The store did not answer.
    pub(super) fn fail(&mut self, failure: Failed) {
        self.failure.get_or_insert(failure);
    }

    /// Why the transaction cannot happen, if it cannot.
    pub(super) const fn take_failure(&mut self) -> Option<Failed> {
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
pub(super) fn note<E>(overlay: &RefCell<Overlay>, key: &[u8], found: &Result<Option<StoredCell>, E>) {
    if let Ok(cell) = found {
        overlay.borrow_mut().saw(key, cell.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(timestamp: u64, value: &[u8]) -> StoredCell {
        let value = Some(Value::Inline(Bytes::copy_from_slice(value)));
        StoredCell { stamp: Stamp::new(Version { timestamp, node: 0 }), value }
    }

    #[test]
    fn what_was_written_is_seen_and_what_was_read_first_counts() {
        let (mut overlay, key) = (Overlay::new(Vec::new(), None, 0), Bytes::from_static(b"a"));
        let kept = |stamp, value| Some(Kept::Cell(stamp, value));
        assert_eq!(overlay.kept(b"a", 49), None);
        let found = cell(7, b"read");
        overlay.saw(b"a", Some(&found));
        assert_eq!(overlay.seen, [(key.clone(), seen_of(Some(&found)))]);
        assert_eq!(overlay.kept(b"a", 49), kept(found.stamp, Some(Bytes::from_static(b"read"))));
        overlay.saw(b"none", None);
        assert_eq!(overlay.kept(b"none", 49), Some(Kept::Nothing));
        let stamp = Stamp { expires_at_ms: 50, ..Stamp::new(Version::ZERO) };
        let value = Some(Bytes::from_static(b"value"));
        overlay.write(key.clone(), value.clone(), 50).expect("it is not counted");
        assert_eq!(overlay.kept(b"a", 49), kept(stamp, value));
        assert_eq!(overlay.kept(b"a", 50), kept(stamp, None), "it has expired");
        overlay.write(key, None, 0).expect("it is not counted");
        assert_eq!(overlay.kept(b"a", 49), kept(Stamp::new(Version::ZERO), None));
    }

    #[test]
    fn long_values_are_read_again_and_have_to_be_the_same() {
        let (mut overlay, long) = (Overlay::new(Vec::new(), None, 0), vec![b'v'; KEPT_BYTES_MAX + 1]);
        overlay.saw(b"a", Some(&cell(7, &long)));
        assert_eq!(overlay.kept(b"a", 49), None);
        overlay.saw(b"a", Some(&cell(7, &long)));
        assert_eq!(overlay.torn, None);
        overlay.saw(b"a", Some(&cell(8, &long)));
        assert_eq!(overlay.torn, Some(0));
    }
}
