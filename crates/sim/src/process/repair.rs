//! What goes on beside requests: hints, and pulling from peers.

use std::collections::VecDeque;

use ladoga_cluster::{
    Cell, Content, Failure, Hint, HintStep, NodeId, Origin, PullFailure, PullStep, Refusal, Request,
    Response, SyncSession,
};

use super::{Asked, Effect, Process, Pulling, Timer};
use crate::checker::Key;
use crate::keep::KeptHint;

/// Steps in which a tree is compared, before something else may happen; and what passes until the next ones.
const COMPARISONS_AT_ONCE: usize = 16;
const COMPARE_MS: u64 = 1;

impl Process {
    pub(super) fn recover_hints(&mut self) -> Result<(), String> {
        let kept_at_ms = self.replica.monotonic_ms();
        for peer in 0..self.nodes {
            for (number, hint) in self.replica.keep.hints(peer).map_err(|error| error.to_string())? {
                let timestamp = hint.cell.stamp.version.timestamp;
                self.hints[peer].recovered(Hint { number, bytes: 1, timestamp, kept_at_ms });
                self.kept.insert((peer, number), hint);
            }
        }
        Ok(())
    }

    pub(super) fn keep_hint(&mut self, node: NodeId, hint: KeptHint) {
        let version = hint.cell.stamp.version;
        let queue = &mut self.hints[node.index()];
        if node == self.replica.me || !self.replica.tracker.may_hint(version) || !queue.admit(1) {
            return;
        }
        let number = queue.next_number();
        if self.replica.keep.keep_hint(node.index(), number, &hint).is_err() {
            return; // Anti-entropy has it.
        }
        self.kept.insert((node.index(), number), hint);
        let mut steps = Vec::new();
        self.hints[node.index()]
            .kept(1, version.timestamp, self.replica.monotonic_ms(), |step| steps.push(step));
        self.execute_hints(node, steps);
    }

    pub(super) fn execute_hints(&mut self, peer: NodeId, steps: Vec<HintStep>) {
        for step in steps {
            match step {
                HintStep::Deliver(number) => {
                    let Some(KeptHint { key, cell }) = self.kept.get(&(peer.index(), number)).cloned() else {
                        continue;
                    };
                    if cell.content == Content::Digest {
                        self.refresh(peer, number, KeptHint { key, cell });
                        continue;
                    }
                    let request = Request::Write { key, cell, origin: Origin::Hint };
                    self.ask(peer, request, Asked::Hint { peer, number });
                }
                HintStep::Forget(last) => {
                    let peer = peer.index();
                    let gone: Vec<u64> =
                        self.kept.range((peer, 0)..=(peer, last)).map(|(key, _)| key.1).collect();
                    for number in gone {
                        self.kept.remove(&(peer, number));
                        // One that comes back after a crash is delivered again, which changes nothing.
                        let _ = self.replica.keep.forget_hint(peer, number);
                    }
                }
            }
        }
    }

    pub(super) fn hint_answered(
        &mut self,
        peer: NodeId,
        number: u64,
        answer: &Result<Response<Key>, Failure>,
    ) {
        let arrived = matches!(answer, Ok(_) | Err(Failure::Refused(Refusal::TooOld { .. })));
        self.hint_settled(peer, number, arrived);
    }

    /// A peer has what a hint is about, or it is not known that it has.
    pub(super) fn hint_settled(&mut self, peer: NodeId, number: u64, arrived: bool) {
        let queue = &mut self.hints[peer.index()];
        if arrived {
            let mut steps = Vec::new();
            queue.delivered(number, |step| steps.push(step));
            self.execute_hints(peer, steps);
        } else {
            queue.peer_is_down();
        }
    }

