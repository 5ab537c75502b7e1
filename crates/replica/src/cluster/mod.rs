//! The cluster as this node sees it: shared by all its event loops.
//!
//! - `report`: what `/v0/cluster` says; `metrics`: what `/metrics` does; `progress`: how far repair is
//! - `observers`: who is told of every cell that is written; `listed`: what becomes of the state of a node in another list of nodes,
//!   `alone`: and in none

mod alone;
mod listed;
mod metrics;
mod observers;
mod progress;
mod report;

pub use alone::leave_list;
pub(crate) use progress::RepairProgress;

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::planted::{Bug, has};
use ladoga_access::PeerSecret;
use ladoga_cluster::{
    ClockReading, Durable, Incarnation, KeptState, NodeId, NodeList, Opening, Placement, random_of_list,
};
use ladoga_env::{Clock, Disk, Env, Net};
use ladoga_local::store::{Arrivals, CellGate, CellObserver};
use ladoga_runtime::{LoopContext, Supervisor};
use ladoga_tls::NodeTls;
use xxhash_rust::xxh3::xxh3_64;

use crate::bounds::{CopyTurns, Pace, SessionBudget, SharedKeys, Turns};
use crate::fences::{self, FenceKeeper};
use crate::hints::{self, HintKeeper};
use crate::membership::{
    self, Membership, MembershipFile, PeerLimits, PeerName, PeerView, Provenance, durable,
};
use crate::stability::{ClusterArrivals, ClusterClock, Stability, StabilityWriter};
use crate::wire::{Hello, Versions};
use observers::Observers;

/// Host and port of the node with this URL.
pub(crate) fn authority_of(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, authority)| authority)
}

/// The cluster as this node sees it: shared by all its event loops, which only count and note here.
pub struct Cluster {
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
    /// What this node has promised to conditional writes.
    fences: OnceLock<Arc<FenceKeeper>>,
    pub(crate) stability: OnceLock<Arc<Stability>>,
    stability_writer: OnceLock<StabilityWriter>,
    pub(crate) exchange: RepairProgress,
    pub(crate) pace: Pace,
    /// What the connections that peers make to this node may hold.
    pub(crate) sessions: Arc<SessionBudget>,
    pub(crate) copy_turns: Arc<CopyTurns>,
    /// Whose turn it is among conditional requests of one key.
    pub(crate) turns: Arc<Turns>,
    /// Which keys such requests come for through several nodes.
    pub(crate) shared_keys: SharedKeys,
    /// What time it is for this node.
    pub(crate) versions: Arc<ClusterClock>,
    /// What its nodes show each other, if they have to.
    secret: Option<PeerSecret>,
    /// By which its nodes reach each other, and prove who they are.
    tls: Option<Arc<NodeTls>>,
}

impl Cluster {
    /// A node of this cluster, which does not serve yet.
    pub fn new(
        membership: &Membership,
        limits: PeerLimits,
        clock: Arc<dyn Clock>,
        net: Arc<dyn Net>,
    ) -> Cluster {
        let placement = Arc::new(Placement::of(&membership.nodes));
        Cluster::placed(membership, limits, clock, net, placement)
    }

    /// The same with the placement of its nodes, which takes long to work out.
    pub(crate) fn placed(
        membership: &Membership,
        limits: PeerLimits,
        clock: Arc<dyn Clock>,
        net: Arc<dyn Net>,
        placement: Arc<Placement>,
    ) -> Cluster {
        let Membership { nodes, own, addresses } = membership;
        let versions = ClusterClock::new(clock, *own, nodes.len(), limits.clock_ahead_ms_max);
        let peers = nodes.iter().zip(addresses).map(|((id, node), (host, port))| {
            Arc::new(PeerView::new(id, &node.name, PeerName::new(host, *port)))
        });
        let sessions = SessionBudget::new(limits.session_bytes_max);
        Cluster {
            nodes: nodes.clone(),
            own: *own,
            placement,
            net,
            limits,
            peers: peers.collect(),
            hints: OnceLock::new(),
            fences: OnceLock::new(),
            stability: OnceLock::new(),
            stability_writer: OnceLock::new(),
            exchange: RepairProgress::default(),
            pace: Pace::default(),
            sessions,
            copy_turns: Arc::default(),
            turns: Arc::default(),
            shared_keys: SharedKeys::default(),
            versions: Arc::new(versions),
            secret: None,
            tls: None,
        }
    }

    /// The same, whose nodes show each other that they have this secret.
    #[must_use]
    pub fn with_secret(self, secret: Option<PeerSecret>) -> Cluster {
        Cluster { secret, ..self }
    }

