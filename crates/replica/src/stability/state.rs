use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ladoga_cluster::{
    ClockReading, Durable, Incarnation, MerkleTree, NodeId, Opening, Origin, Placement, Refusal, Regression,
    StabilityTracker, Statement,
};
use ladoga_env::WorkerHandle;
use ladoga_model::{ClockError, Version};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::cluster_clock::ClusterClock;
use super::compared::ComparedTree;
use super::latest::Latest;
use super::lost_disks::LostDisks;
use super::outlook::Outlook;
use super::past::Past;
use crate::planted::{Bug, has};
use ladoga_local::store::{CellChange, CellObserver, SupersededCell};

/// How long a write waits at most until its timestamp is reserved: as long as a sync of a slow disk takes.
const RESERVE_WAIT_MS: u64 = 2_000;

/// Stability, and the Merkle tree: shared by all threads of a node; its locks are never held while anything is waited for.
pub(crate) struct Stability {
    pub(super) state: Mutex<StabilityState>,
    pub(crate) tree: ComparedTree,
    /// What this node had.
    pub(crate) past: Past,
    pub(crate) lost_disks: LostDisks,
    /// Whether this node has all that it acknowledged: as in the state, without its lock.
    is_whole: AtomicBool,
    /// Whether it may coordinate requests: the same.
    may_coordinate: AtomicBool,
    /// This node has every older cell: the same.
    synced_before: AtomicU64,
    /// Whether its cells are not to be shown: the same.
    hides_cells: AtomicBool,
    /// The newest timestamp of a write that each node acknowledged since the state took it over; by node.
    acknowledged: Vec<AtomicU64>,
    /// Before which timestamp it may give out any: the same.
    reserved_before: AtomicU64,
    /// Says that more is reserved.
    reserved: Notify,
    /// Who reserves.
    stability_writer: OnceLock<Arc<dyn WorkerHandle>>,
    outlook: Latest<Outlook>,
    /// Counts changes that peers are to be told at once.
    news: Latest<u64>,
}

pub(super) struct StabilityState {
    pub(super) tracker: StabilityTracker,
    nodes: usize,
    /// Writes that were admitted and are not over, by the generation in which they were admitted.
    under_way: [Arc<AtomicU64>; 2],
    generation: usize,
}