    pub(super) fn maybe_pull(&mut self) {
        if self.pulling.is_some() {
            return;
        }
        let Some(pass) = self.replica.tracker.pass() else { return };
        let (number, before, peer) = (pass.number, pass.before, pass.peers[0]);
        let id = self.next;
        self.next += 1;
        let mut steps = VecDeque::new();
        let pull = SyncSession::new(peer, before, &self.replica.tree, |step| steps.push_back(step));
        let pull = pull.pruning(self.replica.tracker.prune_before(peer));
        self.pulling = Some(Pulling { id, pass: number, pull });
        self.execute_pull(steps);
    }

    pub(super) fn pull_answered(&mut self, id: u64, number: u64, answer: Result<Response<Key>, Failure>) {
        let Some(pulling) = self.pulling.as_mut().filter(|pulling| pulling.id == id) else { return };
        let mut steps = VecDeque::new();
        match answer {
            Ok(response) => {
                let tree = &self.replica.tree;
                pulling.pull.answered(number, response, tree, |step| steps.push_back(step));
            }
            Err(Failure::Refused(refusal)) => {
                let tree = &self.replica.tree;
                let response = Response::Refused(refusal);
                pulling.pull.answered(number, response, tree, |step| steps.push_back(step));
            }
            // Another try comes with another tick.
            Err(_) => self.pulling = None,
        }
        self.execute_pull(steps);
    }

    fn execute_pull(&mut self, mut steps: VecDeque<PullStep<Key>>) {
        while let Some(step) = steps.pop_front() {
            let Some(Pulling { id, pass, pull }) = self.pulling.as_mut() else { return };
            let (id, pass, peer) = (*id, *pass, pull.peer());
            match step {
                // The rest of the tree another time, so that writes come between.
                PullStep::Compare => {
                    self.effects.push(Effect::Timer(COMPARE_MS, Timer::Compare(id)));
                }
                PullStep::Ask(number, request) => {
                    self.ask(peer, request, Asked::SyncSession { pull: id, number });
                }
                PullStep::Look(key) => match self.replica.get(&key) {
                    Ok(found) => {
                        let version = found.map(|cell| cell.stamp.version);
                        pull.found(&key, version, |step| steps.push_back(step));
                    }
                    Err(_) => self.pulling = None,
                },
                PullStep::Apply(key, cell) => {
                    let applied = self.apply_pulled(&key, &cell);
                    let Some(Pulling { pull, .. }) = self.pulling.as_mut() else { return };
                    pull.applied(&key, applied, |step| steps.push_back(step));
                }
                PullStep::Prune(prune) => {
                    let pruned = self.replica.prune(peer, &prune);
                    let Some(Pulling { pull, .. }) = self.pulling.as_mut() else { return };
                    pull.pruned(pruned, |step| steps.push_back(step));
                }
                PullStep::Done => {
                    self.pulling = None;
                    self.replica.tracker.pulled(pass, peer);
                    self.replica.maybe_persist();
                }
                PullStep::Failed(failure) => {
                    self.pulling = None;
                    if let PullFailure::NotToldApart { at } = failure {
                        self.replica.fill_anew(at);
                    }
                    if matches!(failure, PullFailure::TooLate | PullFailure::Refused(Refusal::OverCapacity)) {
                        self.replica.tracker.abandon(pass);
                    }
                }
            }
        }
    }

    /// Parts of the tree are compared.
    pub(super) fn compare(&mut self, id: u64) {
        let Some(pulling) = self.pulling.as_mut().filter(|pulling| pulling.id == id) else { return };
        let mut steps = VecDeque::from([PullStep::Compare]);
        for _ in 0..COMPARISONS_AT_ONCE {
            if steps.pop_front_if(|step| *step == PullStep::Compare).is_none() {
                break;
            }
            pulling.pull.compare(&self.replica.tree, |step| steps.push_back(step));
        }
        self.execute_pull(steps);
    }

    fn apply_pulled(&mut self, key: &Key, cell: &Cell<Vec<u8>>) -> Result<(), Refusal> {
        self.replica.apply(key, cell, Origin::Exchange).map(|_| ())
    }
}
