//! Stability: which node lost its data, up to when every node has everything, which tombstones may go.
//!
//! Each node reports two timestamps. Both are durable before they are reported, and neither ever moves back:
//!
//! - `write_floor`: it takes no client's write with an older version any more, and keeps no older hint;
//! - `synced_before`: it has every older cell that any node had, or something newer, and takes nothing older at all.
//!
//! A node becomes complete before `S` by pulling from every peer after the write floor of each of them has passed `S`: then no
//! client can add anything older, and every peer has been asked. Once all nodes are complete before `S`, every replica has each
//! tombstone from before `S`, no node has, keeps or takes anything older than it, and the tombstone may go.
//!
//! - here: what a node promises, and what that permits it to do; `hear`: what it learns from its peers' statements
//! - `rounds`: the peers that it pulls from, and what that makes complete

mod hear;
mod rounds;

pub use rounds::SyncRound;

use std::iter;
use std::ops::RangeInclusive;

use ladoga_model::{HybridClock, Version};

use crate::durable::{Durable, Relisting};
use crate::failure::Refusal;
use crate::incarnation::Incarnation;
use crate::nodes::NodeId;
use crate::origin::Origin;
use crate::reach::{Memory, Opening, Reach, Regression, first_session};
use crate::statement::{Acquaintance, Statement};
use crate::window::window_start;

/// How far its write floor stays behind its clock: longer than a request may be in flight, on clocks half a minute off.
pub const SETTLE_MS: u64 = 60_000;
/// How far ahead of its clock a node durably reserves timestamps, so that it never gives out one twice, even if its
/// clock jumps back while it is down.
pub const RESERVE_MS: u64 = 10_000;
/// The same if its version clock is that far ahead of the time already: a tenth of how long its process has run, within these. After a
/// restart, the clock begins after all that was reserved. So each restart adds less than it takes until the next one, and restarts in a
/// row do not add up to a clock that the others refuse. It is enough for 655,360 versions even if the time stands still, and if the
/// clock follows others that are right and ahead, soon for a second of theirs.
const RESERVE_AHEAD_MS: RangeInclusive<u64> = 10..=1_000;

/// What a node knows about stability: its own and that of its peers.
///
/// The driver keeps [`StabilityTracker::durable`] on disk: whenever [`StabilityTracker::is_dirty`], it takes it, waits until
/// every write that was admitted so far is applied or has failed, writes it, and calls [`StabilityTracker::persisted`].
/// Refusals take effect at once; promises to others only once they are persisted.
#[derive(Debug)]
pub struct StabilityTracker {
    me: NodeId,
    next: Durable,
    persisted: Durable,
    /// What the peers reported since this process started.
    heard: Vec<Option<Statement>>,
    pass: Option<SyncRound>,
    passes: u64,
    /// While this node is not whole: what it lost is older than this. Known once all peers were heard, since it was found to have lost
    /// something.
    lost_before: Option<u64>,
    /// Whether a peer reported, since this process started, that it knew another data directory of this node.
    is_replacement: bool,
    opening: Opening,
    /// How far the directory was when it was opened.
    found: Reach,
    /// Whether some peer has yet to confirm that the directory was not rolled back.
    is_unverified: bool,
    regression: Option<Regression>,
    /// The newest timestamp of a write that this node acknowledged in this session.
    written: u64,
    /// What is known of the others by now.
    remembered: Vec<Memory>,
    /// The last ended session of each other node: its statements come too late, as do those of earlier ones of the same process.
    ended: Vec<u64>,
    /// The session of this process from when the next incarnation is on disk.
    next_session: u64,
    /// Which nodes have reported that they heard this session.
    has_reported: Vec<bool>,
    /// What time it was when time went by for the first time in the life of this process.
    began_ms: Option<u64>,
}

