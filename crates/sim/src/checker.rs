//! What must never happen, checked as it would.
//!
//! Versions are the witness: if a request ends before another begins, the second must not be older than the first.
//! That is sufficient for linearizability with the order of versions as the order of effects, whatever becomes of
//! writes of which the client knows nothing.

mod disks;
mod lists;

use std::collections::{BTreeMap, BTreeSet};

use ladoga_model::{Replicas, Ttl, Version};
use ladoga_replica::simulated::OvertakenCell;

use crate::values::{Key, is_counter, number_of};
use crate::written::{APART_MS_MAX, CheckedCell, Found, Tolerance, Written, is_overtaken, value_of};
use disks::OneDisk;
use lists::ListHistory;

#[derive(Debug, Default)]
pub(crate) struct Checker {
    nodes: usize,
    lists: ListHistory,
    /// What clocks that are right show when the world begins.
    epoch_ms: u64,
    tolerance: Tolerance,
    /// When each value expires, by the number of the request that wrote it, whatever versions it was given.
    expiries: BTreeMap<u64, u64>,
    /// Reads that were told nothing, because a value had expired.
    told_expired: u64,
    /// Every version that was ever given out.
    versions: BTreeMap<Version, Written>,
    /// The newest version that each node ever made durable.
    durable: Vec<BTreeMap<Key, Version>>,
    disks: Vec<OneDisk>,
    /// The newest version that a client knows of.
    floors: BTreeMap<Key, Version>,
    /// Values in files of their own that a node made durable.
    large_stored: u64,
    /// On how many nodes a key is to live, if that is fixed for the key.
    copies: BTreeMap<Key, usize>,
    /// Versions that a read with a quorum gave, and those whose writes were written again.
    read: BTreeSet<Version>,
    given_up: BTreeSet<Version>,
    /// What counts where something newer came before it: it may be nowhere.
    overtaken: BTreeMap<Version, OvertakenCell>,
    now_ms: u64,
    violation: Option<String>,
}

impl Checker {
    /// Of so many machines, of which these are the nodes.
    pub(crate) fn new(machines: usize, members: &[usize], epoch_ms: u64, tolerance: Tolerance) -> Checker {
        let (lists, durable) = (ListHistory::new(members), vec![BTreeMap::new(); machines]);
        let disks = (0..machines).map(|_| OneDisk::default()).collect();
        Checker { nodes: members.len(), lists, epoch_ms, tolerance, durable, disks, ..Checker::default() }
    }

    /// What clocks that are right show.
    const fn wall_ms(&self) -> u64 {
        self.epoch_ms + self.now_ms
    }

    /// When values expire, by the number of the request that wrote them; those that do, in milliseconds of the world.
    pub(crate) fn expiries(&self) -> BTreeMap<u64, u64> {
        let expiries = self.expiries.iter().filter(|&(_, &at_ms)| at_ms != 0);
        expiries.map(|(&write, &at_ms)| (write, at_ms.saturating_sub(self.epoch_ms))).collect()
    }

    /// The request that wrote a value, if it is one and expires.
    pub(crate) fn expiring(&self, version: Version) -> Option<u64> {
        let written = self.versions.get(&version).filter(|written| written.expires_at_ms != 0)?;
        written.value.as_deref().map(number_of)
    }

    /// The request that wrote what there was under a version.
    pub(crate) fn writer_of(&self, version: Version) -> Option<u64> {
        let written = self.versions.get(&version).filter(|written| !is_counter(&written.key))?;
        written.value.as_deref().map(number_of)
    }

    /// How many reads were told nothing, because a value had expired.
    pub(crate) const fn told_expired(&self) -> u64 {
        self.told_expired
    }

    /// The first promise that was broken.
    pub(crate) fn violation(&self) -> Option<&str> {
        self.violation.as_deref()
    }

    /// How many large values were made durable.
    pub(crate) const fn large_stored(&self) -> u64 {
        self.large_stored
    }

