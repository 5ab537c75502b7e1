use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use ladoga_cluster::{NodeId, NodeList, Placement};
use ladoga_env::real::{RealClock, RealNet};
use ladoga_env::sim::SimDisk;
use ladoga_env::{Clock, Env, sim};
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::wire::Versions;
use ladoga_node::peers::{Membership, MembershipFile, PeerLimits};
use ladoga_node::store::Store;
use ladoga_node::{Config, Limits, Node};
use ladoga_storage::{Durability, Options};

use crate::client::Client;
use crate::peer::{Caller, Deadline, Peer};
use crate::scripted::Scripted;

const DIR: &str = "/data";
/// The name of the node. No other node connects to it.
const NAME: &str = "http://127.0.0.1:1";
/// Longer than tests wait: what hangs for so long fails them.
pub(crate) const PATIENCE_MS: u64 = 300_000;

/// A node of a cluster whose other nodes the test is.
pub(crate) struct Cluster<S: Store> {
    pub(crate) node: Node<S>,
    pub(crate) store: Arc<S>,
    pub(crate) disk: SimDisk,
    pub(crate) own: NodeId,
    pub(crate) list: NodeList,
    /// In the order of their numbers.
    pub(crate) peers: Vec<Peer>,
}

/// Ports for so many nodes, by their names, and the list with the node under test in it.
fn listeners(peers: usize) -> (BTreeMap<String, TcpListener>, NodeList) {
    let listeners = (0..peers).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let name = |one: &TcpListener| format!("http://{}", one.local_addr().expect("it is bound"));
    let listeners: BTreeMap<String, TcpListener> = listeners.map(|one| (name(&one), one)).collect();
    let names = listeners.keys().map(String::as_str);
    let list = NodeList::first(names.chain([NAME])).expect("a list");
    (listeners, list)
}

/// A node that is starting, and cannot reach its peers.
pub(crate) fn alone_of(nodes: usize) -> Cluster<Embedded> {
    let (listeners, list) = listeners(nodes - 1);
    // Closed, so that connecting is refused.
    drop(listeners);
    Cluster::open(Arc::new(RealClock::new()), (list, Vec::new()), &PeerLimits::default(), replica)
}

/// A node that has lost its disk, as all of its peers know.
pub(crate) fn with_a_new_disk(peers: usize) -> Cluster<Embedded> {
    let (list, peers) = played(Versions::OWN, peers);
    peers.iter().for_each(Peer::knew_another_disk);
    let limits = PeerLimits { quorum_timeout_ms: PATIENCE_MS, ..PeerLimits::default() };
    Cluster::open(Arc::new(RealClock::new()), (list, peers), &limits, replica)
}

/// Peers that the test plays, and the list with the node under test in it.
fn played(versions: Versions, peers: usize) -> (NodeList, Vec<Peer>) {
    let (listeners, list) = listeners(peers);
    let own = list.find(NAME).expect("it is in the list");
    let peer = |(name, listener): (String, TcpListener)| {
        let id = list.find(&name).expect("it is in the list");
        Peer::start(listener, (id, own), versions, &list)
    };
    let peers = listeners.into_iter().map(peer).collect();
    (list, peers)
}

/// A node over the engine with this time-out for requests.
pub(crate) fn with_time(peers: usize, quorum_timeout_ms: u64) -> Cluster<Embedded> {
    let limits = PeerLimits { quorum_timeout_ms, ..PeerLimits::default() };
    Cluster::start_within(&limits, Arc::new(RealClock::new()), (Versions::OWN, peers), replica)
}

/// A node over a store that follows a script, with this time-out for requests.
pub(crate) fn scripted_with_time(peers: usize, quorum_timeout_ms: u64) -> Cluster<Scripted> {
    let limits = PeerLimits { quorum_timeout_ms, ..PeerLimits::default() };
    let open = |_: &Env| Scripted::default();
    Cluster::start_within(&limits, Arc::new(RealClock::new()), (Versions::OWN, peers), open)
}

/// A node over the engine, whose peers speak these versions of the protocol.
pub(crate) fn with_peers_of(versions: Versions, peers: usize) -> Cluster<Embedded> {
    let limits = PeerLimits { quorum_timeout_ms: PATIENCE_MS, ..PeerLimits::default() };
    Cluster::start_within(&limits, Arc::new(RealClock::new()), (versions, peers), replica)
}

fn replica(env: &Env) -> Embedded {
    let options = Options::new(16 << 20, Durability::Never);
    Embedded::open_replica(env.clone(), Path::new(DIR), options).expect("a store that opens")
}

/// A node over the engine, on a disk that is not there.
pub(crate) fn with_engine(peers: usize, limits: &PeerLimits) -> Cluster<Embedded> {
    with_engine_by(Arc::new(RealClock::new()), peers, limits)
}

/// The same with a clock of the test.
pub(crate) fn with_engine_by(clock: Arc<dyn Clock>, peers: usize, limits: &PeerLimits) -> Cluster<Embedded> {
    Cluster::start_by(clock, peers, limits, replica)
}