impl StabilityTracker {
    /// For a node that found this on its disk; `Err` with the incarnation to use if the directory is new.
    pub fn new(me: NodeId, nodes: usize, found: Result<Durable, Incarnation>) -> StabilityTracker {
        let persisted = match &found {
            Ok(durable) => durable.clone(),
            Err(_) => Durable::default(),
        };
        let mut next = found.unwrap_or_else(|incarnation| {
            assert!(!incarnation.is_none(), "a directory has one");
            // On its own, it has no peers that could know more.
            Durable { incarnation, is_whole: nodes == 1, ..Durable::default() }
        });
        next.met.resize(nodes, Acquaintance::default());
        next.remembered.resize(nodes, Memory::default());
        next.joining.resize(nodes, false);
        // If this node has another name than before, it hears from the others that it is new in the list.
        (next.met[me.index()], next.joining[me.index()]) = (Acquaintance::default(), false);
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
            next_session: 0,
            has_reported: vec![false; nodes],
            began_ms: None,
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
        self.next_session = first_session(opening.session);
        self.opening = Opening { session: self.next_session, ..opening };
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
        // Together with the incarnation: or what the session of before reached is held against that one.
        if self.persisted.incarnation == self.next.incarnation && self.opening.session != self.next_session {
            self.opening.session = self.next_session;
            self.has_reported.fill(false);
        }
    }

    /// The clock of this node must give timestamps only from this one on, when it starts. (What peers say about their
    /// clocks is observed like the version of a write, with its bound.)
    pub fn clock_floor(&self) -> u64 {
        self.persisted.reserved_before.max(self.persisted.write_floor)
    }

    /// This node has every older cell that any node had, or something newer, and takes none of them any more: that is on disk.
    pub const fn synced_before(&self) -> u64 {
        self.persisted.synced_before
    }

    /// Whether a timestamp may be given out: not before it is durably reserved.
    pub const fn may_give(&self, timestamp: u64) -> bool {
        timestamp < self.persisted.reserved_before
    }

    /// Whether this node may coordinate requests. One with a new directory first has to hear whether it existed before: until
    /// then it could give out a timestamp twice, or take a lost key for one that never existed. One that existed before has to
    /// hear every peer: one that is missing may know of later timestamps.
    pub fn may_coordinate(&self) -> bool {
        self.is_whole() || (self.has_lost_data() && self.has_heard_all() && self.displaced_at().is_none())
    }

    /// Whether the answers of this node count in a quorum. It refuses while it is starting: if its directory is new, or not the
    /// one that it wrote, and it has not heard yet whether it lost anything.
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

    /// Whether the files of the directory are not those that this node wrote, and a peer that may know of a later state was not
    /// heard yet.
    pub const fn is_unverified(&self) -> bool {
        self.is_unverified
    }

    /// That the directory turned out to be older than what this node acknowledged, in the life of this process.
    pub const fn regression(&self) -> Option<Regression> {
        self.regression
    }

    /// Whether the cells of this node must not be shown: some of them may have been deleted, and possibly no node knows of that
    /// any more. No quorum needs them, since answers of a node that is not whole do not count.
    pub const fn hides_cells(&self) -> bool {
        !self.is_whole() && (self.is_unverified || self.next.has_old_cells)
    }

    /// Whether a peer has all that it acknowledged, by its last report.
    pub fn is_whole_peer(&self, peer: NodeId) -> bool {
        self.heard[peer.index()].as_ref().is_some_and(|statement| statement.is_whole)
    }

    /// The same, if it reported anything since this process started.
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

    /// A version that this node may have lost and that may be newer than `version` of a client's write; none if it can vouch that
    /// it has nothing newer. It refuses if it cannot tell yet.
    ///
    /// A replica that takes a write vouches that it has nothing newer. One that lost its data might have had something newer;
    /// but whatever it had was given out or seen by some peer, so it is not after the clocks of all peers when it came back.
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

    /// Whether a hint that waits here may be delivered. One from before what this node has closed was delivered or given up before: it is
    /// back because the log removes hints by whole segments. So may be any that is from before a directory was found to be an older
    /// one. What it is about may have been deleted since, with nobody left who knows of the deletion.
    pub fn may_deliver(&self, version: Version) -> bool {
        let may_be_old = |lost_before| version.timestamp <= lost_before;
        self.may_hint(version) && !(self.hides_cells() && self.lost_before.is_none_or(may_be_old))
    }

    /// While this node is not whole, and when it becomes so: what it lost is older than this. Known once all peers were heard.
    pub const fn lost_before(&self) -> Option<u64> {
        self.lost_before
    }

    /// What this node reports about itself, with its version clock at `clock` and its wall clock at `wall_ms`.
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

    /// The peers that it has met, as far as that is on disk: a peer relies on it. That a peer's directory replaced another one
    /// is no promise, and is reported at once: otherwise the peer could be taken for new in between.
    fn said_of_peers(&self) -> Vec<Acquaintance> {
        let on_disk = self.persisted.met.iter().copied().chain(iter::repeat(Acquaintance::default()));
        let said = |(next, on_disk): (&Acquaintance, Acquaintance)| {
            if next.is_replacement { *next } else { on_disk }
        };
        self.next.met.iter().zip(on_disk).map(said).collect()
    }