    /// The time of the world.
    pub(crate) const fn time_is(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn check(&mut self, holds: bool, broken: impl FnOnce() -> String) {
        if !holds && self.violation.is_none() {
            self.violation = Some(broken());
        }
    }

    /// Who follows changes was told this version of a key, and `before` over the same connection.
    pub(crate) fn told(&mut self, key: &[u8], before: Option<Version>, version: Version) {
        self.check(before <= Some(version), || {
            format!("who follows was told {version:?} of {} after {before:?}", key.escape_ascii())
        });
    }

    /// The writes of this key are for so many nodes.
    pub(crate) fn expects_copies(&mut self, key: &Key, copies: usize) {
        self.copies.insert(key.clone(), copies);
    }

    /// A node is about to make a cell durable. The first node to do so determines what was written under its version.
    fn seen(&mut self, key: &Key, cell: &CheckedCell) {
        let value = value_of(cell);
        let (version, expires_at_ms) = (cell.stamp.version, cell.stamp.expires_at_ms);
        if let Some(known) = self.versions.get(&version).filter(|known| !known.is_orphan) {
            let is_same = known.is_in(key, cell);
            return self.check(is_same, || format!("{version:?} was given out twice"));
        }
        if let Some(value) = value
            && !is_counter(key)
        {
            let known = *self.expiries.entry(number_of(value)).or_insert(expires_at_ms);
            self.check(known == expires_at_ms, || {
                format!("{version:?} expires at {expires_at_ms}, and at {known} under another version")
            });
        }
        let (at_ms, copies) = (self.now_ms, self.copies.get(key).copied().unwrap_or(self.nodes));
        let (key, value, machine) = (key.clone(), value.cloned(), self.lists.machine_of(version));
        let written = Written { key, at_ms, machine, value, expires_at_ms, copies, is_orphan: false };
        self.versions.insert(version, written);
    }

    /// What was written under a version, if it was a value.
    pub(crate) fn value_of(&self, version: Version) -> Option<Vec<u8>> {
        self.versions.get(&version)?.value.clone()
    }

    /// These writes were written again under another version: no client may see the versions that they had, before or after.
    pub(crate) fn given_up(&mut self, versions: Vec<Version>) {
        for version in versions {
            self.given_up.insert(version);
            self.check_seen(version);
        }
    }

    /// Replicas count these cells, having something newer instead.
    pub(crate) fn overtaken(&mut self, cells: Vec<OvertakenCell>) {
        self.overtaken.extend(cells.into_iter().map(|cell| (cell.version, cell)));
    }

    fn check_seen(&mut self, version: Version) {
        let is_seen_twice = self.read.contains(&version) && self.given_up.contains(&version);
        self.check(!is_seen_twice, || {
            format!("{version:?} was read, and written again under another version")
        });
    }

    /// A client's write succeeded, under this version.
    pub(crate) fn told_written(
        &mut self,
        key: &Key,
        replicas: Replicas,
        (version, value, ttl): (Option<Version>, Option<&[u8]>, Option<Ttl>),
        (floor, began_ms): (Version, u64),
    ) {
        let Some(version) = version else { return };
        let Some(written) = self.versions.get(&version) else {
            let is_nowhere = self.overtaken.get(&version).is_some_and(|cell| is_overtaken(cell, key, value));
            self.check(is_nowhere, || format!("{version:?} was acknowledged, and written by nobody"));
            return self.acknowledged(key, replicas, version, floor);
        };
        let is_it = written.key == *key && written.value.as_deref() == value;
        let expires_at_ms = written.expires_at_ms;
        self.check(is_it, || format!("{version:?} was acknowledged, under which something else was written"));
        let is_asked_for = ttl.map_or(expires_at_ms == 0, |ttl| {
            // It is decided by a time since it began, and without a majority by whatever clock there is.
            let earliest_ms =
                ttl.ends_ms((self.epoch_ms + began_ms).saturating_sub(self.tolerance.behind_ms));
            let latest_ms = ttl.ends_ms(self.wall_ms() + self.tolerance.ahead_ms);
            let is_near = earliest_ms <= expires_at_ms && expires_at_ms <= latest_ms;
            expires_at_ms != 0 && (is_near || 2 * replicas.ack as usize <= self.nodes)
        });
        self.check(is_asked_for, || format!("{version:?} expires at {expires_at_ms}, expected {ttl:?}"));
        self.acknowledged(key, replicas, version, floor);
    }

    /// A client read what a key holds, and its version.
    pub(crate) fn told_read(
        &mut self,
        key: &Key,
        replicas: Replicas,
        found: &Found,
        (floor, began_ms): (Version, u64),
    ) {
        let (version, value) = (found.version, found.value.as_deref());
        if replicas.from == 1 {
            // One node by itself, which does not say its version.
            let is_it = |written: &Written| written.key == *key && written.value.as_deref() == value;
            let is_written = value.is_none() || self.versions.values().any(is_it);
            return self
                .check(is_written, || format!("{}: a read gave what nobody wrote", key.escape_ascii()));
        }
        if let Some(version) = version {
            let written = self.versions.get(&version);
            let is_it = written.is_some_and(|written| {
                let is_left_over = value.is_none() && written.expires_at_ms != 0;
                written.key == *key && (is_left_over || written.value.as_deref() == value)
            });
            let expires_at_ms = written.map_or(0, |written| written.expires_at_ms);
            self.check(is_it, || format!("a read gave {version:?} with what nobody wrote under it"));
            if expires_at_ms != 0 {
                self.check_expiry((version, expires_at_ms), found, (replicas, began_ms));
            }
        }
        match version {
            _ if !is_checked(replicas) => {}
            None => self.read_nothing(key, floor),
            Some(version) => {
                self.read.insert(version);
                self.check_seen(version);
                self.check(version >= floor, || {
                    let key = key.escape_ascii();
                    format!("{key}: a read gave {version:?}, but {floor:?} was known before it began")
                });
                self.raise(key, version);
            }
        }
    }

    /// A client is told that a key has this version, and therefore no other one. That is as stable as what is read.
    pub(crate) fn told_refused(&mut self, key: &Key, version: Option<Version>, floor: Version) {
        let Some(version) = version else { return self.read_nothing(key, floor) };
        let is_of_key = self.versions.get(&version).is_some_and(|written| written.key == *key);
        self.check(is_of_key, || format!("a write was refused because of {version:?}, which nobody wrote"));
        self.check(version >= floor, || {
            let key = key.escape_ascii();
            format!(
                "{key}: a write was refused because of {version:?}, but {floor:?} was known before it began"
            )
        });
        self.read.insert(version);
        self.check_seen(version);
        self.raise(key, version);
    }

    /// A value that expires is there before that, and not any more from then on, by the time of the cluster, which its coordinator
    /// goes by. So two of them may disagree as long as their times are apart, and no longer.
    fn check_expiry(
        &mut self,
        (version, expires_at_ms): (Version, u64),
        found: &Found,
        (replicas, began_ms): (Replicas, u64),
    ) {
        let is_gone = found.value.is_none();
        self.told_expired += u64::from(is_gone);
        let Some(as_of_ms) = &found.as_of_ms else { return };
        // A coordinator that does not know better than that decides only what is the same at each time between the two.
        let has_expired = expires_at_ms <= *as_of_ms.start();
        let is_decided = has_expired || expires_at_ms > *as_of_ms.end();
        self.check(is_decided && is_gone == has_expired, || {
            let what = if is_gone { "nothing" } else { "a value" };
            format!("a read as of {as_of_ms:?} gave {what}: {version:?}, which expires at {expires_at_ms}")
        });
        if !is_checked(replicas) {
            // A node that has just started, and hears one other, may take its wrong clock for right.
            return;
        }
        let (earliest_ms, latest_ms) = (self.epoch_ms + began_ms, self.wall_ms());
        let is_near = *as_of_ms.start() <= latest_ms + self.tolerance.ahead_ms
            && earliest_ms.saturating_sub(self.tolerance.behind_ms) <= *as_of_ms.end();
        self.check(is_near, || {
            format!("a read of {replicas:?} was decided as of {as_of_ms:?}, between {earliest_ms} and {latest_ms} of the world")
        });
    }

    /// The newest version that a client knows of when its request begins.
    pub(crate) fn floor(&self, key: &Key) -> Version {
        self.floors.get(key).copied().unwrap_or_default()
    }

    /// What that means for all.
    fn acknowledged(&mut self, key: &Key, replicas: Replicas, version: Version, floor: Version) {
        let holders = self.durable.iter().filter(|held| held.get(key).is_some_and(|held| *held >= version));
        let (holders, ack) = (holders.count(), replicas.ack);
        self.check(holders >= ack as usize, || {
            format!("a write of {version:?} was acknowledged with {holders} copies, expected {ack}")
        });
        if is_checked(replicas) {
            self.check(version > floor, || {
                let key = key.escape_ascii();
                format!("{key}: a write got {version:?}, but {floor:?} was known before it began")
            });
            self.raise(key, version);
            self.check_order(key, version);
        }
    }

    /// No node may have something that was written long before what was acknowledged now, and would win all the same.
    fn check_order(&mut self, key: &Key, version: Version) {
        let Some(newest) = self.durable.iter().filter_map(|held| held.get(key)).max().copied() else {
            return;
        };
        let at_ms = |version| self.versions.get(version).map_or(0, |written| written.at_ms);
        let (newest_at_ms, at_ms) = (at_ms(&newest), at_ms(&version));
        self.check(newest <= version || newest_at_ms + APART_MS_MAX >= at_ms, || {
            let key = key.escape_ascii();
            format!(
                "{key}: {version:?} was acknowledged, which was written at {at_ms} ms and loses to {newest:?}, which was \
                 written at {newest_at_ms} ms"
            )
        });
    }

    /// Nothing may be read only if nothing was known, or if it was deleted since.
    fn read_nothing(&mut self, key: &Key, floor: Version) {
        if floor == Version::ZERO {
            return;
        }
        let now_ms = self.wall_ms();
        let mut deletions =
            self.versions.range(floor..).filter(|(_, written)| written.may_be_nothing(now_ms));
        match deletions.find(|(_, written)| written.key == *key).map(|(version, _)| *version) {
            Some(deletion) => self.raise(key, deletion),
            None => self.check(false, || {
                let key = key.escape_ascii();
                format!("{key}: a read gave nothing, but {floor:?} was known before it began")
            }),
        }
    }

    fn raise(&mut self, key: &Key, version: Version) {
        let floor = self.floors.entry(key.clone()).or_default();
        *floor = version.max(*floor);
    }
}

/// Whether a write and a read like this share a replica, even if one disk is lost in between.
pub(crate) fn is_checked(replicas: Replicas) -> bool {
    replicas.is_quorum() && replicas.ack >= 2
}
