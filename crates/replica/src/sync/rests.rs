//! What pulls that broke off can go on with.

use std::collections::BTreeMap;

use bytes::Bytes;
use ladoga_cluster::{NodeId, SyncSession};

use super::pull::NotPulled;

/// By peer, of the pass that is under way: a pass ends if one of its peers is not what it was any more.
#[derive(Default)]
pub(super) struct Rests {
    pass: u64,
    of_peers: BTreeMap<NodeId, Box<SyncSession<Bytes>>>,
}

impl Rests {
    /// What is left of the pull from a peer in a pass.
    pub(super) fn take(&mut self, pass: u64, peer: NodeId) -> Option<Box<SyncSession<Bytes>>> {
        if pass == self.pass { self.of_peers.remove(&peer) } else { None }
    }

    /// Keeps what is left of one that broke off.
    pub(super) fn keep(&mut self, pass: u64, peer: NodeId, mut why: NotPulled) -> NotPulled {
        if pass != self.pass {
            (self.pass, self.of_peers) = (pass, BTreeMap::new());
        }
        self.of_peers.extend(why.rest.take().map(|rest| (peer, rest)));
        why
    }
}
