//! A replica, as far as one key goes: what it has, what it promised, and what it remembers.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use ladoga_cluster::{
    AcceptAnswer, Failure, Fences, Had, NoPromise, PrepareAnswer, PromisedBallots, ReadAnswer, Refusal,
    SentCell, WriteAnswer,
};
use ladoga_model::{Cell, Stamp, Value, Version};

use super::scenario::Bug;

/// The hash of the key.
const KEY: u64 = 0;

/// A cell: of a deletion if there is no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum From {
    /// Its client's write.
    Client,
    /// The same, which may have come before.
    ClientAgain,
    /// Who repairs: a read, or this replica itself.
    Repair,
    /// What was kept for a replica that was away.
    Hint,
}

impl From {
    fn is_repair(self) -> bool {
        matches!(self, From::Repair | From::Hint)
    }
}

/// What the cell of a ballot takes the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Base {
    /// What the replica had when it promised.
    pub(crate) had: Option<Version>,
    /// What it was decided on.
    pub(crate) newest: Option<Version>,
}

/// A cell that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Accepted {
    ballot: Version,
    base: Base,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Replica {
    held: Option<Held>,
    fences: Fences,
    /// The newest ballot that it ever promised, also if that is over.
    promised: Version,
    /// The ballots that it promised.
    ballots: PromisedBallots,
    /// What it accepted, if that is planted.
    accepted: Vec<Accepted>,
    /// Versions that came by who repairs, and whether they are known to have met nothing newer.
    came: BTreeMap<Version, bool>,
    /// Whatever came with this timestamp or an older one is forgotten.
    forgotten: u64,
    /// The newest timestamp that it has seen.
    clock: u64,
    /// While it is being rebuilt: what it lost is not newer, and from whom it still has to take over all that they have.
    rebuilding: Option<(u64, Vec<usize>)>,
    bug: Option<Bug>,
}

impl Hash for Replica {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Replica { held, fences, promised, ballots, accepted, came, forgotten, clock, rebuilding, bug: _ } =
            self;
        (held, promised, ballots, accepted, came, forgotten, clock, rebuilding).hash(state);
        for (_, fence) in fences.iter() {
            fence.hash(state);
        }
        fences.len().hash(state);
        fences.overtaken().for_each(|overtaken| overtaken.hash(state));
    }
}

impl Replica {
    pub(crate) fn new(bug: Option<Bug>) -> Replica {
        Replica { bug, ..Replica::default() }
    }

    pub(crate) fn held(&self) -> Option<Held> {
        self.held
    }

    /// Whether it has this version or a newer one.
    pub(crate) fn is_at(&self, version: Version) -> bool {
        self.held.is_some_and(|known| known.version >= version)
    }

    pub(crate) fn has_fence(&self, ballot: Version) -> bool {
        self.fences.iter().any(|(_, fence)| fence == ballot)
    }

    pub(crate) fn has_fences(&self) -> bool {
        !self.fences.is_empty()
    }

    pub(crate) fn read(&self, digest: bool) -> ReadAnswer<u64, ()> {
        ReadAnswer { cell: self.held.map(|held| held.sent(digest)), is_whole: self.rebuilding.is_none() }
    }

    /// Lets a cell in, unless this replica would have to vouch for what it lost. Answers whether nothing newer is there now.
    pub(crate) fn admit(&mut self, held: Held, from: From) -> Result<bool, Failure> {
        let is_lost = |&(lost_before, _): &(u64, _)| held.version.timestamp <= lost_before;
        if from != From::Hint && self.rebuilding.as_ref().is_some_and(is_lost) {
            return Err(Failure::Refused(Refusal::Rebuilding));
        }
        Ok(self.let_in(held, from))
    }

    fn let_in(&mut self, held: Held, from: From) -> bool {
        let timestamp = held.version.timestamp;
        self.clock = timestamp.max(self.clock);
        if from.is_repair() && timestamp > self.forgotten {
            self.came.entry(held.version).or_insert(false);
        }
        self.held.is_none_or(|known| known.version <= held.version)
    }

