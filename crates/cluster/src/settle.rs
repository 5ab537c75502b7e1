//! What is settled: which node lost its data, up to when everybody has everything, which tombstones may go.
//!
//! Each node says two things about time, both durable before they are said, neither of them ever taken back:
//!
//! - `closed_before`: it takes no client's write with an older version any more, and keeps no older hint;
//! - `complete_before`: it has everything older that any node had, or something newer, and takes nothing older at all.
//!
//! A node becomes complete before `S` by pulling from every peer, after each of them has closed `S`: what no client
//! can add to any more and everybody has been asked for is all there is. Once all nodes are complete before `S`, every
//! replica has each tombstone before `S`, no node has, keeps or takes anything older than it, and it may go.

use ladoga_model::{HybridClock, Version};

use crate::failure::Refusal;
use crate::messages::Origin;
use crate::nodes::NodeId;
use crate::tree::window_start;

/// How far behind its clock a node closes: longer than a request may be under way, on clocks half a minute off.
pub const SETTLE_MS: u64 = 60_000;
/// How far ahead of its clock a node durably reserves timestamps, so that it never gives out one twice, even if its
/// clock jumps back while it is down.
pub const RESERVE_MS: u64 = 10_000;
/// The same where its clock is that far ahead of the time already. It is after each restart, since it begins after all
/// that it had reserved: restarts in a row must not add up to a clock that the others refuse.
const RESERVE_AHEAD_MS: u64 = 1_000;

/// What a node knows of another one's data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acquaintance {
    /// Its incarnation; 0 where it has never been met.
    pub incarnation: u64,
    /// Whether it had another one before: the data of that one are lost.
    pub is_replacement: bool,
}

/// What a node says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statement {
    /// Names the data directory: given once, at random, when it is created; never 0.
    pub incarnation: u64,
    /// No client's write before this is taken, no hint before it is kept.
    pub closed_before: u64,
    /// Everything before this is there, and nothing before it is taken.
    pub complete_before: u64,
    /// Whether it has all that it acknowledged.
    pub is_whole: bool,
    /// Its clock.
    pub clock: u64,
    /// Whom it has met, by node.
    pub met: Vec<Acquaintance>,
}

/// What a node must not forget; kept by the driver in one small file, replaced as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Durable {
    /// As in [`Statement`].
    pub incarnation: u64,
    /// As in [`Statement`].
    pub closed_before: u64,
    /// As in [`Statement`].
    pub complete_before: u64,
    /// As in [`Statement`].
    pub is_whole: bool,
    /// Timestamps before this may have been given out.
    pub reserved_before: u64,
    /// As in [`Statement`].
    pub met: Vec<Acquaintance>,
}

/// Whom to pull from, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Counts the passes, so that what is late is known.
    pub number: u64,
    /// Cells before this; `u64::MAX` where everything was lost.
    pub before: u64,
    /// Peers that are still to be pulled from.
    pub peers: Vec<NodeId>,
}

/// What a node knows about what is settled.
///
/// The driver keeps [`Settlement::durable`] on disk: whenever [`Settlement::is_dirty`], it takes it, waits until every
/// write that was admitted so far is applied or has failed, writes it, and says so with [`Settlement::persisted`]. What
/// is to be refused is refused at once; what is promised to others is promised only when it is persisted.
#[derive(Debug)]
pub struct Settlement {
    me: NodeId,
    next: Durable,
    persisted: Durable,
    /// What the peers said in the life of this process.
    heard: Vec<Option<Statement>>,
    pass: Option<Pass>,
    passes: u64,
    /// While this node is not whole: what it lost is older than this. Known once all peers were heard.
    lost_before: Option<u64>,
}

impl Settlement {
    /// A node that found this on its disk; `None` where the directory is new, with the incarnation to give it.
    pub fn new(me: NodeId, nodes: usize, found: Result<Durable, u64>) -> Settlement {
        let persisted = match &found {
            Ok(durable) => durable.clone(),
            Err(_) => Durable::default(),
        };
        let mut next = found.unwrap_or_else(|incarnation| {
            assert_ne!(incarnation, 0, "0 means none");
            // Alone, there is nobody who could know more.
            Durable { incarnation, is_whole: nodes == 1, ..Durable::default() }
        });
        next.met.resize(nodes, Acquaintance::default());
        Settlement { me, next, persisted, heard: vec![None; nodes], pass: None, passes: 0, lost_before: None }
    }

    /// What is to be on disk.
    pub const fn durable(&self) -> &Durable {
        &self.next
    }

