use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ladoga_cluster::{ClockReading, Durable, Incarnation, NodeId, NodeList, Opening, Placement};
use ladoga_env::{Clock, Disk, Env, Net};
use parking_lot::Mutex;

use super::budget::SessionBudget;
use super::cluster_clock::ClusterClock;
use super::durable;
use super::exchange::ExchangeView;
use super::hints::HintKeeper;
use super::kept::{Kept, Provenance};
use super::limits::{Membership, PeerLimits};
use super::name::PeerName;
use super::pace::Pace;
use super::settled::Settled;
use super::settler::Settler;
use super::wire::{Hello, PROTOCOL_VERSION};
use crate::coordinate::CopyTurns;
use ladoga_runtime::Vital;

/// The cluster as this node sees it: shared by all its event loops, which only count and note here.
pub(crate) struct Cluster {
    pub(crate) nodes: NodeList,
    pub(crate) own: NodeId,
    pub(crate) placement: Arc<Placement>,
    /// By which the others are reached.
    pub(crate) net: Arc<dyn Net>,
    pub(crate) limits: PeerLimits,
    /// By number; the entry of this node is there and not used.
    pub(crate) peers: Vec<Arc<PeerView>>,
    /// Writes that are kept for peers; once the data directory is open, as what follows.
    pub(crate) hints: OnceLock<HintKeeper>,
    pub(crate) settled: OnceLock<Arc<Settled>>,
    settler: OnceLock<Settler>,
    pub(crate) exchange: ExchangeView,
    pub(crate) pace: Pace,
    /// What the connections that peers make to this node may hold.
    pub(crate) sessions: Arc<SessionBudget>,
    pub(crate) copy_turns: Arc<CopyTurns>,
    /// What time it is for this node.
    pub(crate) versions: Arc<ClusterClock>,
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
    has_greeted: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
}

/// What keeps this node from speaking with a peer.
#[derive(Debug)]
struct Trouble {
    line: String,
    /// Whether it is in the log.
    is_told: bool,
}