    /// Makes it durable. Answers whether nothing newer was there when it was admitted, or perhaps something was.
    pub(crate) fn commit(&mut self, held: Held, from: From, was_newest: bool) -> WriteAnswer {
        let known = self.held.map(|known| known.version);
        if let Some(newest) = known.filter(|newest| *newest > held.version) {
            // Before it promised anything newer it had nothing newer; since then it was not to take this any more.
            let is_arrival_right = self.promised <= held.version || self.bug == Some(Bug::TrustsArrival);
            if !(was_newest && is_arrival_right) {
                return WriteAnswer::Superseded { newest, had: self.had(held.version, from) };
            }
        } else if known != Some(held.version) {
            if let Some(fence) = self.fences.refusing(KEY, held.version)
                && !self.passes(from)
            {
                return WriteAnswer::Fenced { fence };
            }
            self.take(held);
        }
        if let Some(was_newest) = self.came.get_mut(&held.version) {
            *was_newest |= from.is_repair();
        }
        WriteAnswer::Applied
    }

    /// Whether a promise is nothing to what comes from there.
    fn passes(&self, from: From) -> bool {
        match from {
            From::Client | From::ClientAgain => false,
            From::Repair => self.bug == Some(Bug::RepairsThroughFence),
            From::Hint => self.bug == Some(Bug::HintsThroughFence),
        }
    }

    fn take(&mut self, held: Held) {
        let had = self.held.replace(held).map(|had| had.version);
        self.fences.replace(KEY, had, held.version);
    }

    fn had(&self, version: Version, from: From) -> Had {
        match self.came.get(&version) {
            Some(true) => Had::Once,
            Some(false) => Had::Unknown,
            None if version.timestamp <= self.forgotten || from == From::ClientAgain => Had::Unknown,
            None if self.promised <= version => Had::Never,
            None => match self.went_over(version) {
                Some(planted) => planted,
                None => self.ballots.had(KEY, version),
            },
        }
    }

    /// What it says of a version that is older than something it promised, if that is planted.
    fn went_over(&self, version: Version) -> Option<Had> {
        let after = |other: Option<Version>| other.is_none_or(|other| other < version);
        let went_over = self.accepted.iter().filter(|accepted| version < accepted.ballot);
        let is_doubtful = |accepted: &Accepted| after(accepted.base.had) && !after(accepted.base.newest);
        match self.bug? {
            Bug::ForgetsDecidedOn => Some(Had::Never),
            Bug::SkipsByOne => {
                let goes_over = |accepted: &Accepted| after(accepted.base.newest);
                went_over.clone().any(goes_over).then_some(Had::Skipped)
            }
            Bug::TrustsAccepted => {
                let is_base = |accepted: &Accepted| accepted.base.newest == Some(version);
                went_over.clone().any(is_base).then_some(Had::Once)
            }
            Bug::RemembersIfAccepted if went_over.clone().any(is_doubtful) => Some(Had::Unknown),
            Bug::RemembersIfAccepted => Some(Had::Skipped),
            Bug::CountsPassedOver if went_over.clone().any(|accepted| after(accepted.base.newest)) => {
                Some(Had::Never)
            }
            _ => None,
        }
    }

    /// It promises to take nothing older than this any more, or says why it does not.
    pub(crate) fn prepare(&mut self, ballot: Version) -> Result<PrepareAnswer<u64, ()>, Failure> {
        if self.rebuilding.is_some() && self.bug != Some(Bug::PromisesWhileRebuilding) {
            return Err(Failure::Refused(Refusal::Rebuilding));
        }
        self.clock = ballot.timestamp.max(self.clock);
        if let Some(known) = self.held.filter(|known| known.version >= ballot) {
            return Ok(PrepareAnswer::Outbid(known.version));
        }
        if self.bug == Some(Bug::HoldsOneFence)
            && let Some(before) = self.fences.newest(KEY).filter(|before| *before < ballot)
        {
            self.fences.release(KEY, before);
        }
        if let Some(newer) = self.ballots.newest_over(KEY, ballot) {
            return Ok(PrepareAnswer::Outbid(newer));
        }
        match self.fences.promise(KEY, ballot) {
            Ok(()) => {
                self.promised = ballot.max(self.promised);
                self.ballots.promised(KEY, ballot, self.held.map(|held| held.version));
                Ok(PrepareAnswer::Promised(self.held.map(|held| held.sent(false))))
            }
            Err(NoPromise::Outbid(newest)) => Ok(PrepareAnswer::Outbid(newest)),
            Err(NoPromise::Full) => Err(Failure::Refused(Refusal::OverCapacity)),
        }
    }