    /// Whether [`Settlement::durable`] has to be written.
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
        self.persisted.reserved_before.max(self.persisted.closed_before)
    }

    /// Whether a timestamp may be given out: not before it is durably reserved.
    pub const fn may_give(&self, timestamp: u64) -> bool {
        timestamp < self.persisted.reserved_before
    }

    /// Whether this node may coordinate requests. One with a new directory first has to hear whether it was here before:
    /// until then it could give out a timestamp again, or take a lost key for one that never was.
    pub fn may_coordinate(&self) -> bool {
        self.persisted.is_whole || self.peers().all(|peer| self.heard[peer.index()].is_some())
    }

    /// Whether this node has all that it acknowledged, and its answers count.
    pub const fn is_whole(&self) -> bool {
        self.persisted.is_whole
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
        !self.persisted.is_whole && self.known().any(|met| met.is_replacement)
    }

    /// Whether a cell may be written here.
    pub fn admit(&self, version: Version, origin: Origin) -> Result<(), Refusal> {
        let closed_before = match origin {
            Origin::Client => self.next.closed_before.max(self.next.complete_before),
            Origin::Hint | Origin::Repair | Origin::Exchange => self.next.complete_before,
        };
        if version.timestamp < closed_before { Err(Refusal::TooOld { closed_before }) } else { Ok(()) }
    }

    /// What a client's write that this node takes may be older than, for all that it knows: a timestamp, where the
    /// version is not after it. It refuses where it cannot say yet.
    ///
    /// A replica that takes a write vouches that it has nothing newer. One that lost its data could have had; but what it
    /// had, a peer gave out or has seen, so it is not after the clocks of all peers when it came back.
    pub fn doubt(&self, version: Version) -> Result<Option<Version>, Refusal> {
        if self.persisted.is_whole {
            return Ok(None);
        }
        let lost_before = self.lost_before.ok_or(Refusal::Rebuilding)?;
        Ok((version.timestamp <= lost_before).then_some(Version { timestamp: lost_before, node: u16::MAX }))
    }

    /// Whether a hint with this version may be kept: not before what this node has closed.
    pub const fn may_hint(&self, version: Version) -> bool {
        version.timestamp >= self.next.closed_before
    }

    /// What this node says about itself.
    pub fn statement(&self, clock: u64) -> Statement {
        let Durable { incarnation, closed_before, complete_before, is_whole, met, .. } =
            self.persisted.clone();
        Statement { incarnation, closed_before, complete_before, is_whole, clock, met }
    }

    /// A peer said this about itself, on a connection that is not older than one on which it said something before.
    pub fn heard(&mut self, peer: NodeId, statement: Statement) {
        let met = &mut self.next.met[peer.index()];
        if met.incarnation != statement.incarnation && statement.incarnation != 0 {
            let is_replacement = met.incarnation != 0;
            *met = Acquaintance { incarnation: statement.incarnation, is_replacement };
            // What was pulled from it may be what it has lost.
            self.pass = None;
        }
        self.heard[peer.index()] = Some(statement);
        if self.lost_before.is_none() && self.peers().all(|peer| self.heard[peer.index()].is_some()) {
            self.lost_before = self.heard.iter().flatten().map(|statement| statement.clock).max();
        }
        self.maybe_recognize_newness();
    }

    /// Time went by: the clock of versions is at `clock`, that of the machine at `wall_ms`. `oldest_hint` is the oldest
    /// version among the hints that wait here.
    pub fn tick(&mut self, clock: u64, wall_ms: u64, oldest_hint: Option<u64>) {
        if let Some(closable) = self.closable(clock, oldest_hint) {
            self.next.closed_before = self.next.closed_before.max(closable);
        }
        let clock_ms = HybridClock::wall_ms(clock);
        let reserve = HybridClock::at_wall_ms((wall_ms + RESERVE_MS).max(clock_ms + RESERVE_AHEAD_MS));
        if clock + (reserve - clock) / 2 >= self.next.reserved_before {
            self.next.reserved_before = reserve;
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
    pub fn pass(&mut self) -> Option<&Pass> {
        if self.pass.is_none() {
            let before = if self.persisted.is_whole { self.common_closed()? } else { self.whole_again()? };
            self.passes += 1;
            let peers = self.peers().collect();
            self.pass = Some(Pass { number: self.passes, before, peers });
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
            self.next.is_whole = true;
        } else {
            self.next.complete_before = self.next.complete_before.max(before);
        }
    }

    /// This pass cannot be made any more; the next one is another.
    pub fn abandon(&mut self, number: u64) {
        self.pass.take_if(|pass| pass.number == number);
    }

    /// Every replica has all tombstones before this, or something newer, and nobody takes anything older.
    pub fn droppable_before(&self) -> u64 {
        let heard = self
            .peers()
            .map(|peer| self.heard[peer.index()].as_ref().map_or(0, |statement| statement.complete_before));
        heard.min().unwrap_or(u64::MAX).min(self.persisted.complete_before)
    }

    fn peers(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.me;
        (0..self.heard.len() as u16).map(NodeId).filter(move |&node| node != me)
    }

    /// Up to when all nodes have closed, where that is news.
    fn common_closed(&self) -> Option<u64> {
        let mut common = self.persisted.closed_before;
        for peer in self.peers() {
            common = common.min(self.heard[peer.index()].as_ref()?.closed_before);
        }
        (common > self.persisted.complete_before).then_some(common)
    }

    /// What a node that lost its data has to pull, once everybody is there.
    fn whole_again(&self) -> Option<u64> {
        self.peers().all(|peer| self.heard[peer.index()].is_some()).then_some(u64::MAX)
    }

    /// What the peers said that they know of this node.
    fn known(&self) -> impl Iterator<Item = Acquaintance> {
        let about_me =
            |statement: &Statement| statement.met.get(self.me.index()).copied().unwrap_or_default();
        self.heard.iter().flatten().map(about_me)
    }

    /// A directory is new, and has lost nothing, if a majority knows it and none of them knew another one before.
    fn maybe_recognize_newness(&mut self) {
        if self.next.is_whole {
            return;
        }
        let known: Vec<Acquaintance> = self.known().collect();
        let mine = |met: &&Acquaintance| met.incarnation == self.persisted.incarnation && !met.is_replacement;
        let is_majority = known.iter().filter(mine).count() + 1 > self.heard.len() / 2;
        let was_here = known.iter().any(|met| met.is_replacement);
        if is_majority && !was_here && self.persisted.incarnation != 0 {
            self.next.is_whole = true;
        }
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
