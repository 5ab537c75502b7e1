//! Stability: which node lost its data, up to when everybody has everything, which tombstones may go.
//!
//! Each node says two things about time, both durable before they are said, neither of them ever taken back:
//!
//! - `write_floor`: it takes no client's write with an older version any more, and keeps no older hint;
//! - `synced_before`: it has everything older that any node had, or something newer, and takes nothing older at all.
//!
//! A node becomes complete before `S` by pulling from every peer, after each of them has closed `S`: what no client
//! can add to any more and everybody has been asked for is all there is. Once all nodes are complete before `S`, every
//! replica has each tombstone before `S`, no node has, keeps or takes anything older than it, and it may go.

use std::iter;

use ladoga_model::{HybridClock, Version};

use crate::durable::Durable;
use crate::failure::Refusal;
use crate::incarnation::Incarnation;
use crate::nodes::NodeId;
use crate::origin::Origin;
use crate::reach::{Memory, Opening, Reach, Regression};
use crate::statement::{Acquaintance, Statement};
use crate::window::window_start;

/// How far behind its clock a node closes: longer than a request may be under way, on clocks half a minute off.
pub const SETTLE_MS: u64 = 60_000;
/// How far ahead of its clock a node durably reserves timestamps, so that it never gives out one twice, even if its
/// clock jumps back while it is down.
pub const RESERVE_MS: u64 = 10_000;
/// The same where its clock is that far ahead of the time already. It is after each restart, since it begins after all
/// that it had reserved: restarts in a row must not add up to a clock that the others refuse.
const RESERVE_AHEAD_MS: u64 = 1_000;

/// Whom to pull from, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncRound {
    /// Counts the passes, so that what is late is known.
    pub number: u64,
    /// Cells before this; `u64::MAX` where everything was lost.
    pub before: u64,
    /// Peers that are still to be pulled from.
    pub peers: Vec<NodeId>,
}

/// What a node knows about stability: its own and that of its peers.
///
/// The driver keeps [`StabilityTracker::durable`] on disk: whenever [`StabilityTracker::is_dirty`], it takes it, waits until every
/// write that was admitted so far is applied or has failed, writes it, and says so with [`StabilityTracker::persisted`]. What
/// is to be refused is refused at once; what is promised to others is promised only when it is persisted.
#[derive(Debug)]
pub struct StabilityTracker {
    me: NodeId,
    next: Durable,
    persisted: Durable,
    /// What the peers said in the life of this process.
    heard: Vec<Option<Statement>>,
    pass: Option<SyncRound>,
    passes: u64,
    /// While this node is not whole: what it lost is older than this. Known once all peers were heard.
    lost_before: Option<u64>,
    /// Whether a peer said, in the life of this process, that it knew another data directory of this node.
    is_replacement: bool,
    opening: Opening,
    /// How far the directory was when it was opened.
    found: Reach,
    /// Whether it is still to be heard of each peer that the directory is no older state.
    is_unverified: bool,
    regression: Option<Regression>,
    /// The newest timestamp of a write that this node acknowledged in this session.
    written: u64,
    /// What is known of the others by now.
    remembered: Vec<Memory>,
    /// The session of each other node before the one that it is in: what is heard of it comes too late.
    ended: Vec<u64>,
}

impl StabilityTracker {
    /// A node that found this on its disk; `None` where the directory is new, with the incarnation to give it.
    pub fn new(me: NodeId, nodes: usize, found: Result<Durable, Incarnation>) -> StabilityTracker {
        let persisted = match &found {
            Ok(durable) => durable.clone(),
            Err(_) => Durable::default(),
        };
        let mut next = found.unwrap_or_else(|incarnation| {
            assert!(!incarnation.is_none(), "a directory has one");
            // Alone, there is nobody who could know more.
            Durable { incarnation, is_whole: nodes == 1, ..Durable::default() }
        });
        next.met.resize(nodes, Acquaintance::default());
        next.remembered.resize(nodes, Memory::default());
        StabilityTracker {
            me,
            heard: vec![None; nodes],
            pass: None,
            passes: 0,
            lost_before: None,
            is_replacement: false,
            opening: Opening::default(),
            found: Reach::default(),
            is_unverified: false,
            regression: None,
            written: 0,
            remembered: next.remembered.clone(),
            ended: vec![0; nodes],
            next,
            persisted,
        }
    }

