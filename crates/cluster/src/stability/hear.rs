//! What a node learns from its peers' statements: whom they have met, and whether its own directory was rolled back, or is new.

use super::StabilityTracker;
use crate::durable::{Durable, Relisting};
use crate::nodes::NodeId;
use crate::reach::{Memory, Regression, is_earlier_session, next_session};
use crate::statement::{Acquaintance, Statement};

impl StabilityTracker {
    /// A peer's statement about itself, on a connection that is not older than that of its last statement. Its clock is no
    /// further ahead than a version that this node accepts: see [`crate::PeerClocks`].
    pub fn heard(&mut self, peer: NodeId, mut statement: Statement) {
        let Statement { incarnation, session, reach, .. } = statement;
        let index = peer.index();
        if self.is_over(peer, session) {
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
        // It has copied what it was to hold, if it was new in the list.
        self.next.joining[index] &= !statement.is_whole;
        let session_before = self.remembered[index].session;
        if self.remembered[index].hear(session, reach) {
            self.ended[index] = session_before;
            self.next.remembered.clone_from(&self.remembered);
        }
        let session_of_me = statement.remembered.get(self.me.index()).map_or(0, |memory| memory.session);
        self.has_reported[index] |= session_of_me == self.opening.session;
        let was_whole = self.is_whole_peer(peer);
        if was_whole && !statement.is_whole {
            // What is pulled from it from now on may be what was deleted, and others may have been asked before.
            self.pass = None;
        }
        self.heard[index] = Some(statement);
        self.maybe_regress(peer);
        let knew_another = self.known().any(|met| self.is_of_another(met));
        self.is_replacement |= knew_another;
        self.is_unverified &= !self.has_heard_all();
        if self.lost_before.is_none() && self.has_heard_all() && self.is_what_is_lost_over() {
            self.lost_before = self.heard.iter().flatten().map(|statement| statement.clock).max();
        }
        self.maybe_recognize_newness();
    }

    /// Whether nothing is added any more to what this node lacks. Another process that ran as this node may acknowledge writes until its
    /// peers know the incarnation that this one took then, and with it its session.
    fn is_what_is_lost_over(&self) -> bool {
        self.regression.is_none() || self.known().all(|met| met.incarnation == self.next.incarnation)
    }

    /// Whether a peer's session is one that has ended: what it says comes too late.
    fn is_over(&self, peer: NodeId, session: u64) -> bool {
        let (ended, last) = (self.ended[peer.index()], self.remembered[peer.index()].session);
        session != 0
            && (session == ended || is_earlier_session(session, ended) || is_earlier_session(session, last))
    }

    /// Checks whether a peer remembers this node's directory further than it was found, or has met a later one: then what came
    /// after is lost. The cells that are here stay, as a beginning, under another incarnation.
    fn maybe_regress(&mut self, peer: NodeId) {
        let Some(statement) = &self.heard[peer.index()] else { return };
        let (met, memory) = (statement.met.get(self.me.index()), statement.remembered.get(self.me.index()));
        let Some(&Acquaintance { incarnation: met, .. }) = met else { return };
        let known = memory.copied().unwrap_or_default().before(self.opening.session);
        let is_same = met == self.persisted.incarnation && met == self.next.incarnation;
        // An incarnation that began in this session cannot have been further before it, whatever a peer reports.
        let is_further = is_same && self.regression.is_none() && known.is_beyond(self.found);
        if !is_further && !met.supersedes(self.next.incarnation) {
            return;
        }
        // One that is new, or is being rebuilt, only takes another name.
        let had_all = is_further || self.next.is_whole;
        if !had_all && self.is_unheard_by(peer) {
            // It does not hear that name. If another process runs as this node, the two would rename themselves for ever.
            return;
        }
        let comes_back =
            !is_further && self.opening.random_of_list.is_some_and(|random| met.has_random(random));
        let relisting = match self.next.relisting {
            _ if had_all && comes_back => Relisting::Outdated,
            // It may have been in another list, or in none, and trees say nothing of what it should not have held there.
            before if !is_further && met.has_joined() => before.and_pulls(),
            before => before,
        };
        if had_all {
            let is_by_another_process = self.is_displaced_at(peer);
            let found = self.found;
            self.regression = Some(Regression { peer, known, found, is_by_another_process });
            // What it may have lost is newer than all that was heard when this process started.
            self.lost_before = None;
        }
        if self.next.is_whole {
            // If another process ran as this node, peers take the one that went on for a session that has ended. (It is whole once
            // more before it does this again: so of two that go on, one stays.)
            self.next_session = next_session(self.next_session);
        }
        self.next = Durable {
            incarnation: met.next(self.opening.random),
            is_whole: false,
            has_old_cells: self.next.has_old_cells || had_all || self.opening.written > 0,
            relisting,
            // If a sync was left to the system, what was pulled may not be on the disk.
            synced_before: 0,
            // What was given out is not given out again.
            reserved_before: self.next.reserved_before.max(known.reserved),
            ..self.next.clone()
        };
        self.pass = None;
    }

    /// Whether a peer, by its last report, hears no statement of this process: not yet, or another process as this node instead.
    fn is_unheard_by(&self, peer: NodeId) -> bool {
        let memory = |statement: &Statement| statement.remembered.get(self.me.index()).copied();
        let memory = self.heard[peer.index()].as_ref().and_then(memory).unwrap_or_default();
        memory.session != 0 && memory.session != self.opening.session
    }

    fn is_displaced_at(&self, peer: NodeId) -> bool {
        self.has_reported[peer.index()] && self.is_unheard_by(peer)
    }

    /// A peer that heard this process, and hears another one as this node since. (For a moment also one whose reports arrive in
    /// another order.)
    pub fn displaced_at(&self) -> Option<NodeId> {
        self.peers().find(|&peer| self.is_displaced_at(peer))
    }

    /// What the peers said that they know of this node.
    pub(super) fn known(&self) -> impl Iterator<Item = Acquaintance> {
        let about_me =
            |statement: &Statement| statement.met.get(self.me.index()).copied().unwrap_or_default();
        self.heard.iter().flatten().map(about_me)
    }

    /// Whether a peer has met another data directory of this node; it need not have heard of this one yet.
    fn is_of_another(&self, met: Acquaintance) -> bool {
        met.is_replacement || (!met.incarnation.is_none() && met.incarnation != self.next.incarnation)
    }

    /// A directory is new, and has lost nothing, if no peer knew another one before: either all of them say so, or a majority
    /// that knows this one by now.
    fn maybe_recognize_newness(&mut self) {
        if self.next.is_whole || self.is_replacement || self.persisted.incarnation.is_none() {
            return;
        }
        let is_mine = |met: &Acquaintance| met.incarnation == self.persisted.incarnation;
        let is_known = self.known().filter(is_mine).count() + 1 > self.heard.len() / 2;
        // (A peer without an incarnation has not read its own disk yet, or has not written it.)
        let has_said =
            |peer: NodeId| self.heard[peer.index()].as_ref().is_some_and(|it| !it.incarnation.is_none());
        if is_known || self.peers().all(has_said) {
            self.becomes_whole();
        }
    }
}