/// A write that was admitted, until it is applied or has failed.
#[derive(Debug)]
pub(crate) struct Admitted(Arc<AtomicU64>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// State that is to be on disk, once the writes that were admitted before have ended.
pub(crate) struct ToPersist {
    pub(crate) durable: Durable,
    before: Arc<AtomicU64>,
}

impl ToPersist {
    /// Whether those writes have ended.
    pub(crate) fn is_ready(&self) -> bool {
        self.before.load(Ordering::Acquire) == 0
    }
}

impl Stability {
    /// With the state from the disk, or the incarnation of a new directory.
    pub(crate) fn new(
        me: NodeId,
        nodes: usize,
        placement: &Arc<Placement>,
        tree_bytes_max: u64,
        found: Result<Durable, Incarnation>,
        opening: Opening,
    ) -> Stability {
        let tracker = StabilityTracker::new(me, nodes, found).opened(opening);
        let (is_whole, may_coordinate) = (tracker.is_whole(), tracker.may_coordinate());
        let (hides_cells, synced_before) = (tracker.hides_cells(), tracker.synced_before());
        let mut tree = MerkleTree::new(Arc::clone(placement), nodes, me, tree_bytes_max as usize);
        tree.drop_before(tracker.droppable_before());
        let state = StabilityState { tracker, nodes, under_way: Default::default(), generation: 0 };
        Stability {
            state: Mutex::new(state),
            tree: ComparedTree::new(tree),
            past: Past::new(),
            lost_disks: LostDisks::new(nodes),
            is_whole: AtomicBool::new(is_whole),
            may_coordinate: AtomicBool::new(may_coordinate),
            synced_before: AtomicU64::new(synced_before),
            hides_cells: AtomicBool::new(hides_cells),
            acknowledged: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
            reserved_before: AtomicU64::new(0),
            reserved: Notify::new(),
            stability_writer: OnceLock::new(),
            outlook: Latest::new(Outlook::new(may_coordinate, [])),
            news: Latest::default(),
        }
    }

    /// The worker that writes what has to be persisted whenever it is woken.
    pub(crate) fn set_writer(&self, stability_writer: Arc<dyn WorkerHandle>) {
        let is_first = self.stability_writer.set(stability_writer).is_ok();
        assert!(is_first, "one worker writes the replica state");
    }

    /// Whether its answers count.
    pub(crate) fn has_all(&self) -> bool {
        self.is_whole.load(Ordering::Acquire) || has(Bug::VouchWhileRebuilding)
    }

    /// Every older cell that any node had is here, or something newer, and none is taken any more. Never moves back.
    pub(crate) fn synced_before(&self) -> u64 {
        self.synced_before.load(Ordering::Acquire)
    }

    /// Whether the answers of a node count, by its last report.
    pub(crate) fn has_all_of(&self, node: NodeId, own: NodeId) -> bool {
        if node == own { self.has_all() } else { self.state.lock().tracker.is_whole_peer(node) }
    }

    /// The same of a peer, if it has reported since this node was started.
    pub(crate) fn heard_whole(&self, peer: NodeId) -> Option<bool> {
        self.state.lock().tracker.heard_whole(peer)
    }

    /// Whether it is known to have lost its data, and has not got them back.
    pub(crate) fn has_lost_data(&self) -> bool {
        self.state.lock().tracker.has_lost_data()
    }

    /// Whether its cells must not be shown: the directory is, or may be, older than what was acknowledged.
    pub(crate) fn hides_cells(&self) -> bool {
        self.hides_cells.load(Ordering::Acquire) && !has(Bug::VouchWhileRebuilding)
    }

    /// Whether some peer has yet to confirm that the directory was not rolled back.
    pub(crate) fn is_unverified(&self) -> bool {
        self.state.lock().tracker.is_unverified()
    }

    /// That the directory turned out to be older than what this node acknowledged.
    pub(crate) fn regression(&self) -> Option<Regression> {
        self.state.lock().tracker.regression()
    }

    /// A peer that heard this process, and hears another one as this node since.
    pub(crate) fn displaced_at(&self) -> Option<NodeId> {
        self.state.lock().tracker.displaced_at()
    }

    /// Whether the directory is one of before this node left the list of nodes.
    pub(crate) fn is_outdated(&self) -> bool {
        self.state.lock().tracker.is_outdated()
    }

    /// The incarnations of nodes, as this one has met them.
    pub(crate) fn incarnations(&self, nodes: &[NodeId]) -> Vec<Incarnation> {
        let state = self.state.lock();
        nodes.iter().map(|&node| state.tracker.incarnation_of(node)).collect()
    }

    /// Whether one of these nodes has lost its disk since somebody had met these incarnations of them.
    pub(crate) fn has_met_later(&self, nodes: &[NodeId], met: &[Incarnation]) -> bool {
        self.state.lock().tracker.has_met_later(nodes, met)
    }

    /// The session of a peer that this node would remember after a restart.
    pub(crate) fn remembered_session(&self, peer: NodeId) -> u64 {
        self.state.lock().tracker.remembered_session(peer)
    }

    /// A node, this one or another, acknowledged a write with this timestamp.
    pub(crate) fn acknowledged(&self, node: NodeId, timestamp: u64) {
        // After the greeting of the connection over which it did: so it is not held against the session that greeted.
        self.acknowledged[node.index()].fetch_max(timestamp, Ordering::Relaxed);
    }

    /// Whether it may coordinate requests.
    pub(crate) fn may_coordinate(&self) -> bool {
        self.may_coordinate.load(Ordering::Acquire)
    }

    /// What requests may have to wait for, and its changes.
    pub(crate) fn outlook(&self) -> &Latest<Outlook> {
        &self.outlook
    }

    /// Counts changes that peers are to be told at once.
    pub(crate) fn news(&self) -> &Latest<u64> {
        &self.news
    }

    /// Whether the answers of this node count. It refuses while it does not know.
    pub(crate) fn vouches(&self) -> Result<bool, Refusal> {
        if self.has_all() { Ok(true) } else { self.state.lock().tracker.vouches() }
    }

    /// Waits until this timestamp may be given out, which is at once unless a peer has just moved the clock ahead: a node
    /// that is back begins after all that it had reserved. Answers whether it may.
    pub(crate) async fn reserve(&self, timestamp: u64) -> bool {
        if self.may_give(timestamp) {
            return true;
        }
        let reserved = async {
            loop {
                let more = self.reserved.notified();
                if self.may_give(timestamp) {
                    return;
                }
                self.persist_soon();
                more.await;
            }
        };
        tokio::time::timeout(Duration::from_millis(RESERVE_WAIT_MS), reserved).await.is_ok()
    }

    /// Whether this timestamp may be given out: not before it is durably reserved.
    fn may_give(&self, timestamp: u64) -> bool {
        timestamp < self.reserved_before.load(Ordering::Acquire)
    }

    /// Lets a write in, unless it is too old. What is to be on disk next waits for it.
    pub(crate) fn admit(&self, version: Version, origin: Origin) -> Result<Admitted, Refusal> {
        let state = self.state.lock();
        state.tracker.admit(version, origin)?;
        // Who takes a client's write vouches that it has nothing newer, and who takes a repair, that it promised nothing newer:
        // a read counts on it. One that lost its data cannot, of what may be older than what it lost.
        if matches!(origin, Origin::Client | Origin::Repair)
            && !has(Bug::VouchWhileRebuilding)
            && state.tracker.doubt(version)?.is_some()
        {
            return Err(Refusal::Rebuilding);
        }
        let under_way = &state.under_way[state.generation];
        under_way.fetch_add(1, Ordering::AcqRel);
        Ok(Admitted(Arc::clone(under_way)))
    }

    /// Whether a hint with this version may be kept.
    pub(crate) fn may_hint(&self, version: Version) -> bool {
        self.state.lock().tracker.may_hint(version)
    }

    /// Whether a hint with this version may be delivered.
    pub(crate) fn may_deliver(&self, version: Version) -> bool {
        self.state.lock().tracker.may_deliver(version)
    }

    /// What this node reports about itself, with its version clock at `clock` and its wall clock at `wall_ms`.
    pub(crate) fn statement(&self, clock: u64, wall_ms: u64) -> Statement {
        let mut state = self.state.lock();
        self.take_over_acknowledged(&mut state);
        state.tracker.statement(clock, wall_ms)
    }

    /// The timestamp from which on the clock may give any.
    pub(crate) fn clock_floor(&self) -> u64 {
        self.state.lock().tracker.clock_floor()
    }

    /// A peer's statement about itself, in the answer to a question of this moment; none if there was no question. What follows
    /// from it is persisted, and told to others, as soon as possible. An error means that its versions are too far ahead: then
    /// they count as far as they would be taken.
    pub(crate) fn heard(
        &self,
        versions: &ClusterClock,
        peer: NodeId,
        statement: Statement,
        asked_at_ms: Option<u64>,
    ) -> Result<(), ClockError> {
        let reading = ClockReading { wall_ms: statement.wall_ms, version_clock: statement.clock };
        let (clock, checked) = versions.heard(peer, reading, asked_at_ms);
        let is_dirty = self.change(|state| {
            let met = state.tracker.incarnation_of(peer);
            state.tracker.heard(peer, Statement { clock, ..statement });
            if !met.is_none() && state.tracker.incarnation_of(peer) != met {
                self.lost_disks.note(peer);
            }
            state.tracker.is_dirty()
        });
        if is_dirty {
            self.persist_soon();
        }
        checked
    }

    fn persist_soon(&self) {
        if let Some(stability_writer) = self.stability_writer.get() {
            stability_writer.wake();
        }
    }

    /// Time went by: it is `time_ms` by a majority of the nodes.
    pub(crate) fn tick(&self, clock: u64, time_ms: u64, oldest_hint: Option<u64>) {
        self.change(|state| state.tracker.tick(clock, time_ms, oldest_hint));
    }

    /// What has to be written, if anything has.
    pub(crate) fn to_persist(&self) -> Option<ToPersist> {
        let mut state = self.state.lock();
        if !state.tracker.is_dirty() {
            return None;
        }
        let durable = state.tracker.durable().clone();
        let before = Arc::clone(&state.under_way[state.generation]);
        state.generation ^= 1;
        Some(ToPersist { durable, before })
    }

    /// It is on disk.
    pub(crate) fn persisted(&self, durable: Durable) {
        let reserved_before = durable.reserved_before;
        let is_news = self.change(|state| {
            let before = state.tracker.statement(0, 0);
            state.tracker.persisted(durable);
            let now = state.tracker.statement(0, 0);
            (before.incarnation, before.is_whole, before.met) != (now.incarnation, now.is_whole, now.met)
        });
        self.reserved_before.store(reserved_before, Ordering::Release);
        self.reserved.notify_waiters();
        if is_news {
            self.news.change(|count| *count += 1);
        }
    }

    fn take_over_acknowledged(&self, state: &mut StabilityState) {
        for (index, acknowledged) in self.acknowledged.iter().enumerate() {
            let timestamp = acknowledged.swap(0, Ordering::Relaxed);
            state.tracker.acknowledged(NodeId(index as u16), timestamp);
        }
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut StabilityState) -> T) -> T {
        let mut state = self.state.lock();
        self.take_over_acknowledged(&mut state);
        let was_whole = state.tracker.is_whole();
        let changed = change(&mut state);
        if state.tracker.is_whole() && !was_whole {
            // What it had before it lost its data is not newer than that.
            self.past.forget(state.tracker.lost_before().unwrap_or(0));
        }
        let outlook = state.outlook();
        self.hides_cells.store(state.tracker.hides_cells(), Ordering::Release);
        self.is_whole.store(state.tracker.is_whole(), Ordering::Release);
        self.synced_before.fetch_max(state.tracker.synced_before(), Ordering::Release);
        self.may_coordinate.store(outlook.may_coordinate, Ordering::Release);
        // Within the lock, so that the last change is the one that stays.
        self.outlook.change(|known| *known = outlook);
        changed
    }
}

impl StabilityState {
    fn outlook(&self) -> Outlook {
        let nodes = (0..self.nodes as u16).map(NodeId);
        let whole_peers = nodes.filter(|&node| self.tracker.is_whole_peer(node));
        Outlook::new(self.tracker.may_coordinate(), whole_peers)
    }
}

impl CellObserver for Stability {
    fn begins(&self) {
        self.tree.empty();
    }

    fn replaced(&self, changes: &[CellChange]) {
        self.tree.replaced(changes);
    }

    fn superseded(&self, cells: &[SupersededCell]) {
        self.past.met_newer(cells);
    }

    fn scan_completed(&self) {
        self.tree.mark_whole();
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