    /// With what the process that opens the directory found there.
    #[must_use]
    pub fn opened(mut self, opening: Opening) -> StabilityTracker {
        let Durable { reserved_before, synced_before, incarnation, .. } = self.persisted;
        // A tombstone that went was older than what this node is complete before.
        self.found = Reach { written: opening.written.max(synced_before), reserved: reserved_before };
        if incarnation.is_none() && !self.next.is_whole {
            self.next.has_old_cells = opening.written > 0;
        }
        self.is_unverified = opening.is_unverified && self.peers().next().is_some();
        // Further with each session, whatever the clock does: so a state from before a session is known to be older.
        self.next.reserved_before += 1;
        self.opening = opening;
        self
    }

    /// What is to be on disk.
    pub const fn durable(&self) -> &Durable {
        &self.next
    }

    /// Whether [`StabilityTracker::durable`] has to be written.
    pub fn is_dirty(&self) -> bool {
        self.next != self.persisted
    }

    /// This is on disk now.
    pub fn persisted(&mut self, durable: Durable) {
        self.persisted = durable;
    }

    /// The clock of this node must give timestamps only from this one on, when it starts. (What peers say about their
    /// clocks is observed like the version of a write, with its bound.)
    pub fn clock_floor(&self) -> u64 {
        self.persisted.reserved_before.max(self.persisted.write_floor)
    }

    /// Whether a timestamp may be given out: not before it is durably reserved.
    pub const fn may_give(&self, timestamp: u64) -> bool {
        timestamp < self.persisted.reserved_before
    }

    /// Whether this node may coordinate requests. One with a new directory first has to hear whether it was here before:
    /// until then it could give out a timestamp again, or take a lost key for one that never was. One that was here before
    /// has to hear everybody: who is missing may know of later timestamps.
    pub fn may_coordinate(&self) -> bool {
        self.is_whole() || (self.has_lost_data() && self.has_heard_all())
    }

    /// Whether the answers of this node count. It refuses while it is starting: its directory is new, or not the one that it
    /// wrote, and it has not heard yet whether it lost anything.
    pub fn vouches(&self) -> Result<bool, Refusal> {
        if self.is_whole() {
            return Ok(true);
        }
        let is_lost = !self.has_all() && (self.is_replacement || self.regression.is_some());
        if is_lost { Ok(false) } else { Err(Refusal::Starting) }
    }

    /// Whether this node has all that it acknowledged, and its answers count.
    pub const fn is_whole(&self) -> bool {
        self.has_all() && !self.is_unverified
    }

    /// Whether the files of the directory are not those that this node wrote, and a peer that may know whether they are an
    /// older state was not heard yet.
    pub const fn is_unverified(&self) -> bool {
        self.is_unverified
    }

    /// That the directory turned out to be older than what this node acknowledged, in the life of this process.
    pub const fn regression(&self) -> Option<Regression> {
        self.regression
    }

    /// Whether the cells of this node are not to be shown: among them may be some that were deleted, and nobody may know
    /// of that any more. No quorum needs them, since answers of a node that is not whole do not count.
    pub const fn hides_cells(&self) -> bool {
        !self.is_whole() && (self.is_unverified || self.next.has_old_cells)
    }

    /// Whether a peer has all that it acknowledged, as it said last.
    pub fn is_whole_peer(&self, peer: NodeId) -> bool {
        self.heard[peer.index()].as_ref().is_some_and(|statement| statement.is_whole)
    }

    /// The same, where it said anything in the life of this process.
    pub fn heard_whole(&self, peer: NodeId) -> Option<bool> {
        self.heard[peer.index()].as_ref().map(|statement| statement.is_whole)
    }

    /// Whether a peer knew another data directory of this node before: then that one's data are lost.
    pub fn has_lost_data(&self) -> bool {
        self.vouches() == Ok(false)
    }

