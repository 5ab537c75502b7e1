use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use ladoga_cluster::{NodeId, NodeList, Placement};
use ladoga_env::real::RealClock;
use ladoga_env::{Clock, Env, sim};
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::{Kept, Membership, PeerLimits};
use ladoga_node::store::Store;
use ladoga_node::{Config, Limits, Node};
use ladoga_storage::{Durability, Options};

use crate::client::Client;
use crate::peer::{Caller, Deadline, Peer};

const DIR: &str = "/data";
/// The name of the node. Nobody goes by it.
const NAME: &str = "http://127.0.0.1:1";
/// Longer than anything takes that does not hang.
pub(crate) const PATIENCE_MS: u64 = 60_000;

/// A node of a cluster whose other nodes the test is.
pub(crate) struct Cluster<S: Store> {
    pub(crate) node: Node<S>,
    pub(crate) store: Arc<S>,
    pub(crate) own: NodeId,
    pub(crate) list: NodeList,
    /// In the order of their numbers.
    pub(crate) peers: Vec<Peer>,
}

/// A node over the engine, on a disk that is not there.
pub(crate) fn with_engine(peers: usize, limits: &PeerLimits) -> Cluster<Embedded> {
    with_engine_by(Arc::new(RealClock::new()), peers, limits)
}

/// The same with a clock of the test.
pub(crate) fn with_engine_by(clock: Arc<dyn Clock>, peers: usize, limits: &PeerLimits) -> Cluster<Embedded> {
    let open = |env: &Env| {
        let options = Options::new(16 << 20, Durability::Never);
        Embedded::open_replica(env.clone(), Path::new(DIR), options).expect("a store that opens")
    };
    Cluster::start_by(clock, peers, limits, open)
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
        let limits = PeerLimits {
            peer_connect_timeout_ms: PATIENCE_MS,
            peer_timeout_ms: PATIENCE_MS,
            quorum_timeout_ms: PATIENCE_MS,
            ..limits.clone()
        };
        let listeners = (0..peers).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let name = |one: &TcpListener| format!("http://{}", one.local_addr().expect("it is bound"));
        let listeners: BTreeMap<String, TcpListener> = listeners.map(|one| (name(&one), one)).collect();
        let names = listeners.keys().map(String::as_str);
        let list = NodeList::first(names.chain([NAME])).expect("a list");
        let own = list.find(NAME).expect("it is in the list");
        let peer = |(name, listener): (String, TcpListener)| {
            Peer::start(listener, list.find(&name).expect("it is in the list"), own, &list)
        };
        let peers = listeners.into_iter().map(peer).collect();
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
        let (env, _, _) = sim::env(1);
        let env = Env { clock, ..env };
        env.disk.create_dir_all(Path::new(DIR)).expect("a directory");
        let kept = Kept::keep(&env, Path::new(DIR), &list).expect("a new directory");
        let store = Arc::new(open(&env));
        let node = Node::start(config, Arc::clone(&env.clock)).expect("a free port");
        node.join(&env, Path::new(DIR), &kept, &*store).expect("a new directory");
        node.open(Arc::clone(&store));
        let cluster = Cluster { node, store, own, list, peers };
        cluster.wait_until(|report| report["settled"]["whole"] == true);
        cluster
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.node.addresses()[0]
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address())
    }

    /// A connection as one of the peers has it to the node.
    pub(crate) fn connect_as_peer(&self) -> Caller {
        let peer = &self.peers[0];
        let socket = TcpStream::connect(self.address()).expect("a node that listens");
        Caller::greet(socket, peer.id, &self.list)
    }

    /// Waits until the node says of the cluster what is waited for.
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

    /// A key that the node itself has no copy of, where all of the others have one.
    pub(crate) fn foreign_key(&self) -> String {
        let placement = Placement::of(&self.list);
        let keys = (0..).map(|n| format!("key{n}"));
        let is_foreign =
            |key: &String| !placement.replicas(key.as_bytes(), self.peers.len()).contains(&self.own);
        keys.take(10_000).find(is_foreign).expect("one in a few")
    }
}
