use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use ladoga_env::{Clock, Env, Net};
use ladoga_front::{ClusterDoor, Entrances, Link, Opening};
use ladoga_local::store::{CellGate, CellOrder, Store};
use ladoga_local::{LoneVersions, OneNode, VersionClock};
use ladoga_replica::{
    Bounds, Cluster, MembershipFile, OwnReplica, PeerSocket, Replicated, UPGRADE, serve, start,
};
use ladoga_runtime::{LoopContext, Panicked, Supervisor};
use ladoga_server::{Server, ServerConfig, StartError};
use ladoga_service::{Later, Metric, StoreError};
use tokio::sync::Notify;

use crate::config::Config;
use crate::loops::Loops;

/// Why a node did not stop as it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// A part that a node cannot do without has panicked. Everything else has ended in order.
    #[error("{0}; the node stopped, and all acknowledged writes are on disk")]
    Panicked(Panicked),
    /// The store could not make everything durable.
    #[error("cannot close the data directory: {0}")]
    Close(StoreError),
    /// Both.
    #[error("{panicked}; the node stopped and cannot close the data directory: {error}")]
    PanickedAndClose {
        /// When it began.
        panicked: Panicked,
        /// The store's error.
        error: StoreError,
    },
}

/// What the event loops of a node share.
struct Shared<S> {
    loops: Loops,
    /// Empty until the store is open.
    store: OnceLock<Arc<S>>,
    /// Says that it is there.
    opened: Notify,
}

/// By what a node gives its writes their versions: it is on its own, or of a cluster.
#[derive(Clone)]
enum Membership {
    Alone(Arc<LoneVersions>),
    Cluster(Arc<Cluster>),
}

/// A running node.
///
/// Protocol: `start (join? open)? stop`.
pub struct Node<S: Store> {
    server: Server,
    shared: Arc<Shared<S>>,
    membership: Membership,
    supervisor: Supervisor,
}

impl<S: Store> Node<S> {
    /// Listens. Until a store is opened, requests are answered with `503`.
    pub fn start(config: Config, clock: Arc<dyn Clock>, net: Arc<dyn Net>) -> Result<Node<S>, StartError> {
        let Config { listen, resp, resp_settings, event_loops, placement, membership, limits, .. } = config;
        let (peer_limits, peer_secret, access) = (config.peer_limits, config.peer_secret, config.access);
        let traces = config.traces;
        let listen = vec![listen, resp];
        let supervisor = Supervisor::default();
        let membership = match membership {
            None => Membership::Alone(Arc::new(LoneVersions::new(VersionClock::new(Arc::clone(&clock))))),
            Some(of) => {
                let cluster = Cluster::new(&of, peer_limits, Arc::clone(&clock), net);
                // Without an authority of nodes, they have no certificates to show.
                let tls = access.tls.clone().filter(|tls| tls.paths().peer_authority.is_some());
                Membership::Cluster(Arc::new(cluster.with_secret(peer_secret).with_tls(tls)))
            }
        };
        let loops = Loops::new(limits.clone(), event_loops, (resp_settings, access), &clock);
        let metrics = Arc::clone(&loops.metrics);
        let shared = Arc::new(Shared { loops, store: OnceLock::new(), opened: Notify::new() });
        let config = ServerConfig {
            listen,
            event_loops,
            placement,
            limits,
            clock,
            metrics,
            supervisor: supervisor.clone(),
            traces,
        };
        let of_loops = Arc::clone(&shared);
        let server = match membership.clone() {
            Membership::Alone(versions) => {
                Server::start(config, move |index, context| of_loops.door_of_one(&versions, index, context))
            }
            Membership::Cluster(cluster) => {
                Server::start(config, move |index, context| of_loops.door_of_many(&cluster, index, context))
            }
        }?;
        Ok(Node { server, shared, membership, supervisor })
    }

    /// Where it listens for HTTP.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.server.addresses()[Entrances::<()>::HTTP]
    }

    /// Where it listens for clients of Redis.
    pub fn resp_addresses(&self) -> &[SocketAddr] {
        &self.server.addresses()[Entrances::<()>::RESP]
    }

    /// Takes its place in the cluster, with what the data directory says about that.
    ///
    /// # Panics
    /// If the node is of no cluster.
    pub fn join(&self, env: &Env, dir: &Path, kept: &MembershipFile, store: &S) -> io::Result<()> {
        let Membership::Cluster(cluster) = &self.membership else {
            panic!("it was started as a node of a cluster")
        };
        let last_timestamp = store.last_timestamp();
        cluster.starts_after(last_timestamp);
        let observer = cluster.join(env, dir, kept, last_timestamp, &self.supervisor)?;
        store.gate(cluster.gate());
        store.arrivals(cluster.arrivals());
        store.observe(observer)
    }

    /// Serves from this store.
    ///
    /// # Panics
    /// When one was opened before.
    pub fn open(&self, store: Arc<S>) {
        match &self.membership {
            Membership::Alone(versions) => {
                versions.clock().continue_after(store.last_timestamp());
                store.gate(Arc::clone(versions) as Arc<dyn CellGate>);
                store.order(Arc::clone(versions) as Arc<dyn CellOrder>);
            }
            Membership::Cluster(cluster) => cluster.starts_after(store.last_timestamp()),
        }
        let is_first = self.shared.store.set(store).is_ok();
        assert!(is_first, "a node has one store");
        self.shared.opened.notify_waiters();
    }

    /// Waits until it cannot go on, because of a panic in something that it cannot do without: then it is to be stopped.
    pub fn panicked(&self) -> impl Future<Output = Panicked> + use<S> {
        self.supervisor.panicked()
    }

    /// Ends the requests in flight, makes everything durable, and stops. Requests that come meanwhile are answered that the
    /// node is stopping.
    pub fn stop(mut self) -> Result<(), StopError> {
        self.server.drain();
        if let Membership::Cluster(cluster) = &self.membership {
            cluster.close();
        }
        let closed = self.shared.store.get().map_or(Ok(()), |store| store.close());
        self.server.stop();
        self.shared.loops.access.close();
        match (self.supervisor.check(), closed) {
            (Ok(()), closed) => closed.map_err(StopError::Close),
            (Err(panicked), Ok(())) => Err(StopError::Panicked(panicked)),
            (Err(panicked), Err(error)) => Err(StopError::PanickedAndClose { panicked, error }),
        }
    }
}

