//! Which large values looks have found that no row names, and since when: `sweep`.

use std::collections::{BTreeSet, BinaryHeap, HashMap};

use xxhash_rust::xxh3::Xxh3;

use crate::keyspace::UploadName;
use crate::upload::age_ms;

/// So many are noted in a keyspace, in some 35 MB: as many as a table of that size holds. What a look finds first is beside them until it
/// ends: 100 MB in all. Others wait for a later look.
const UNNAMED_MAX: usize = (1 << 20) / 8 * 7;

/// A large value: a hash of what names it. Keys can be long, and there are many.
type Id = u128;

/// That a look found a large value that no row names, nor ever will.
struct Noted {
    /// When one did first.
    since_ms: u64,
    bucket: i32,
    /// The number of the last one that did.
    look: u32,
}

/// One that was not found before: the order is that in which uploads began.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    began: u64,
    id: Id,
    since_ms: u64,
    bucket: i32,
}

/// All of them.
pub(crate) struct Unnamed {
    noted: HashMap<Id, Noted>,
    noted_max: usize,
    /// So many more may be noted by a look. What it removes makes room for the next one: else what is listed behind that had it.
    room: usize,
    /// Those that the look under way found first. If there is no room for all, the oldest ones have it: none is ever found that is older
    /// still without end, so each has its turn. In the order of the list, new ones could take all room again and again.
    found: BinaryHeap<Found>,
    /// How many it had no room for.
    left_out: u64,
    /// Its number.
    look: u32,
}

impl Default for Unnamed {
    fn default() -> Unnamed {
        Unnamed::up_to(UNNAMED_MAX)
    }
}

impl Unnamed {
    fn up_to(noted_max: usize) -> Unnamed {
        Unnamed {
            noted: HashMap::new(),
            noted_max,
            room: noted_max,
            found: BinaryHeap::new(),
            left_out: 0,
            look: 0,
        }
    }

    /// How many are noted.
    pub(crate) fn count(&self) -> u64 {
        self.noted.len() as u64
    }

    /// Notes whether a row names a large value of this bucket. Answers whether none does for long enough. Nothing is noted for as long as
    /// one may name it still: it could do so, and be replaced, between two looks. What is named is forgotten, whatever becomes of the look.
    pub(crate) fn note(
        &mut self,
        bucket: i32,
        name: &UploadName,
        is_named: bool,
        now_ms: u64,
        keep_ms: u64,
    ) -> bool {
        if is_named {
            self.forget(name);
            return false;
        }
        if age_ms(name, now_ms) < keep_ms {
            return false;
        }
        let id = id_of(name);
        if let Some(noted) = self.noted.get_mut(&id) {
            noted.look = self.look;
            return now_ms.saturating_sub(noted.since_ms) >= keep_ms;
        }
        self.found.push(Found { began: name.upload.timestamp, id, since_ms: now_ms, bucket });
        if self.found.len() > self.room {
            self.found.pop();
            self.left_out += 1;
        }
        false
    }

    /// What is known of a large value stays if it could not be looked at.
    pub(crate) fn keep(&mut self, name: &UploadName) {
        if let Some(noted) = self.noted.get_mut(&id_of(name)) {
            noted.look = self.look;
        }
    }

    pub(crate) fn forget(&mut self, name: &UploadName) {
        self.noted.remove(&id_of(name));
    }

    /// Forgets what is listed no more: another door has removed it. It may be listed still in buckets that could not be looked at. Answers
    /// how many there was no room for.
    pub(crate) fn end_look(&mut self, not_looked_at: &BTreeSet<i32>) -> u64 {
        let look = self.look;
        self.noted.retain(|_, noted| noted.look == look || not_looked_at.contains(&noted.bucket));
        for Found { id, since_ms, bucket, .. } in std::mem::take(&mut self.found) {
            self.noted.insert(id, Noted { since_ms, bucket, look });
        }
        self.noted.shrink_to(2 * self.noted.len());
        self.room = self.noted_max - self.noted.len();
        self.look = look.wrapping_add(1);
        std::mem::take(&mut self.left_out)
    }
}

fn id_of(name: &UploadName) -> Id {
    let (key, upload) = name.columns();
    let mut hash = Xxh3::new();
    hash.update(key);
    // It has one length, so nothing else has these bytes.
    hash.update(&upload);
    hash.digest128()
}

#[cfg(test)]
#[path = "unnamed_tests.rs"]
mod tests;
