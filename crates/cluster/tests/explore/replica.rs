//! A replica, as far as one key goes: what it has, and what it remembers.

use std::collections::BTreeMap;

use ladoga_cluster::{Failure, Had, ReadAnswer, Refusal, SentCell, WriteAnswer};
use ladoga_model::{Cell, Stamp, Value, Version};

/// A cell: of a deletion, where there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    pub(crate) version: Version,
    pub(crate) value: Option<u64>,
}

impl Held {
    pub(crate) fn of(cell: &Cell<u64, ()>) -> Held {
        let value = cell.value.map(|value| match value {
            Value::Inline(value) => value,
            Value::Large(()) => unreachable!("nothing is large"),
        });
        Held { version: cell.stamp.version, value }
    }

    fn sent(self, digest: bool) -> SentCell<u64, ()> {
        let stamp = Stamp::new(self.version);
        match self.value {
            Some(_) if digest => SentCell::Digest(stamp),
            value => SentCell::Whole(Cell { stamp, value: value.map(Value::Inline) }),
        }
    }
}

/// Where a cell comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum From {
    /// Its client's write.
    Client,
    /// The same, which may have come before.
    ClientAgain,
    /// Who repairs: a read, or this replica itself.
    Repair,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Replica {
    held: Option<Held>,
    /// Versions that came by who repairs, and whether they are known to have met nothing newer.
    came: BTreeMap<Version, bool>,
    /// Whatever came with this timestamp or an older one is forgotten.
    forgotten: u64,
    /// The newest timestamp that it has seen.
    clock: u64,
    /// While it is being rebuilt: what it lost is not newer, and from whom it still has to take over all that they have.
    rebuilding: Option<(u64, Vec<usize>)>,
}

impl Replica {
    pub(crate) fn held(&self) -> Option<Held> {
        self.held
    }

    pub(crate) fn read(&self, digest: bool) -> ReadAnswer<u64, ()> {
        ReadAnswer { cell: self.held.map(|held| held.sent(digest)), is_whole: self.rebuilding.is_none() }
    }

    /// Lets a cell in. Answers whether nothing newer is there now.
    pub(crate) fn admit(&mut self, held: Held, from: From) -> Result<bool, Failure> {
        let timestamp = held.version.timestamp;
        if from != From::Repair
            && self.rebuilding.as_ref().is_some_and(|(lost_before, _)| timestamp <= *lost_before)
        {
            return Err(Failure::Refused(Refusal::Rebuilding));
        }
        self.clock = timestamp.max(self.clock);
        if from == From::Repair && timestamp > self.forgotten {
            self.came.entry(held.version).or_insert(false);
        }
        Ok(self.held.is_none_or(|known| known.version <= held.version))
    }

    /// Makes it durable. What it says to that, where nothing newer was there when it was let in, or perhaps something was.
    pub(crate) fn commit(&mut self, held: Held, from: From, was_newest: bool) -> WriteAnswer {
        let newer = self.held.map(|known| known.version).filter(|known| *known > held.version);
        if newer.is_none() {
            self.held = Some(held);
        }
        match newer.filter(|_| !was_newest) {
            None => {
                if let Some(was_newest) = self.came.get_mut(&held.version) {
                    *was_newest |= from == From::Repair;
                }
                WriteAnswer::Applied
            }
            Some(newest) => WriteAnswer::Superseded { newest, had: self.had(held.version, from) },
        }
    }

    fn had(&self, version: Version, from: From) -> Had {
        match self.came.get(&version) {
            Some(true) => Had::Once,
            Some(false) => Had::Unknown,
            None if version.timestamp <= self.forgotten || from == From::ClientAgain => Had::Unknown,
            None => Had::Never,
        }
    }

    /// It ends and is started again.
    pub(crate) fn restart(&mut self) {
        self.came.clear();
        self.forgotten = self.clock.max(self.forgotten);
    }

    /// The same with an empty disk, of which the others say that it is not the one that it had.
    pub(crate) fn lose_disk(&mut self, lost_before: u64, others: Vec<usize>) {
        let clock = lost_before.max(self.clock);
        // Nothing is held that far back: what is not whole and knows no better says so.
        *self = Replica { clock, rebuilding: Some((lost_before, others)), ..Replica::default() };
    }

    /// From whom it still has to take over all that they have.
    pub(crate) fn pulls_from(&self) -> &[usize] {
        self.rebuilding.as_ref().map_or(&[], |(_, others)| others)
    }

    /// It has taken over what one of them has.
    pub(crate) fn pulled(&mut self, other: usize, held: Option<Held>) {
        if let Some(held) = held
            && let Ok(was_newest) = self.admit(held, From::Repair)
        {
            self.commit(held, From::Repair, was_newest);
        }
        let Some((lost_before, others)) = &mut self.rebuilding else { return };
        others.retain(|one| *one != other);
        if others.is_empty() {
            self.forgotten = self.forgotten.max(*lost_before);
            self.rebuilding = None;
        }
    }
}
