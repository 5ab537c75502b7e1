use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ladoga_cluster::{NodeId, NodeList, Placement};
use ladoga_env::Env;
use ladoga_model::HybridClock;
use parking_lot::Mutex;

use super::durable;
use super::exchange::ExchangeView;
use super::hints::HintKeeper;
use super::kept::Kept;
use super::limits::{Membership, PeerLimits};
use super::name::PeerName;
use super::pace::Pace;
use super::settled::Settled;
use super::settler::Settler;
use super::wire::{Hello, PROTOCOL_VERSION};
use crate::coordinate::CopyTurns;
use crate::versions::VersionClock;
use crate::vital::Vital;

/// The cluster as this node sees it: shared by all its event loops, which only count and note here.
pub(crate) struct Cluster {
    pub(crate) nodes: NodeList,
    pub(crate) own: NodeId,
    pub(crate) placement: Arc<Placement>,
    pub(crate) limits: PeerLimits,
    /// By number; the entry of this node is there and not used.
    pub(crate) peers: Vec<Arc<PeerView>>,
    /// Writes that are kept for peers; once the data directory is open, as what follows.
    pub(crate) hints: OnceLock<HintKeeper>,
    pub(crate) settled: OnceLock<Arc<Settled>>,
    settler: OnceLock<Settler>,
    pub(crate) exchange: ExchangeView,
    pub(crate) pace: Pace,
    pub(crate) copy_turns: Arc<CopyTurns>,
}

/// What a node knows about a peer.
#[derive(Debug)]
pub(crate) struct PeerView {
    pub(crate) id: NodeId,
    pub(crate) url: String,
    pub(super) name: PeerName,
    /// Connections that are up, of all event loops.
    pub(crate) connections: AtomicU64,
    pub(crate) connects: AtomicU64,
    pub(crate) connect_failures: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    /// Writes that it did not get from this node, and should have.
    pub(crate) missed: AtomicU64,
    /// Of those, what is kept for it; what could not be.
    pub(crate) hints_waiting: AtomicU64,
    pub(crate) hints_bytes: AtomicU64,
    pub(crate) hints_dropped: AtomicU64,
    /// The oldest timestamp among them.
    pub(crate) hints_oldest: AtomicU64,
    /// Its clock minus ours when it last greeted, in milliseconds.
    clock_offset_ms: AtomicI64,
    has_greeted: AtomicBool,
    trouble: Mutex<Option<String>>,
}

impl Cluster {
    pub(crate) fn new(membership: &Membership, limits: PeerLimits) -> Cluster {
        let Membership { nodes, own, addresses } = membership;
        let peers = nodes.iter().zip(addresses).map(|((id, node), (host, port))| {
            Arc::new(PeerView {
                id,
                url: node.name.clone(),
                name: PeerName::new(host, *port),
                connections: AtomicU64::new(0),
                connects: AtomicU64::new(0),
                connect_failures: AtomicU64::new(0),
                requests: AtomicU64::new(0),
                failures: AtomicU64::new(0),
                missed: AtomicU64::new(0),
                hints_waiting: AtomicU64::new(0),
                hints_bytes: AtomicU64::new(0),
                hints_dropped: AtomicU64::new(0),
                hints_oldest: AtomicU64::new(u64::MAX),
                clock_offset_ms: AtomicI64::new(0),
                has_greeted: AtomicBool::new(false),
                trouble: Mutex::default(),
            })
        });
        Cluster {
            nodes: nodes.clone(),
            own: *own,
            placement: Arc::new(Placement::of(nodes)),
            limits,
            peers: peers.collect(),
            hints: OnceLock::new(),
            settled: OnceLock::new(),
            settler: OnceLock::new(),
            exchange: ExchangeView::default(),
            pace: Pace::default(),
            copy_turns: Arc::default(),
        }
    }

    /// Opens what the data directory has for the cluster.
    pub(crate) fn join(
        &self,
        env: &Env,
        dir: &Path,
        kept: &Kept,
        versions: &Arc<VersionClock>,
        vital: &Vital,
    ) -> io::Result<Arc<Settled>> {
        let hints = HintKeeper::start(env, &dir.join("hints"), &self.peers, vital)?;
        let found = durable::read(&*env.disk, dir)?.ok_or(kept.store);
        let (nodes, tree_bytes_max) = (self.nodes.len(), self.limits.tree_bytes_max);
        let settled = Arc::new(Settled::new(self.own, nodes, &self.placement, tree_bytes_max, found));
        let settler = Settler::start(env, dir, &settled, versions, &self.peers, vital)?;
        let is_first = self.hints.set(hints).is_ok()
            && self.settler.set(settler).is_ok()
            && self.settled.set(Arc::clone(&settled)).is_ok();
        assert!(is_first, "a node joins once");
        Ok(settled)
    }

    /// What is settled. There is something once there is a store.
    pub(crate) fn settled(&self) -> &Arc<Settled> {
        self.settled.get().expect("a node joins before it serves")
    }

    /// Makes everything durable.
    pub(crate) fn close(&self) {
        if let Some(hints) = self.hints.get() {
            hints.close();
        }
        if let Some(settler) = self.settler.get() {
            settler.close();
        }
    }

    /// What this node says first.
    pub(crate) fn hello(&self, wall_ms: u64) -> Hello {
        Hello {
            version: PROTOCOL_VERSION,
            node: self.own.0,
            wall_ms,
            statement: self
                .settled
                .get()
                .map(|settled| settled.statement(HybridClock::at_wall_ms(wall_ms)))
                .unwrap_or_default(),
            nodes: self.nodes.clone(),
        }
    }

    /// Takes note of a greeting. Answers why the two nodes are not of one cluster, where they are not.
    pub(crate) fn greeted(&self, theirs: &Hello, wall_ms: u64) -> Result<Arc<PeerView>, String> {
        if let Some(difference) = self.hello(wall_ms).difference(theirs) {
            // It may be one of ours with another list: then the trouble is shown beside its name.
            let url = theirs.url();
            match self.peers.iter().find(|peer| peer.url == url && peer.id != self.own) {
                Some(peer) => peer.is_in_trouble(&difference),
                None => tracing::warn!("refused a peer that says it is {url}: {difference}"),
            }
            return Err(difference);
        }
        let peer = Arc::clone(&self.peers[usize::from(theirs.node)]);
        if let Some(settled) = self.settled.get().filter(|_| theirs.statement.incarnation != 0) {
            settled.heard(peer.id, theirs.statement.clone());
        }
        peer.clock_offset_ms.store(theirs.wall_ms.wrapping_sub(wall_ms) as i64, Ordering::Relaxed);
        peer.has_greeted.store(true, Ordering::Relaxed);
        peer.is_well();
        Ok(peer)
    }
}

impl PeerView {
    /// Takes note of what keeps this node from speaking with the peer; logged when it begins and when it changes.
    pub(crate) fn is_in_trouble(&self, line: &str) {
        let mut trouble = self.trouble.lock();
        if trouble.as_deref() != Some(line) {
            tracing::warn!("the peer {}: {line}", self.url);
            *trouble = Some(line.to_owned());
        }
    }

    /// The peer and this node have greeted each other.
    pub(crate) fn is_well(&self) {
        if self.trouble.lock().take().is_some() {
            tracing::warn!("the peer {} is back", self.url);
        }
    }

    /// What keeps this node from speaking with the peer, as far as it knows.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Its clock minus ours, if it ever said.
    pub(crate) fn clock_offset_ms(&self) -> Option<i64> {
        self.has_greeted.load(Ordering::Relaxed).then(|| self.clock_offset_ms.load(Ordering::Relaxed))
    }
}