impl Cluster {
    pub(crate) fn new(
        membership: &Membership,
        limits: PeerLimits,
        clock: Arc<dyn Clock>,
        net: Arc<dyn Net>,
    ) -> Cluster {
        let Membership { nodes, own, addresses } = membership;
        let versions = ClusterClock::new(clock, *own, nodes.len(), limits.clock_ahead_ms_max);
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
                has_greeted: AtomicBool::new(false),
                trouble: Mutex::default(),
            })
        });
        let sessions = SessionBudget::new(limits.session_bytes_max);
        Cluster {
            nodes: nodes.clone(),
            own: *own,
            placement: Arc::new(Placement::of(nodes)),
            net,
            limits,
            peers: peers.collect(),
            hints: OnceLock::new(),
            settled: OnceLock::new(),
            settler: OnceLock::new(),
            exchange: ExchangeView::default(),
            pace: Pace::default(),
            sessions,
            copy_turns: Arc::default(),
            versions: Arc::new(versions),
        }
    }

    /// Opens what the data directory has for the cluster.
    pub(crate) fn join(
        &self,
        env: &Env,
        dir: &Path,
        kept: &Kept,
        last_timestamp: u64,
        vital: &Vital,
    ) -> io::Result<Arc<Settled>> {
        let found = match kept.provenance {
            Provenance::Foreign { node } => Ok(self.take_from(node, env, dir, kept)?),
            Provenance::Own | Provenance::Copied => {
                durable::read(&*env.disk, dir)?.ok_or(Incarnation(kept.store))
            }
        };
        let opening = Opening {
            session: env.rng.next_u64() | 1,
            random: env.rng.next_u64(),
            written: last_timestamp,
            is_unverified: kept.provenance == Provenance::Copied,
        };
        let hints = HintKeeper::start(env, &dir.join("hints"), &self.peers, vital)?;
        let (nodes, tree_bytes_max) = (self.nodes.len(), self.limits.tree_bytes_max);
        let settled =
            Arc::new(Settled::new(self.own, nodes, &self.placement, tree_bytes_max, found, opening));
        let settler = Settler::start(env, (dir, kept), &settled, &self.versions, &self.peers, vital)?;
        let is_first = self.hints.set(hints).is_ok()
            && self.settler.set(settler).is_ok()
            && self.settled.set(Arc::clone(&settled)).is_ok();
        assert!(is_first, "a node joins once");
        Ok(settled)
    }

    /// Makes a copy of another node's directory this node's: only its cells are of use, as a beginning. Nobody is told
    /// anything before all of it is on disk, so that it can be done again.
    fn take_from(&self, node: NodeId, env: &Env, dir: &Path, kept: &Kept) -> io::Result<Durable> {
        let disk = &*env.disk;
        tracing::warn!(
            "the data directory {} is a copy of that of {}, expected that of {}: the answers of this node do not count until \
             it has taken over what the others have",
            dir.display(),
            self.nodes.name(node),
            self.nodes.name(self.own),
        );
        let durable = Durable::of_a_copy(Incarnation::first(env.rng.next_u64()), durable::read(disk, dir)?);
        durable::write(disk, dir, &durable)?;
        // The other node has them, too; those for this one would wait for ever.
        remove_hints(disk, &dir.join("hints"))?;
        Kept { store: durable.incarnation.0, ..kept.clone() }.write(disk, dir)?;
        Ok(durable)
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
    pub(crate) fn hello(&self) -> Hello {
        let wall_ms = self.versions.wall_ms();
        Hello {
            version: PROTOCOL_VERSION,
            node: self.own.0,
            wall_ms,
            statement: self
                .settled
                .get()
                .map(|settled| settled.statement(self.versions.next(), wall_ms))
                .unwrap_or_default(),
            nodes: self.nodes.clone(),
        }
    }

    /// Takes note of a greeting. Answers why the two nodes are not of one cluster, where they are not.
    pub(crate) fn greeted(&self, theirs: &Hello) -> Result<Arc<PeerView>, String> {
        if let Some(difference) = self.hello().difference(theirs) {
            // It may be one of ours with another list: then the trouble is shown beside its name.
            let url = theirs.url();
            match self.peers.iter().find(|peer| peer.url == url && peer.id != self.own) {
                Some(peer) => peer.is_in_trouble(&difference, true),
                None => tracing::warn!("refused a peer that says it is {url}: {difference}"),
            }
            return Err(difference);
        }
        let peer = Arc::clone(&self.peers[usize::from(theirs.node)]);
        if let Some(settled) = self.settled.get().filter(|_| !theirs.statement.incarnation.is_none()) {
            // Its clock is judged as each of its writes is.
            let _ = settled.heard(&self.versions, peer.id, theirs.statement.clone(), None);
        } else {
            let reading = ClockReading { wall_ms: theirs.wall_ms, version_clock: 0 };
            let _ = self.versions.heard(peer.id, reading, None);
        }
        peer.has_greeted.store(true, Ordering::Relaxed);
        peer.is_well();
        Ok(peer)
    }
}

fn remove_hints(disk: &dyn Disk, hints: &Path) -> io::Result<()> {
    let list = |dir: &Path| match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    };
    for peer in list(hints)? {
        let dir = hints.join(peer);
        for name in list(&dir)? {
            disk.remove(&dir.join(name))?;
        }
    }
    Ok(())
}

impl PeerView {
    /// Takes note of what keeps this node from speaking with the peer; logged when it begins and when it changes, where
    /// somebody is `to_be_told`.
    pub(crate) fn is_in_trouble(&self, line: &str, to_be_told: bool) {
        let mut trouble = self.trouble.lock();
        let was_told = trouble.as_ref().is_some_and(|known| known.is_told && known.line == line);
        if to_be_told && !was_told {
            tracing::warn!("the peer {}: {line}", self.url);
        }
        *trouble = Some(Trouble { line: line.to_owned(), is_told: to_be_told || was_told });
    }

    /// The peer and this node have greeted each other.
    pub(crate) fn is_well(&self) {
        if self.trouble.lock().take().is_some_and(|trouble| trouble.is_told) {
            tracing::warn!("the peer {} is back", self.url);
        }
    }

    /// What keeps this node from speaking with the peer, as far as it knows.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().as_ref().map(|trouble| trouble.line.clone())
    }

    /// Whether it ever greeted this node.
    pub(super) fn has_greeted(&self) -> bool {
        self.has_greeted.load(Ordering::Relaxed)
    }
}