    /// The same, whose nodes reach each other by TLS, and prove by certificates who they are.
    ///
    /// # Panics
    /// Once somebody has a share in it.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Arc<NodeTls>>) -> Cluster {
        for peer in self.peers.iter_mut().filter(|_| tls.is_some()) {
            let peer = Arc::get_mut(peer).expect("nobody has it yet");
            peer.url = format!("https://{}", authority_of(&peer.url));
        }
        Cluster { tls, ..self }
    }

    /// The URL of a node, as people know it. In lists its name is the same with TLS and without, so that data stays as it is.
    pub(crate) fn url_of<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match &self.tls {
            Some(_) => Cow::Owned(format!("https://{}", authority_of(name))),
            None => Cow::Borrowed(name),
        }
    }

    /// The same of one of its nodes.
    pub(crate) fn node_url(&self, node: NodeId) -> String {
        self.url_of(self.nodes.name(node)).into_owned()
    }

    /// A message that has names of nodes in it, with their URLs.
    fn with_urls(&self, message: String) -> String {
        if self.tls.is_some() { message.replace("http://", "https://") } else { message }
    }

    /// By which its nodes reach each other, if not in the clear.
    pub(crate) fn tls(&self) -> Option<&Arc<NodeTls>> {
        self.tls.as_ref()
    }

    /// Whether its nodes prove by certificates who they are.
    pub fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// The hosts of its nodes.
    pub fn hosts(&self) -> Vec<&str> {
        self.peers.iter().map(|peer| peer.name.host()).collect()
    }

    /// Whether whoever shows this in `Authorization` has the secret of the cluster; `None` if it has none.
    pub fn admits(&self, authorization: Option<&[u8]>) -> Option<bool> {
        let authority = authority_of(self.nodes.name(self.own));
        let secret = self.secret.as_ref()?;
        Some(authorization.is_some_and(|shown| secret.admits(shown, authority)))
    }

    /// What is shown to the peer with this URL, as a header field with its end.
    pub(crate) fn authorization_field(&self, url: &str) -> String {
        let field =
            |secret: &PeerSecret| format!("authorization: {}\r\n", secret.authorization(authority_of(url)));
        self.secret.as_ref().map_or_else(String::new, field)
    }

    /// Opens what the data directory has for the cluster. Answers who is to be told of every cell; cells have to pass the
    /// [gate](Cluster::gate) from now on.
    pub fn join(
        &self,
        env: &Env,
        dir: &Path,
        kept: &MembershipFile,
        last_timestamp: u64,
        supervisor: &Supervisor,
    ) -> io::Result<Arc<dyn CellObserver>> {
        let (disk, names) = (&*env.disk, self.nodes.name_hashes());
        let hints_dir = dir.join("hints");
        let mut was_listed = false;
        let found = match kept.provenance {
            Provenance::Foreign { node } => Ok(self.take_from(node, env, dir, kept)?),
            Provenance::Own | Provenance::Copied => {
                let state = durable::read(disk, dir)?;
                let is_by_place = state.as_ref().is_some_and(|state| state.is_by_place(names.len()));
                hints::follow_names(disk, &hints_dir, &names, is_by_place)?;
                let listed = state.as_ref().and_then(|state| state.names.as_ref());
                let is_alone = state.as_ref().is_some_and(KeptState::is_alone);
                was_listed =
                    is_alone || listed.is_some_and(|listed| listed.contains(&names[self.own.index()]));
                state.map(|state| listed::of_this_list(self, state, &names)).ok_or(Incarnation(kept.store))
            }
        };
        let opening = Opening {
            // Who ignores what its peers remember has no past to compare with.
            session: if has(Bug::IgnoreRegressions) { 0 } else { env.rng.next_u64() | 1 },
            random: env.rng.next_u64(),
            random_of_list: was_listed.then(|| random_of_list(&names)),
            written: last_timestamp,
            is_unverified: kept.provenance == Provenance::Copied && !has(Bug::IgnoreRegressions),
        };
        let fences = FenceKeeper::start(env, dir, supervisor)?;
        // As it is after all cells that are here: or a write that is older than a promise looks as if nothing were newer.
        self.versions.starts_after(fences.newest_timestamp());
        let (nodes, tree_bytes_max) = (self.nodes.len(), self.limits.tree_bytes_max);
        let stability =
            Arc::new(Stability::new(self.own, nodes, &self.placement, tree_bytes_max, found, opening));
        let hints = HintKeeper::start(env, &hints_dir, &self.peers, &stability, supervisor)?;
        let stability_writer =
            StabilityWriter::start(env, (dir, kept), &stability, &self.versions, &self.peers, supervisor)?;
        stability.past.forget(self.versions.last());
        let is_first = self.hints.set(hints).is_ok()
            && self.fences.set(Arc::clone(&fences)).is_ok()
            && self.stability_writer.set(stability_writer).is_ok()
            && self.stability.set(Arc::clone(&stability)).is_ok();
        assert!(is_first, "a node joins once");
        Ok(Arc::new(Observers { stability, fences }))
    }

    /// What keeps cells out of the store that are older than what was promised about their keys.
    ///
    /// # Panics
    /// Before the node has joined.
    pub fn gate(&self) -> Arc<dyn CellGate> {
        Arc::clone(self.fences()) as Arc<dyn CellGate>
    }

    /// What those who follow the changes of this node have to know of the cells that may still arrive.
    ///
    /// # Panics
    /// Before the node has joined.
    pub fn arrivals(&self) -> Arc<dyn Arrivals> {
        let names: Vec<&str> = self.nodes.iter().map(|(id, _)| self.nodes.name(id)).collect();
        Arc::new(ClusterArrivals {
            cluster: xxh3_64(names.join(" ").as_bytes()),
            own: self.own,
            stability: Arc::clone(self.stability()),
            versions: Arc::clone(&self.versions),
        })
    }

    /// Makes a copy of another node's directory this node's own: only its cells are of use, as a beginning. Nothing is reported
    /// to peers before all of it is on disk, so that it can be done again.
    fn take_from(&self, node: NodeId, env: &Env, dir: &Path, kept: &MembershipFile) -> io::Result<Durable> {
        let disk = &*env.disk;
        tracing::warn!(
            "the data directory {} belongs to {}, expected {}: the node's answers do not count until it has copied the data of \
             the other nodes",
            dir.display(),
            self.node_url(node),
            self.node_url(self.own),
        );
        let copied = durable::read(disk, dir)?.map(|state| state.durable);
        let durable = Durable::of_a_copy(Incarnation::first(env.rng.next_u64()), copied);
        durable::write(disk, dir, &durable, &self.nodes.name_hashes())?;
        FenceKeeper::forget(disk, dir)?;
        // The other node has them, too; those for this one would wait for ever.
        hints::remove_all(disk, &dir.join("hints"))?;
        MembershipFile { store: durable.incarnation.0, ..kept.clone() }.write(disk, dir)?;
        Ok(durable)
    }

    /// Gives only versions after this timestamp, which was given or seen before this process began.
    pub fn starts_after(&self, timestamp: u64) {
        self.versions.starts_after(timestamp);
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Whether there are as many connections of peers as there may be.
    pub fn has_all_sessions(&self) -> bool {
        self.sessions.is_full()
    }

    /// Has this node take over what the others have and it lacks. Answers the number of the repair.
    pub fn request_repair(&self) -> u64 {
        self.exchange.request_repair()
    }

    /// The stability state of this node, once there is a store.
    pub(crate) fn stability(&self) -> &Arc<Stability> {
        self.stability.get().expect("a node joins before it serves")
    }

    /// What this node has promised, if it has joined.
    fn joined_fences(&self) -> Option<&Arc<FenceKeeper>> {
        self.fences.get()
    }

    /// What this node has promised, once there is a store.
    pub(crate) fn fences(&self) -> &Arc<FenceKeeper> {
        self.fences.get().expect("a node joins before it serves")
    }

    /// Makes everything durable.
    pub fn close(&self) {
        if let Some(fences) = self.fences.get() {
            fences.close();
        }
        if let Some(hints) = self.hints.get() {
            hints.close();
        }
        if let Some(stability_writer) = self.stability_writer.get() {
            stability_writer.close();
        }
    }

    /// The first message of this node on a connection.
    pub(crate) fn hello(&self) -> Hello {
        let wall_ms = self.versions.wall_ms();
        Hello {
            versions: Versions::OWN,
            node: self.own.0,
            wall_ms,
            statement: self
                .stability
                .get()
                .map(|stability| stability.statement(self.versions.next(), wall_ms))
                .unwrap_or_default(),
            nodes: self.nodes.clone(),
        }
    }

    /// Handles a greeting. Fails with the reason if the two nodes are not of one cluster.
    pub(crate) fn greeted(&self, core: &LoopContext, theirs: &Hello) -> Result<Arc<PeerView>, String> {
        if let Some(difference) = self.hello().difference(theirs) {
            let difference = self.with_urls(difference);
            // It may be one of ours with another list: then the reason is shown beside its name.
            let name = theirs.name();
            match self.peers.iter().find(|peer| self.nodes.name(peer.id) == name && peer.id != self.own) {
                Some(peer) => peer.record_refused(&difference, || core.admit_refusal_line()),
                None if core.admit_refusal_line() => {
                    tracing::warn!("refused a peer that claims to be {}: {difference}", self.url_of(name));
                }
                None => {}
            }
            return Err(difference);
        }
        let peer = Arc::clone(&self.peers[usize::from(theirs.node)]);
        if let Some(stability) = self.stability.get().filter(|_| !theirs.statement.incarnation.is_none()) {
            // Its clock is judged as each of its writes is.
            let _ = stability.heard(&self.versions, peer.id, theirs.statement.clone(), None);
        } else {
            let reading = ClockReading { wall_ms: theirs.wall_ms, version_clock: 0 };
            let _ = self.versions.heard(peer.id, reading, None);
        }
        peer.mark_greeted();
        Ok(peer)
    }
}

/// What is wrong with the files that a node of a cluster keeps beside its store, one line each; changes nothing.
pub fn check_files(disk: &dyn Disk, dir: &Path) -> Vec<String> {
    let mut found = membership::check_files(disk, dir);
    found.extend(fences::check(disk, dir).err().map(|error| error.to_string()));
    found.extend(hints::check(disk, &dir.join("hints")));
    found
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