    /// Whether a cell may be written here.
    pub fn admit(&self, version: Version, origin: Origin) -> Result<(), Refusal> {
        let write_floor = match origin {
            Origin::Client => self.next.write_floor.max(self.next.synced_before),
            Origin::Hint | Origin::Repair | Origin::Exchange => self.next.synced_before,
        };
        if version.timestamp < write_floor { Err(Refusal::TooOld { write_floor }) } else { Ok(()) }
    }

    /// What a client's write that this node takes may be older than, for all that it knows: a timestamp, where the
    /// version is not after it. It refuses where it cannot say yet.
    ///
    /// A replica that takes a write vouches that it has nothing newer. One that lost its data could have had; but what it
    /// had, a peer gave out or has seen, so it is not after the clocks of all peers when it came back.
    pub fn doubt(&self, version: Version) -> Result<Option<Version>, Refusal> {
        if self.vouches()? {
            return Ok(None);
        }
        let lost_before = self.lost_before.ok_or(Refusal::Rebuilding)?;
        Ok((version.timestamp <= lost_before).then_some(Version { timestamp: lost_before, node: u16::MAX }))
    }

    /// Whether a hint with this version may be kept: not before what this node has closed.
    pub const fn may_hint(&self, version: Version) -> bool {
        version.timestamp >= self.next.write_floor
    }

    /// What this node says about itself, where its clock of versions is at `clock`, and its wall clock at `wall_ms`.
    pub fn statement(&self, clock: u64, wall_ms: u64) -> Statement {
        let Durable { incarnation, write_floor, synced_before, reserved_before, .. } = self.persisted;
        Statement {
            incarnation,
            write_floor,
            synced_before,
            is_whole: self.is_whole(),
            clock,
            met: self.said_of_peers(),
            session: self.opening.session,
            reach: Reach { written: self.written, reserved: reserved_before },
            remembered: self.remembered.clone(),
            wall_ms,
        }
    }

    /// Whom it has met, as far as that is on disk: a peer goes by that. That one was here before is no promise, and is said
    /// at once: else the peer could be taken for new meanwhile.
    fn said_of_peers(&self) -> Vec<Acquaintance> {
        let on_disk = self.persisted.met.iter().copied().chain(iter::repeat(Acquaintance::default()));
        let said = |(next, on_disk): (&Acquaintance, Acquaintance)| {
            if next.is_replacement { *next } else { on_disk }
        };
        self.next.met.iter().zip(on_disk).map(said).collect()
    }

    /// The session of a peer that is remembered durably.
    pub fn remembered_session(&self, peer: NodeId) -> u64 {
        self.persisted.remembered.get(peer.index()).map_or(0, |memory| memory.session)
    }

    /// A node, this one or another, acknowledged a write with this timestamp: it is durable there.
    pub fn acknowledged(&mut self, node: NodeId, timestamp: u64) {
        let written =
            if node == self.me { &mut self.written } else { &mut self.remembered[node.index()].now.written };
        *written = timestamp.max(*written);
    }

    /// A peer said this about itself, on a connection that is not older than one on which it said something before. Its
    /// clock is no further ahead than a version that this node takes: see [`crate::PeerClocks`].
    pub fn heard(&mut self, peer: NodeId, mut statement: Statement) {
        let Statement { incarnation, session, reach, .. } = statement;
        let index = peer.index();
        if session != 0 && session == self.ended[index] {
            return;
        }
        let met = &mut self.next.met[index];
        if incarnation.comes_after(met.incarnation) {
            let is_replacement = !met.incarnation.is_none();
            *met = Acquaintance { incarnation, is_replacement };
            // What was pulled from it may be what it has lost.
            self.pass = None;
            self.remembered[index] = Memory { session: self.remembered[index].session, ..Memory::default() };
            // On disk together with the incarnation that it is of: otherwise it is held against that one after a crash.
            self.next.remembered[index] = self.remembered[index];
        } else if incarnation != met.incarnation && !incarnation.is_none() {
            // An older directory is back, and does not know it yet. What it promises is not kept.
            self.pass = None;
            (statement.is_whole, statement.synced_before) = (false, 0);
        }
        let session_before = self.remembered[index].session;
        if self.remembered[index].hear(session, reach) {
            self.ended[index] = session_before;
            self.next.remembered.clone_from(&self.remembered);
        }
        self.heard[index] = Some(statement);
        self.maybe_regress(peer);
        let knew_another = self.known().any(|met| self.is_of_another(met));
        self.is_replacement |= knew_another;
        self.is_unverified &= !self.has_heard_all();
        if self.lost_before.is_none() && self.has_heard_all() {
            self.lost_before = self.heard.iter().flatten().map(|statement| statement.clock).max();
        }
        self.maybe_recognize_newness();
    }

