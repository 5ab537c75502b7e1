//! What a node holds: its engine, the tree over it, its clock, and what is settled.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use ladoga_cluster::{
    AsOf, Cell, CellMark, ClockReading, Content, Incarnation, KeyVersion, MerkleTree, NodeId, Opening,
    Origin, Partition, PeerClocks, Placement, Prune, ReadAnswer, Refusal, Response, StabilityTracker,
    Statement, Want,
};
use ladoga_env::{Clock, Env};
use ladoga_model::{HybridClock, Stamp, Version};
use ladoga_storage::{
    Background, Durability, Engine, Error, FinishedBlob, Options, StoredCell, WriteBatch, WriteState,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::Bug;
use crate::checker::{Checker, Key};
use crate::keep::Keep;

/// What a tree may take of memory: more than a simulation fills.
const TREE_BYTES_MAX: usize = 64 << 20;
/// How far ahead of a node's own clock the version of a write may be: more than two clocks that are both half a minute
/// off.
const VERSION_AHEAD_MS_MAX: u64 = 120_000;
const DATA: &str = "/data";
/// Small, so that lists have pages.
const LIST_KEYS: usize = 3;
const LIST_SCAN: usize = 8;

pub(crate) struct Replica {
    pub(crate) me: NodeId,
    pub(crate) placement: Arc<Placement>,
    pub(crate) tree: MerkleTree,
    pub(crate) tracker: StabilityTracker,
    pub(crate) clock: HybridClock,
    peer_clocks: PeerClocks,
    pub(crate) keep: Keep,
    pub(crate) checker: Rc<RefCell<Checker>>,
    pub(crate) bug: Option<Bug>,
    engine: Engine,
    wall: Arc<dyn Clock>,
    last: u64,
    writes: u64,
}

fn options() -> Options {
    Options {
        background: Background::Manual,
        memtable_bytes: Some(8 << 10),
        table_bytes: Some(4 << 10),
        level_1_bytes: Some(8 << 10),
        reserve_bytes: Some(0),
        ..Options::new(16 << 20, Durability::Always)
    }
}

fn mark_of(cell: &StoredCell) -> CellMark {
    CellMark { stamp: cell.stamp, is_tombstone: cell.value.is_none() }
}

impl Replica {
    /// Opens what is on the disk. The error is for people: the machine tries again.
    pub(crate) fn open(
        env: Env,
        me: NodeId,
        placement: Arc<Placement>,
        nodes: usize,
        checker: Rc<RefCell<Checker>>,
        bug: Option<Bug>,
        is_unverified: bool,
    ) -> Result<Replica, String> {
        let keep = Keep::open(env.disk.clone()).map_err(|error| error.to_string())?;
        let found = keep.durable().map_err(|error| error.to_string())?;
        let incarnation = Incarnation::first(env.rng.next_u64());
        let random = env.rng.next_u64() | 1;
        let wall = env.clock.clone();
        let engine = Engine::open(env, Path::new(DATA), options()).map_err(|error| error.to_string())?;
        let opening = Opening {
            // Who ignores what its peers remember has no past to compare with.
            session: if bug == Some(Bug::IgnoreRegressions) { 0 } else { random ^ 2 },
            random,
            written: engine.last_timestamp(),
            is_unverified: is_unverified && bug != Some(Bug::IgnoreRegressions),
        };
        let tracker = StabilityTracker::new(me, nodes, found.ok_or(incarnation)).opened(opening);
        let mut tree = MerkleTree::new(placement.clone(), nodes, me, TREE_BYTES_MAX);
        let mut range = engine.snapshot().range(b"", None);
        while let Some((key, cell)) = range.next_cell().map_err(|error| error.to_string())? {
            tree.replaced(xxh3_64(&key), None, mark_of(&cell));
        }
        let last = engine.last_timestamp().max(tracker.clock_floor());
        let clock = HybridClock::after(last);
        let monotonic_ms = wall.monotonic_ns() / 1_000_000;
        let mut peer_clocks = PeerClocks::new(me, nodes, VERSION_AHEAD_MS_MAX, monotonic_ms);
        peer_clocks.starts_after(last);
        Ok(Replica {
            me,
            placement,
            tree,
            tracker,
            clock,
            peer_clocks,
            keep,
            checker,
            bug,
            engine,
            wall,
            last,
            writes: 0,
        })
    }

    /// The clock of this node, without taking a timestamp.
    pub(crate) fn now(&self) -> u64 {
        self.last.max(HybridClock::at_wall_ms(self.time_ms()))
    }

    /// What time it is by a majority of the nodes.
    fn time_ms(&self) -> u64 {
        let time_ms =
            self.peer_clocks.bounds(self.monotonic_ms()).time_ms(self.wall.wall_ms(), self.monotonic_ms());
        if self.bug == Some(Bug::TrustOwnClock) { self.wall.wall_ms() } else { time_ms }
    }

    /// Whether too few peers were heard to know.
    pub(crate) fn is_unverified(&self) -> bool {
        self.peer_clocks.bounds(self.monotonic_ms()).is_unverified
    }

    /// Time went by.
    pub(crate) fn tick(&mut self, oldest_hint: Option<u64>) {
        self.peer_clocks.tick(self.wall.wall_ms(), self.monotonic_ms());
        self.tracker.tick(self.now(), self.time_ms(), oldest_hint);
    }

    /// What this node says about itself.
    pub(crate) fn statement(&self) -> Statement {
        self.tracker.statement(self.now(), self.wall.wall_ms())
    }

    /// A peer said this about itself, in the answer to a question of this moment; none where it was not asked.
    pub(crate) fn heard(&mut self, peer: NodeId, statement: Statement, asked_at_ms: Option<u64>) {
        let (wall_ms, monotonic_ms) = (self.wall.wall_ms(), self.monotonic_ms());
        let round_trip_ms = asked_at_ms.map(|asked_at_ms| monotonic_ms - asked_at_ms);
        let reading = ClockReading { wall_ms: statement.wall_ms, version_clock: statement.clock };
        self.peer_clocks.heard(peer, reading, monotonic_ms, round_trip_ms);
        // A clock that is too far ahead is not followed.
        let _ = self.observe(statement.clock);
        let now = (wall_ms, monotonic_ms);
        let clock =
            self.peer_clocks.bounds(self.monotonic_ms()).cut(statement.clock, now, VERSION_AHEAD_MS_MAX);
        self.tracker.heard(peer, Statement { clock, ..statement });
    }

    pub(crate) fn monotonic_ms(&self) -> u64 {
        self.wall.monotonic_ns() / 1_000_000
    }

    /// The version of a write that begins now; none where it could have been given out before.
    pub(crate) fn next_version(&mut self) -> Option<Version> {
        let timestamp = self.clock.next(self.time_ms());
        self.last = timestamp;
        let may_give = self.tracker.may_give(timestamp) && self.check_ahead(timestamp).is_ok();
        may_give.then_some(Version { timestamp, node: self.me.0 })
    }

    /// Takes note of a timestamp of another node.
    pub(crate) fn observe(&mut self, timestamp: u64) -> Result<(), Refusal> {
        self.check_ahead(timestamp)?;
        self.clock = HybridClock::after(self.last.max(timestamp));
        self.last = self.last.max(timestamp);
        Ok(())
    }

    /// Whether a timestamp is not too far ahead, be it this node's own.
    fn check_ahead(&self, timestamp: u64) -> Result<(), Refusal> {
        let now = (self.wall.wall_ms(), self.monotonic_ms());
        let bounds = self.peer_clocks.bounds(self.monotonic_ms());
        let checked = if self.bug == Some(Bug::TrustOwnClock) {
            HybridClock::check_ahead(timestamp, now.0, VERSION_AHEAD_MS_MAX)
        } else {
            bounds.check_ahead(timestamp, now, VERSION_AHEAD_MS_MAX)
        };
        checked.map_err(Refusal::ClockAhead)
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.engine.write_state() == WriteState::Poisoned
    }

    /// Whether its answers count. It refuses while it does not know.
    fn vouches(&self) -> Result<bool, Refusal> {
        if self.bug == Some(Bug::VouchWhileRebuilding) { Ok(true) } else { self.tracker.vouches() }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<StoredCell>, Refusal> {
        self.engine.get_cell(key).map_err(|error| refusal(&error))
    }

    pub(crate) fn read(&self, key: &[u8], want: Want) -> Result<ReadAnswer<Vec<u8>>, Refusal> {
        let is_whole = match self.vouches() {
            // Who pulls takes what there is.
            Err(refusal) if want != Want::Pulled => return Err(refusal),
            vouches => vouches == Ok(true),
        };
        let is_hidden = want != Want::Pulled && self.tracker.hides_cells();
        let Some(stored) = self.get(key)?.filter(|_| !is_hidden) else {
            return Ok(ReadAnswer { cell: None, is_whole });
        };
        let content = match stored.value {
            None => Content::Tombstone,
            Some(_) if want == Want::Digest => Content::Digest,
            Some(value) => Content::Value(value.read().map_err(|error| refusal(&error))?.to_vec()),
        };
        let cell = Some(Cell { stamp: stored.stamp, content });
        Ok(ReadAnswer { cell, is_whole })
    }

    /// Makes a cell durable, unless there is a newer one: then that one's version is the answer.
    pub(crate) fn apply(
        &mut self,
        key: &Key,
        cell: &Cell<Vec<u8>>,
        origin: Origin,
    ) -> Result<Option<Version>, Refusal> {
        let version = cell.stamp.version;
        self.observe(version.timestamp)?;
        self.tracker.admit(version, origin)?;
        let doubt = if origin == Origin::Client { self.tracker.doubt(version)? } else { None };
        self.writes += 1;
        if self.bug == Some(Bug::AckWithoutWriting) && self.writes.is_multiple_of(7) {
            return Ok(None);
        }
        let old = self.get(key)?;
        let newest = old.as_ref().map_or(Version::ZERO, |old| old.stamp.version);
        if newest >= version {
            return Ok((newest > version).then_some(newest).max(doubt));
        }
        let mut batch = WriteBatch::new();
        match &cell.content {
            Content::Value(value) if crate::is_large(value) => {
                let blob = self.blob(value).map_err(|error| refusal(&error))?;
                batch.put_blob(key, cell.stamp, blob);
            }
            Content::Value(value) => batch.put(key, cell.stamp, value),
            Content::Tombstone => batch.delete(key, cell.stamp),
            Content::Digest => panic!("digests are not written"),
        }
        self.engine.write_group(&[batch]).map_err(|error| refusal(&error))?;
        let is_tombstone = matches!(cell.content, Content::Tombstone);
        let mark = CellMark { stamp: cell.stamp, is_tombstone };
        self.tree.replaced(xxh3_64(key), old.as_ref().map(mark_of), mark);
        let place = self.placement.position(Partition::of(key), self.me);
        self.checker.borrow_mut().applied(self.me.index(), place, key, cell);
        self.tracker.acknowledged(self.me, version.timestamp);
        Ok(doubt)
    }

    /// Deletes what a peer should hold and does not have.
    pub(crate) fn prune(&mut self, peer: NodeId, prune: &Prune<Key>) -> Result<(), Refusal> {
        let is_between = |key: &Key| {
            prune.after.as_ref().is_none_or(|after| key > after)
                && prune.until.as_ref().is_none_or(|until| key <= until)
        };
        for (key, mark) in self.cells() {
            let partition = Partition::of(&key);
            let is_theirs = self.placement.both_hold(partition, [self.me, peer], mark);
            if !is_between(&key) || !is_theirs || !prune.takes(&key, mark) {
                continue;
            }
            // Newer than the value, and than nothing else.
            let version = Version { node: u16::MAX, ..mark.stamp.version };
            let stamp = Stamp::new(version);
            let mut batch = WriteBatch::new();
            batch.delete(&key, stamp);
            self.engine.write_group(&[batch]).map_err(|error| refusal(&error))?;
            self.tree.replaced(xxh3_64(&key), Some(mark), CellMark { stamp, is_tombstone: true });
        }
        Ok(())
    }

    fn blob(&self, value: &[u8]) -> Result<FinishedBlob, Error> {
        let mut blob = self.engine.create_blob()?;
        blob.write(value)?;
        blob.finish()
    }

    /// Lets go of tombstones that may go, and does a little of what a background does.
    pub(crate) fn maintain(&mut self, seals: bool) {
        let droppable = self.tracker.droppable_before();
        self.tree.drop_before(droppable);
        self.engine.drop_tombstones_before(droppable);
        if self.bug == Some(Bug::DropTombstonesByTime) {
            self.engine.drop_tombstones_before(self.now().saturating_sub(HybridClock::at_wall_ms(5_000)));
        }
        // What fails here shows when it is asked for: the store is poisoned, or its power is gone.
        if seals {
            let _ = self.engine.seal();
        }
        for _ in 0..3 {
            let _ = self.engine.step();
        }
    }

    /// Makes durable what the settlement wants to be.
    pub(crate) fn maybe_persist(&mut self) {
        if self.tracker.is_dirty() {
            let durable = self.tracker.durable().clone();
            if self.keep.keep_durable(&durable).is_ok() {
                self.tracker.persisted(durable);
            }
        }
    }

    /// Fills the tree anew, such that it tells tombstones before this timestamp from later ones.
    pub(crate) fn fill_anew(&mut self, boundary: u64) {
        self.tree = self.tree.emptied(boundary);
        for (key, mark) in self.cells() {
            self.tree.replaced(xxh3_64(&key), None, mark);
        }
    }

    pub(crate) fn groups(&mut self, asker: NodeId, slice: AsOf) -> Response<Key> {
        let dropped_before = slice.dropped_before.max(self.tree.dropped_before());
        if self.tree.cuts(dropped_before) {
            self.fill_anew(dropped_before);
        }
        match self.tree.pair(asker, AsOf { dropped_before, ..slice }) {
            Some(leaves) => Response::Groups { dropped_before, hashes: leaves.groups().to_vec() },
            None => Response::Refused(Refusal::OverCapacity),
        }
    }

    pub(crate) fn leaves(&self, asker: NodeId, slice: AsOf, groups: &[u8]) -> Response<Key> {
        match self.tree.pair(asker, slice) {
            Some(leaves) => {
                Response::Leaves(groups.iter().flat_map(|&group| leaves.group(group)).copied().collect())
            }
            None => Response::Refused(Refusal::OverCapacity),
        }
    }

    pub(crate) fn list(
        &self,
        asker: NodeId,
        slice: AsOf,
        partitions: &[Partition],
        after: Option<&Key>,
    ) -> Result<Response<Key>, Refusal> {
        let start = after.map_or_else(Vec::new, |key| [key.as_slice(), &[0]].concat());
        let mut range = self.engine.snapshot().range(&start, None);
        let mut entries = Vec::new();
        for scanned in 1.. {
            let Some((key, cell)) = range.next_cell().map_err(|error| refusal(&error))? else { break };
            let (partition, mark) = (Partition::of(&key), mark_of(&cell));
            let is_named = partitions.is_empty() || partitions.binary_search(&partition).is_ok();
            let is_theirs = self.placement.both_hold(partition, [self.me, asker], mark);
            if is_named && slice.has(mark) && is_theirs {
                entries.push(KeyVersion {
                    key: key.to_vec(),
                    stamp: cell.stamp,
                    is_tombstone: mark.is_tombstone,
                });
            }
            if entries.len() == LIST_KEYS || scanned == LIST_SCAN {
                return Ok(Response::List { entries, next: Some(key.to_vec()) });
            }
        }
        Ok(Response::List { entries, next: None })
    }

    /// Every cell, for the comparison at the end.
    pub(crate) fn cells(&self) -> Vec<(Key, CellMark)> {
        let mut range = self.engine.snapshot().range(b"", None);
        let mut cells = Vec::new();
        while let Ok(Some((key, cell))) = range.next_cell() {
            cells.push((key.to_vec(), mark_of(&cell)));
        }
        cells
    }
}

fn refusal(error: &Error) -> Refusal {
    match error {
        error if error.is_disk_full() => Refusal::NoRoom,
        error if error.is_corruption() => Refusal::Unreadable,
        _ => Refusal::StoreFailed,
    }
}