impl<S: Store> Cluster<S> {
    /// Starts a node with one event loop, and waits until its answers count.
    pub(crate) fn start(peers: usize, limits: &PeerLimits, open: impl FnOnce(&Env) -> S) -> Cluster<S> {
        Cluster::start_by(Arc::new(RealClock::new()), peers, limits, open)
    }

    fn start_by(
        clock: Arc<dyn Clock>,
        peers: usize,
        limits: &PeerLimits,
        open: impl FnOnce(&Env) -> S,
    ) -> Cluster<S> {
        let limits = PeerLimits { quorum_timeout_ms: PATIENCE_MS, ..limits.clone() };
        Cluster::start_within(&limits, clock, (Versions::OWN, peers), open)
    }

    fn start_within(
        limits: &PeerLimits,
        clock: Arc<dyn Clock>,
        (versions, peers): (Versions, usize),
        open: impl FnOnce(&Env) -> S,
    ) -> Cluster<S> {
        let (list, peers) = played(versions, peers);
        let cluster = Cluster::open(clock, (list, peers), limits, open);
        cluster.wait_until(|report| report["replica_state"]["complete"] == true);
        cluster
    }

    /// A node, and those of its peers that there are.
    fn open(
        clock: Arc<dyn Clock>,
        (list, peers): (NodeList, Vec<Peer>),
        limits: &PeerLimits,
        open: impl FnOnce(&Env) -> S,
    ) -> Cluster<S> {
        let limits = PeerLimits {
            peer_connect_timeout_ms: PATIENCE_MS,
            peer_timeout_ms: PATIENCE_MS,
            ..limits.clone()
        };
        let own = list.find(NAME).expect("it is in the list");
        let address = |name: &str| -> Option<(String, u16)> {
            let (host, port) = name.strip_prefix("http://")?.split_once(':')?;
            Some((host.to_owned(), port.parse().ok()?))
        };
        let addresses = list.iter().map(|(_, node)| address(&node.name).expect("host and port")).collect();
        let membership = Membership { nodes: list.clone(), own, addresses };
        let config = Config {
            membership: Some(membership),
            peer_limits: limits,
            limits: Limits { drain_timeout_ms: 50, ..Limits::default() },
            ..Config::alone(vec![SocketAddr::from(([127, 0, 0, 1], 0))], 1)
        };
        let (env, disk, _) = sim::env(1);
        let env = Env { clock, ..env };
        env.disk.create_dir_all(Path::new(DIR)).expect("a directory");
        let kept = MembershipFile::keep(&env, Path::new(DIR), &list, own).expect("a new directory");
        let store = Arc::new(open(&env));
        let node =
            Node::start(config, Arc::clone(&env.clock), Arc::new(RealNet::new())).expect("a free port");
        node.join(&env, Path::new(DIR), &kept, &*store).expect("a new directory");
        node.open(Arc::clone(&store));
        Cluster { node, store, disk, own, list, peers }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.node.addresses()[0]
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// A connection as one of the peers has it to the node.
    pub(crate) fn connect_as_peer(&self) -> Caller {
        let others = self.list.iter().map(|(id, _)| id);
        let first = others.into_iter().find(|id| *id != self.own).expect("another node");
        let socket = TcpStream::connect(self.address()).expect("a node that listens");
        Caller::greet(socket, first, &self.list)
    }

    /// What the node reports of the cluster.
    pub(crate) fn report(&self) -> serde_json::Value {
        serde_json::from_slice(&self.connect().get("/v0/cluster").body).expect("JSON")
    }

    /// Waits until the node reports the expected state of the cluster.
    pub(crate) fn wait_until(&self, mut is_so: impl FnMut(&serde_json::Value) -> bool) {
        let mut client = self.connect();
        let began = Deadline::begins();
        loop {
            let report = client.get("/v0/cluster");
            if is_so(&serde_json::from_slice(&report.body).expect("JSON")) {
                return;
            }
            assert!(!began.is_over(), "still {}", report.text());
            std::thread::yield_now();
        }
    }

    /// A key whose only replica is the node, if it has one.
    pub(crate) fn own_key(&self) -> String {
        let placement = Placement::of(&self.list);
        let mut keys = (0..).map(|number| format!("key{number}"));
        keys.find(|key| placement.replicas(key.as_bytes(), 1) == [self.own]).expect("one of a few")
    }

    /// A key that the node itself has no copy of, though all the others have one.
    pub(crate) fn foreign_key(&self) -> String {
        self.foreign_keys(1).remove(0)
    }

    /// So many of them.
    pub(crate) fn foreign_keys(&self, count: usize) -> Vec<String> {
        let placement = Placement::of(&self.list);
        let keys = (0..10_000).map(|n| format!("key{n}"));
        let is_foreign =
            |key: &String| !placement.replicas(key.as_bytes(), self.peers.len()).contains(&self.own);
        let found: Vec<String> = keys.filter(is_foreign).take(count).collect();
        assert_eq!(found.len(), count, "one in a few");
        found
    }
}