    /// Time went by: the clock of versions is at `clock`, and it is `time_ms` by a majority of the nodes. `oldest_hint` is the oldest
    /// version among the hints that wait here.
    pub fn tick(&mut self, clock: u64, time_ms: u64, oldest_hint: Option<u64>) {
        if let Some(closable) = self.closable(clock, oldest_hint) {
            self.next.write_floor = self.next.write_floor.max(closable);
        }
        let clock_ms = HybridClock::wall_ms(clock);
        let reserve = HybridClock::at_wall_ms((time_ms + RESERVE_MS).max(clock_ms + RESERVE_AHEAD_MS));
        if clock + (reserve - clock) / 2 >= self.next.reserved_before {
            self.next.reserved_before = reserve;
            // On this occasion, since that is written anyway.
            self.next.remembered.clone_from(&self.remembered);
        }
    }

    /// What can be closed. Never ahead of what every peer's clock has passed: a node whose clock is a year ahead would
    /// refuse every write for a year.
    fn closable(&self, clock: u64, oldest_hint: Option<u64>) -> Option<u64> {
        let mut earliest = clock;
        for peer in self.peers() {
            earliest = earliest.min(self.heard[peer.index()].as_ref()?.clock);
        }
        let behind = HybridClock::at_wall_ms(HybridClock::wall_ms(earliest).saturating_sub(SETTLE_MS));
        Some(window_start(behind.min(oldest_hint.unwrap_or(u64::MAX))))
    }

    /// The pass that is to be made now, if there is one: the one under way, or the next.
    pub fn pass(&mut self) -> Option<&SyncRound> {
        if self.pass.is_none() {
            let before = if self.has_all() { self.common_closed()? } else { self.whole_again()? };
            self.passes += 1;
            let mut peers: Vec<NodeId> = self.peers().collect();
            // Those that know best come last: what they do not have was deleted, whoever had it before.
            peers.sort_by_key(|&peer| self.is_whole_peer(peer));
            self.pass = Some(SyncRound { number: self.passes, before, peers });
        }
        self.pass.as_ref()
    }

    /// Everything of this pass has been pulled from a peer and is durable here.
    pub fn pulled(&mut self, number: u64, peer: NodeId) {
        let Some(pass) = self.pass.as_mut().filter(|pass| pass.number == number) else { return };
        pass.peers.retain(|&other| other != peer);
        if !pass.peers.is_empty() {
            return;
        }
        let before = pass.before;
        self.pass = None;
        if before == u64::MAX {
            self.becomes_whole();
        } else {
            self.next.synced_before = self.next.synced_before.max(before);
        }
    }

    /// Values before this timestamp that a peer should hold and does not have were deleted; 0 where that is not to be
    /// looked for. Only a node whose own cells may be of another time has to.
    pub fn prune_before(&self, peer: NodeId) -> u64 {
        let knows = |peer: NodeId| self.heard[peer.index()].as_ref().filter(|statement| statement.is_whole);
        let is_needed = self.next.has_old_cells || self.peers().any(|peer| knows(peer).is_none());
        if self.has_all() || !is_needed { 0 } else { knows(peer).map_or(0, |known| known.synced_before) }
    }

    /// This pass cannot be made any more; the next one is another.
    pub fn abandon(&mut self, number: u64) {
        self.pass.take_if(|pass| pass.number == number);
    }

    /// Every replica has all tombstones before this, or something newer, and nobody takes anything older.
    pub fn droppable_before(&self) -> u64 {
        let heard = self
            .peers()
            .map(|peer| self.heard[peer.index()].as_ref().map_or(0, |statement| statement.synced_before));
        heard.min().unwrap_or(u64::MAX).min(self.persisted.synced_before)
    }