    /// The incarnation of a node, as this one has met it: this one's own, or a peer's.
    pub fn incarnation_of(&self, node: NodeId) -> Incarnation {
        if node == self.me { self.next.incarnation } else { self.next.met[node.index()].incarnation }
    }

    /// Whether one of these nodes has lost its disk since somebody had met these incarnations of them, as this node knows. Whom
    /// nobody had met has not promised anything to who asked.
    pub fn has_met_later(&self, nodes: &[NodeId], met: &[Incarnation]) -> bool {
        let mut each = nodes.iter().zip(met).filter(|(_, met)| !met.is_none());
        each.any(|(&node, &met)| self.incarnation_of(node).comes_after(met))
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

    /// Time went by: the clock of versions is at `clock`, and it is `time_ms` by a majority of the nodes. `oldest_hint` is the oldest
    /// version among the hints that wait here.
    pub fn tick(&mut self, clock: u64, time_ms: u64, oldest_hint: Option<u64>) {
        if let Some(closable) = self.closable(clock, oldest_hint) {
            self.next.write_floor = self.next.write_floor.max(closable);
        }
        let clock_ms = HybridClock::wall_ms(clock);
        let ran_ms = time_ms.saturating_sub(*self.began_ms.get_or_insert(time_ms));
        let ahead_ms = (ran_ms / 10).clamp(*RESERVE_AHEAD_MS.start(), *RESERVE_AHEAD_MS.end());
        let reserve = HybridClock::at_wall_ms((time_ms + RESERVE_MS).max(clock_ms + ahead_ms));
        if clock + (reserve - clock) / 2 >= self.next.reserved_before {
            self.next.reserved_before = reserve;
            // On this occasion, since that is written anyway.
            self.next.remembered.clone_from(&self.remembered);
        }
    }

    /// The new write floor. Never ahead of any peer's clock: otherwise a node whose clock is a year ahead would refuse every
    /// write for a year.
    fn closable(&self, clock: u64, oldest_hint: Option<u64>) -> Option<u64> {
        let mut earliest = clock;
        for peer in self.peers() {
            earliest = earliest.min(self.heard[peer.index()].as_ref()?.clock);
        }
        let behind = HybridClock::at_wall_ms(HybridClock::wall_ms(earliest).saturating_sub(SETTLE_MS));
        Some(window_start(behind.min(oldest_hint.unwrap_or(u64::MAX))))
    }

    fn peers(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        (0..self.heard.len() as u16).map(NodeId).filter(move |&node| node != me)
    }

    fn has_heard_all(&self) -> bool {
        self.peers().all(|peer| self.heard[peer.index()].is_some())
    }

    /// Whether this node has all that it acknowledged, for all that it knows.
    const fn has_all(&self) -> bool {
        self.persisted.is_whole && self.next.is_whole
    }

    fn becomes_whole(&mut self) {
        (self.next.is_whole, self.next.has_old_cells, self.next.relisting) = (true, false, Relisting::Done);
    }

    /// Whether peers have to wait with their rebuilds: this node has what it should hold by the list of nodes before this one, and
    /// may still lack something that another one acknowledged. Once no node does, and not before, the answers of those that are new
    /// in the list may count: then any majority of the longer list has one that has it. Or what it has may have been deleted.
    pub fn holds_up_rebuilds(&self) -> bool {
        self.is_outdated() || self.next.relisting == Relisting::Pulls && self.has_all()
    }

    /// Whether this directory is of no use any more: see [`Relisting::Outdated`].
    pub fn is_outdated(&self) -> bool {
        self.next.relisting == Relisting::Outdated
    }

    /// While some nodes are new in the list and have not copied the data of the others yet: peers are told of all that they should
    /// hold, also of what this node should not, because it was to hold that by the list before this one; and of all cells that are
    /// for at least so many nodes.
    pub fn tells_of_all(&self) -> Option<u8> {
        self.next.joining.contains(&true).then_some(self.next.copies_of_all)
    }

    /// Whether what is to be pulled is looked for in lists of everything. Trees are over what two nodes both hold, and say nothing of
    /// what one of them held by another list of nodes.
    pub fn lists_all(&self) -> bool {
        self.next.relisting == Relisting::Pulls
    }
}

#[cfg(test)]
mod tests;