impl<S: Store> Shared<S> {
    /// The way in to a node on its own, for one event loop.
    fn door_of_one(
        self: &Arc<Self>,
        versions: &Arc<LoneVersions>,
        index: usize,
        context: &Rc<LoopContext>,
    ) -> Entrances<OneNode<S, Arc<LoneVersions>>> {
        let (shared, supervisor, versions) =
            (Arc::clone(self), context.supervisor.clone(), Arc::clone(versions));
        let opening = Opening::new(move || {
            let store = shared.store.get()?;
            let local = Rc::new(store.attach(&supervisor));
            Some(OneNode::new(Arc::clone(store), local, Arc::clone(&versions)))
        });
        self.loops.entrances(index, self.loops.door(context, Rc::new(opening), (1, true), None))
    }

    /// The way in to a node of a cluster, for one event loop. One of the loops also starts what is needed once for all of them.
    fn door_of_many(
        self: &Arc<Self>,
        cluster: &Arc<Cluster>,
        index: usize,
        context: &Rc<LoopContext>,
    ) -> Entrances<Replicated<S>> {
        let (shared, own_context, of) = (Arc::clone(self), Rc::clone(context), Arc::clone(cluster));
        let opening = Rc::new(Opening::new(move || {
            let store = shared.store.get()?;
            let stores = (Arc::clone(store), store.attach(&own_context.supervisor));
            let bounds = Bounds {
                streams: shared.loops.streams.clone(),
                uploads: shared.loops.uploads.clone(),
                greeting_timeout_ms: shared.loops.limits.request_timeout_ms,
            };
            Some(Replicated::new(Rc::new(OwnReplica::new(&own_context, &of, stores, bounds))))
        }));
        if index == 0 {
            let (shared, opening) = (Arc::clone(self), Rc::clone(&opening));
            context.supervisor.spawn_local("open", async move { shared.when_open(&opening).await });
        }
        let door = OwnCluster { cluster: Arc::clone(cluster), opening: Rc::clone(&opening) };
        self.loops.entrances(
            index,
            self.loops.door(context, opening, (cluster.node_count(), false), Some(Rc::new(door))),
        )
    }

    async fn when_open(&self, opening: &Opening<Replicated<S>>) {
        loop {
            let opened = self.opened.notified();
            if let Some(service) = opening.get() {
                return start(service.replica(), Arc::clone(&self.loops.metrics));
            }
            opened.await;
        }
    }
}

/// The cluster that this node is of, as others may ask for it.
struct OwnCluster<S: Store> {
    cluster: Arc<Cluster>,
    opening: Rc<Opening<Replicated<S>>>,
}

impl<S: Store> ClusterDoor for OwnCluster<S> {
    fn report(&self) -> String {
        self.cluster.report()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.cluster.metrics()
    }

    fn request_repair(&self) -> u64 {
        self.cluster.request_repair()
    }

    fn admits(&self, authorization: Option<&[u8]>) -> Option<bool> {
        self.cluster.admits(authorization)
    }

    fn is_secure(&self) -> bool {
        self.cluster.is_secure()
    }

    fn hosts(&self) -> Vec<&str> {
        self.cluster.hosts()
    }

    fn protocol(&self) -> &'static str {
        UPGRADE
    }

    fn is_full(&self) -> bool {
        self.cluster.has_all_sessions()
    }

    fn serve_peer(&self, link: &Rc<Link>) -> Later<io::Result<()>> {
        let (opening, link) = (Rc::clone(&self.opening), Rc::clone(link));
        Box::pin(async move {
            let service = opening.get().ok_or(io::ErrorKind::NotConnected)?;
            serve(service.replica(), Rc::new(PeerConnection(link))).await
        })
    }
}

/// A connection that a peer made, as replication has it.
struct PeerConnection(Rc<Link>);

impl PeerSocket for PeerConnection {
    fn driven_by(&self, task: &std::task::Waker) {
        self.0.driven_by(task);
    }

    fn poll_take(
        &self,
        context: &mut std::task::Context<'_>,
        input: &mut bytes::BytesMut,
        bytes_max: usize,
    ) -> std::task::Poll<io::Result<usize>> {
        self.0.poll_take(context, input, bytes_max)
    }

    fn poll_write(
        &self,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<io::Result<usize>> {
        self.0.poll_write(context, bytes)
    }

    fn unacknowledged_bytes(&self) -> u64 {
        self.0.unacknowledged_bytes()
    }

    fn is_certified_for(&self, host: &str) -> bool {
        self.0.is_certified_for(host)
    }

    fn address(&self) -> ladoga_runtime::Address {
        self.0.address()
    }
}