    fn peers(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        (0..self.heard.len() as u16).map(NodeId).filter(move |&node| node != me)
    }

    /// Up to when all nodes have closed, where that is news.
    fn common_closed(&self) -> Option<u64> {
        let mut common = self.persisted.write_floor;
        for peer in self.peers() {
            common = common.min(self.heard[peer.index()].as_ref()?.write_floor);
        }
        (common > self.persisted.synced_before).then_some(common)
    }

    /// What a node that lost its data has to pull, once everybody is there.
    fn whole_again(&self) -> Option<u64> {
        self.has_heard_all().then_some(u64::MAX)
    }

    fn has_heard_all(&self) -> bool {
        self.peers().all(|peer| self.heard[peer.index()].is_some())
    }

    /// Whether this node has all that it acknowledged, for all that it knows.
    const fn has_all(&self) -> bool {
        self.persisted.is_whole && self.next.is_whole
    }

    const fn becomes_whole(&mut self) {
        (self.next.is_whole, self.next.has_old_cells) = (true, false);
    }

    /// Whether a peer remembers that the directory of this node was further than it was found, or has met a later one: then
    /// what came after is lost. What is here stays; it is no more than a beginning, under another incarnation.
    fn maybe_regress(&mut self, peer: NodeId) {
        let Some(statement) = &self.heard[peer.index()] else { return };
        let (met, memory) = (statement.met.get(self.me.index()), statement.remembered.get(self.me.index()));
        let Some(&Acquaintance { incarnation: met, .. }) = met else { return };
        let known = memory.copied().unwrap_or_default().before(self.opening.session);
        let is_same = met == self.persisted.incarnation && met == self.next.incarnation;
        // An incarnation that began in this session was never further before it, whatever is said of it.
        let is_further = is_same && self.regression.is_none() && known.is_beyond(self.found);
        if !is_further && !met.supersedes(self.next.incarnation) {
            return;
        }
        // One that is new, or is being rebuilt, only takes another name.
        let had_all = is_further || self.next.is_whole;
        if had_all {
            self.regression.get_or_insert(Regression { peer, known, found: self.found });
        }
        self.next = Durable {
            incarnation: met.next(self.opening.random),
            is_whole: false,
            has_old_cells: self.next.has_old_cells || had_all || self.opening.written > 0,
            // Where a sync was left to the system, what was pulled is not there for certain.
            synced_before: 0,
            // What was given out is not given out again.
            reserved_before: self.next.reserved_before.max(known.reserved),
            ..self.next.clone()
        };
        self.pass = None;
    }

    /// What the peers said that they know of this node.
    fn known(&self) -> impl Iterator<Item = Acquaintance> {
        let about_me =
            |statement: &Statement| statement.met.get(self.me.index()).copied().unwrap_or_default();
        self.heard.iter().flatten().map(about_me)
    }

    /// Whether what a peer has met is another data directory of this node, be it that it has not heard of this one yet.
    fn is_of_another(&self, met: Acquaintance) -> bool {
        met.is_replacement || (!met.incarnation.is_none() && met.incarnation != self.next.incarnation)
    }

    /// A directory is new, and has lost nothing, if no peer knew another one before, as all of them say, or as a majority
    /// says that knows this one by now.
    fn maybe_recognize_newness(&mut self) {
        if self.next.is_whole || self.is_replacement || self.persisted.incarnation.is_none() {
            return;
        }
        let is_mine = |met: &Acquaintance| met.incarnation == self.persisted.incarnation;
        let is_known = self.known().filter(is_mine).count() + 1 > self.heard.len() / 2;
        // (Who has none has not read its own disk, or not written it.)
        let has_said =
            |peer: NodeId| self.heard[peer.index()].as_ref().is_some_and(|it| !it.incarnation.is_none());
        if is_known || self.peers().all(has_said) {
            self.becomes_whole();
        }
    }
}

#[cfg(test)]
#[path = "stability_tests.rs"]
mod tests;
