use std::hash::{BuildHasher, Hasher, RandomState};

use bytes::Bytes;
use parking_lot::Mutex;

/// So many scans can be under way; the one that has not gone on for longest ends for the next.
const CURSORS_MAX: usize = 4 << 10;
/// The bits of a cursor that say where in the table it is.
const SLOT_BITS: u32 = 16;
const RANDOM_BITS: u32 = 48;

const _: () = assert!(CURSORS_MAX <= 1 << SLOT_BITS && SLOT_BITS + RANDOM_BITS == u64::BITS);

/// Where scans are: a cursor, which is a number to clients, stands for the key behind which a scan goes on.
#[derive(Default)]
pub struct Cursors {
    table: Mutex<Table>,
    random: RandomState,
}

#[derive(Default)]
struct Table {
    /// By slot: the cursor in it, and its key.
    slots: Vec<(u64, Bytes)>,
    next_slot: usize,
    given: u64,
}

impl Cursors {
    /// A cursor for a scan that goes on behind this key; never 0, which begins and ends scans.
    ///
    /// The key is copied: it may be a slice of all that was read with it.
    pub(super) fn after(&self, key: &[u8]) -> u64 {
        let key = Bytes::copy_from_slice(key);
        let mut table = self.table.lock();
        table.given += 1;
        let mut hasher = self.random.build_hasher();
        hasher.write_u64(table.given);
        let slot = table.next_slot;
        table.next_slot = (slot + 1) % CURSORS_MAX;
        let cursor = ((hasher.finish() | 1) << SLOT_BITS) | slot as u64;
        if slot == table.slots.len() {
            table.slots.push((cursor, key));
        } else {
            table.slots[slot] = (cursor, key);
        }
        cursor
    }

    /// The key behind which it goes on; none if it was never given out, or too long ago. It stays, so that a client may ask again.
    pub(super) fn key(&self, cursor: u64) -> Option<Bytes> {
        let table = self.table.lock();
        let (known, key) = table.slots.get(cursor as usize & ((1 << SLOT_BITS) - 1))?;
        (*known == cursor).then(|| key.clone())
    }

    /// A number that nobody can guess.
    pub(super) fn random(&self) -> u64 {
        let mut table = self.table.lock();
        table.given += 1;
        self.random.hash_one(table.given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_stands_for_its_key_until_many_others_were_given_out() {
        let cursors = Cursors::default();
        let first = cursors.after(b"first");
        assert_ne!(first, 0);
        for n in 1..CURSORS_MAX {
            let key = Bytes::from(n.to_string());
            assert_eq!(cursors.key(cursors.after(&key)), Some(key));
        }
        assert_eq!(cursors.key(first).as_deref(), Some(&b"first"[..]));
        cursors.after(b"");
        assert_eq!(cursors.key(first), None);
        assert_eq!(cursors.key(0), None);
        assert_eq!(cursors.key(u64::MAX), None);
    }
}
