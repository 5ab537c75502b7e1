//! Rounds of sync: whom a node pulls from, and what all of them have by that.

use super::StabilityTracker;
use crate::durable::Relisting;
use crate::incarnation::Incarnation;
use crate::nodes::NodeId;
use crate::statement::Acquaintance;

/// Whom to pull from, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncRound {
    /// Counts the rounds, so that late answers are recognized.
    pub number: u64,
    /// Cells before this; `u64::MAX` if everything was lost.
    pub before: u64,
    /// Whether peers are asked for lists of everything, and no trees are compared.
    pub lists_all: bool,
    /// Whether this node, or a peer when the round began, may have what was deleted while it was not there to know: what a whole peer does
    /// not have is looked for.
    pub prunes: bool,
    /// Peers that are still to be pulled from.
    pub peers: Vec<NodeId>,
}

impl SyncRound {
    /// Whether everything is to be pulled: this node lost its data, or has what it should hold by another list of nodes. What one peer told of
    /// then stays told, whatever another one does.
    pub const fn is_of_everything(&self) -> bool {
        self.before == u64::MAX
    }
}

impl StabilityTracker {
    /// The pass that is to be made now, if there is one: the one under way, or the next.
    pub fn pass(&mut self) -> Option<&SyncRound> {
        if self.pass.is_none() {
            let before = if !self.has_all() {
                self.whole_again()?
            } else if self.next.relisting == Relisting::Pulls {
                self.all_of_other_lists()?
            } else {
                self.common_closed()?
            };
            self.passes += 1;
            let may_be_old = self.next.has_old_cells || !self.are_peers_whole();
            let (lists_all, prunes) = (self.lists_all(), may_be_old && !self.has_all());
            let mut peers: Vec<NodeId> = self.peers().collect();
            // Whole peers come last: what they do not have was deleted, whichever peer had it before. Or they come first: an outdated one
            // refuses.
            peers.sort_by_key(|&peer| self.is_whole_peer(peer) == prunes);
            self.pass = Some(SyncRound { number: self.passes, before, lists_all, prunes, peers });
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
        let (before, is_of_everything) = (pass.before, pass.is_of_everything());
        self.pass = None;
        if is_of_everything {
            self.becomes_whole();
        } else {
            self.next.synced_before = self.next.synced_before.max(before);
        }
    }

    /// Values from before this timestamp that a peer should hold and does not have were deleted; 0 if they are not to be looked
    /// for in the round under way. That is so for all of a round: a peer that was not whole when its cells were taken may be so by now.
    pub fn prune_before(&self, peer: NodeId) -> u64 {
        if !self.pass.as_ref().is_some_and(|pass| pass.prunes) {
            return 0;
        }
        let known = self.heard[peer.index()].as_ref().filter(|statement| statement.is_whole);
        known.map_or(0, |known| known.synced_before)
    }

    /// Whether a peer has to wait with what it wants to pull. Of an outdated directory everybody waits: even one that has all that it
    /// acknowledged would take for missing here what it deleted.
    pub fn holds_up_pulls_of(&self, peer: NodeId) -> bool {
        self.is_outdated() || self.holds_up_rebuilds() && !self.is_whole_peer(peer)
    }

    fn are_peers_whole(&self) -> bool {
        self.peers().all(|peer| self.is_whole_peer(peer))
    }

    /// This pass cannot be made any more; the next one is another.
    pub fn abandon(&mut self, number: u64) {
        self.pass.take_if(|pass| pass.number == number);
    }

    /// Every replica has all tombstones from before this, or something newer, and no node takes anything older.
    pub fn droppable_before(&self) -> u64 {
        let heard = self
            .peers()
            .map(|peer| self.heard[peer.index()].as_ref().map_or(0, |statement| statement.synced_before));
        heard.min().unwrap_or(u64::MAX).min(self.persisted.synced_before)
    }

    /// The lowest write floor of all nodes, if it is newer than what is synced. None while a peer is not whole: it may have what was
    /// deleted, and lack what it acknowledged. (Nothing waits for that longer than for the peer, which is synced last.)
    fn common_closed(&self) -> Option<u64> {
        let mut common = self.persisted.write_floor;
        for peer in self.peers() {
            let whole = self.heard[peer.index()].as_ref().filter(|statement| statement.is_whole);
            common = common.min(whole?.write_floor);
        }
        (common > self.persisted.synced_before).then_some(common)
    }

    /// What a node that has all by an earlier list of nodes has to pull: everything, once all others are there. They take part in no
    /// request of that list any more, so what was acknowledged by it is there, on some of them. (It does not wait for write floors:
    /// these wait for hints, some of which are not delivered before the answers of all nodes count.)
    fn all_of_other_lists(&self) -> Option<u64> {
        (self.has_heard_all() && self.are_peers_aware()).then_some(u64::MAX)
    }

    /// What a node that lost its data has to pull, once everybody is there, and knows that it lost them: who counts on a
    /// promise that it gave before is refused from then on, whatever it pulls.
    fn whole_again(&self) -> Option<u64> {
        let knows = |met: Acquaintance| met.incarnation == self.next.incarnation;
        // (While the disk does not say yet that it is whole, nothing is left to be pulled.)
        let is_to_be_rebuilt = !self.next.is_whole && !self.is_outdated();
        let has_met_all = self.has_heard_all() && self.known().all(knows) && self.are_peers_aware();
        (is_to_be_rebuilt && has_met_all).then_some(u64::MAX)
    }

    /// Whether each peer that was heard knows what all others know of its directory. One that has yet to hear that its own is an older
    /// one would tell of what was deleted.
    fn are_peers_aware(&self) -> bool {
        let is_aware = |peer: NodeId, incarnation: Incarnation| {
            let said = self.heard.iter().flatten().filter_map(|statement| statement.met.get(peer.index()));
            let mut known = said.map(|met| met.incarnation).chain([self.incarnation_of(peer)]);
            !known.any(|known| known.supersedes(incarnation))
        };
        let said = |peer: NodeId| self.heard[peer.index()].as_ref().map(|statement| statement.incarnation);
        self.peers().all(|peer| said(peer).is_none_or(|incarnation| is_aware(peer, incarnation)))
    }
}