    /// It takes the cell that it promised to wait for, if it is still as it was then.
    pub(crate) fn accept(&mut self, held: Held, base: Base) -> Result<AcceptAnswer, Failure> {
        if self.rebuilding.is_some() {
            return Err(Failure::Refused(Refusal::Rebuilding));
        }
        let known = self.held.map(|known| known.version);
        if known == Some(held.version) {
            return Ok(AcceptAnswer::Accepted);
        }
        let is_overtaken = known.is_some_and(|newest| self.is_overtaken(held.version, base, newest));
        if !is_overtaken && (!self.fences.is_newest(KEY, held.version) || known != base.had) {
            self.ballots.refused(KEY, held.version, base.newest);
            let newest = known.max(self.fences.newest(KEY));
            return Ok(AcceptAnswer::Outbid(newest.unwrap_or(Version::ZERO)));
        }
        self.ballots.accepted(KEY, held.version, base.newest);
        if self.bug.is_some() {
            self.accepted.push(Accepted { ballot: held.version, base });
        }
        if !is_overtaken {
            self.take(held);
        }
        Ok(AcceptAnswer::Accepted)
    }

    /// Whether the cell of a ballot counts as if it had come right before the one that is here.
    fn is_overtaken(&self, ballot: Version, base: Base, newest: Version) -> bool {
        let is_after = newest > ballot && self.bug == Some(Bug::CountsAnyOvertaken);
        // What it was decided on was here before the newer one came.
        let was_here = base.newest == base.had || self.bug == Some(Bug::CountsOvertakenBase);
        is_after || was_here && self.fences.is_overtaken(KEY, ballot, base.had, newest)
    }

    pub(crate) fn release(&mut self, ballot: Version) {
        self.fences.release(KEY, ballot);
        self.ballots.released(KEY, ballot);
    }

    /// All that it promised is over.
    pub(crate) fn drop_fences(&mut self) {
        self.fences = Fences::default();
    }

    /// It ends and is started again.
    pub(crate) fn restart(&mut self) {
        self.came.clear();
        self.ballots = PromisedBallots::forgetting(up_to(self.clock));
        // What was overtaken is remembered in memory only.
        let mut fences = Fences::default();
        self.fences.iter().for_each(|(key, fence)| _ = fences.learn(key, fence));
        self.fences = fences;
        self.accepted.clear();
        self.forgotten = self.clock.max(self.forgotten);
        self.promised = up_to(self.clock).max(self.promised);
        if self.bug == Some(Bug::ForgetsFences) {
            self.drop_fences();
        }
    }

    /// The same with an empty disk, of which the others say that it is not the one that it had.
    pub(crate) fn lose_disk(&mut self, lost_before: u64, others: Vec<usize>) {
        let clock = lost_before.max(self.clock);
        let rebuilding = Some((lost_before, others));
        // Whatever it is given meanwhile, it may have promised before not to take it: it says that it does not know.
        let forgotten = if self.bug == Some(Bug::RemembersRebuilding) { 0 } else { lost_before };
        let promised = up_to(lost_before);
        let ballots = PromisedBallots::forgetting(promised);
        *self =
            Replica { clock, promised, ballots, forgotten, rebuilding, bug: self.bug, ..Replica::default() };
    }

    /// From whom it still has to take over all that they have.
    pub(crate) fn pulls_from(&self) -> &[usize] {
        self.rebuilding.as_ref().map_or(&[], |(_, others)| others)
    }

    /// It has taken over what one of them has.
    pub(crate) fn pulled(&mut self, other: usize, held: Option<Held>) {
        if let Some(held) = held {
            let was_newest = self.let_in(held, From::Repair);
            self.commit(held, From::Repair, was_newest);
        }
        let Some((lost_before, others)) = &mut self.rebuilding else { return };
        others.retain(|one| *one != other);
        if others.is_empty() {
            self.forgotten = self.forgotten.max(*lost_before);
            self.rebuilding = None;
        }
    }

    /// No restart comes any more: nobody asks what its clock shows.
    pub(crate) fn needs_no_clock(&mut self) {
        self.clock = 0;
    }

    /// No plain write is under way or to come: nobody asks what became of one.
    pub(crate) fn needs_no_past(&mut self) {
        self.accepted.clear();
        self.ballots = PromisedBallots::default();
        self.promised = Version::ZERO;
    }
}

/// After all versions with this timestamp.
const fn up_to(timestamp: u64) -> Version {
    Version { timestamp, node: u16::MAX }
}
