use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use ladoga_env::{Clock, Env, Net};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, mpsc, watch};

use super::acceptor::Intake;
use super::event_loop::EventLoop;
use super::listener::{ListenError, listen};
use crate::cluster_time::ClusterTime;
use crate::config::Config;
use crate::fair::Gate;
use crate::metrics::Metrics;
use crate::peers::{Cluster, Kept};
use crate::store::{Store, StoreError};
use crate::versions::VersionClock;
use crate::vital::{Panicked, Vital};

/// Whether a node is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is.
    Running,
    /// It ends the requests in flight, and takes no others.
    Draining,
    /// It is not.
    Stopped,
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot listen.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system has no more threads, or descriptors.
    #[error("cannot start an event loop: {0}")]
    EventLoop(#[from] io::Error),
}

/// Why a node did not stop as it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StopError {
    /// Something that a node cannot do without was no more. Everything else has ended in order.
    #[error("{0}, and the node ended; what it had acknowledged is on disk")]
    Panicked(Panicked),
    /// The store could not make everything durable.
    #[error("cannot close the data directory: {0}")]
    Close(StoreError),
    /// Both.
    #[error("{panicked}, and the node ended; cannot close the data directory: {error}")]
    PanickedAndClose {
        /// Where it began.
        panicked: Panicked,
        /// What the store says.
        error: StoreError,
    },
}

/// For how long a client that sends is waited for before its rate is looked at.
pub(super) const UPLOAD_WINDOW_MS: u64 = 2_000;
/// The same for one that reads. The buffers of the sockets hide for longer what it does: what it took shows once a third of
/// them is free.
const STREAM_WINDOW_MS: u64 = 5_000;

/// What the event loops of a node share.
pub(crate) struct Shared<S: Store> {
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    /// Empty until the store is open.
    pub(crate) store: OnceLock<Arc<S>>,
    /// Says that it is there.
    pub(super) opened: Notify,
    pub(crate) versions: Arc<VersionClock>,
    pub(crate) metrics: Metrics,
    /// None for a node on its own.
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// Answers that are too large for memory, by number.
    pub(crate) streams: Gate,
    /// Values that are, by number.
    pub(crate) uploads: Gate,
    /// By which a loop gives a connection to another.
    pub(super) hand_overs: Vec<mpsc::UnboundedSender<std::net::TcpStream>>,
    pub(crate) vital: Vital,
}

/// A running node.
///
/// Protocol: `start open? stop`.
pub struct Node<S: Store> {
    shared: Arc<Shared<S>>,
    stage: watch::Sender<Stage>,
    drained: mpsc::Receiver<()>,
    threads: Vec<JoinHandle<()>>,
    addresses: Vec<SocketAddr>,
}

impl<S: Store> Node<S> {
    /// Listens. Until a store is opened, requests are answered with `503`.
    pub fn start(config: Config, clock: Arc<dyn Clock>, net: Arc<dyn Net>) -> Result<Node<S>, StartError> {
        let loops = config.event_loops;
        let limits = config.limits.clone();
        let (addresses, mut listeners) = listen_on_all(&config)?;
        let (stage, _) = watch::channel(Stage::Running);
        // Bounded by the number of connections: each is counted before it is handed over.
        let (hand_overs, receivers): (Vec<_>, Vec<_>) = (0..loops).map(|_| mpsc::unbounded_channel()).unzip();
        let time = config.membership.as_ref().map(|membership| {
            let (own, nodes) = (membership.own, membership.nodes.len());
            let monotonic_ms = clock.monotonic_ns() / 1_000_000;
            ClusterTime::new(own, nodes, config.peer_limits.clock_ahead_ms_max, monotonic_ms)
        });
        let versions = Arc::new(VersionClock::new(Arc::clone(&clock), time));
        let gate = |max, window_ms, bound| Gate::new(max as u64, window_ms, bound, Arc::clone(&clock));
        let shared = Arc::new(Shared {
            store: OnceLock::new(),
            opened: Notify::new(),
            metrics: Metrics::new(loops),
            cluster: config.membership.as_ref().map(|membership| {
                Arc::new(Cluster::new(membership, config.peer_limits.clone(), &versions, net))
            }),
            versions,
            streams: gate(
                limits.streams_max,
                STREAM_WINDOW_MS,
                "as many ranges and large values as possible are being read",
            ),
            uploads: gate(
                limits.uploads_max,
                UPLOAD_WINDOW_MS,
                "as many large values as possible are being written",
            ),
            clock,
            hand_overs,
            vital: Vital::default(),
            config,
        });
        let (drained, when_drained) = mpsc::channel(loops);
        let threads = Vec::with_capacity(loops);
        let mut node = Node { shared, stage, drained: when_drained, threads, addresses };
        for (index, handed_over) in receivers.into_iter().enumerate() {
            let listeners = std::mem::take(&mut listeners[index]);
            node.start_event_loop(index, listeners, handed_over, drained.clone())?;
        }
        Ok(node)
    }

    fn start_event_loop(
        &mut self,
        index: usize,
        listeners: Vec<std::net::TcpListener>,
        handed_over: mpsc::UnboundedReceiver<std::net::TcpStream>,
        drained: mpsc::Sender<()>,
    ) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let stage = self.stage.subscribe();
        let (report, reported) = std::sync::mpsc::channel();
        let body = move || {
            let runtime =
                match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(report.send(Err(error))),
                };
            runtime.block_on(async {
                let listeners = listeners.into_iter().map(tokio::net::TcpListener::from_std);
                match listeners.collect::<io::Result<_>>() {
                    Ok(listeners) => {
                        let _ = report.send(Ok(()));
                        let intake = Intake { listeners, handed_over, stage, drained };
                        Rc::new(EventLoop::new(shared, index)).run(intake).await;
                    }
                    Err(error) => drop(report.send(Err(error))),
                }
            });
        };
        self.threads.push(self.shared.vital.spawn(format!("event-loop-{index}"), body)?);
        reported.recv().map_err(io::Error::other)?
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Takes its place in the cluster, with what the data directory says about that.
    ///
    /// # Panics
    /// Where it is of none.
    pub fn join(&self, env: &Env, dir: &Path, kept: &Kept, store: &S) -> io::Result<()> {
        let cluster = self.shared.cluster.as_ref().expect("it was started as a node of a cluster");
        let last_timestamp = store.last_timestamp();
        self.shared.versions.starts_after(last_timestamp);
        let settled = cluster.join(env, dir, kept, last_timestamp, &self.shared.vital)?;
        store.observe(settled)
    }

    /// Serves from this store.
    ///
    /// # Panics
    /// When one was opened before.
    pub fn open(&self, store: Arc<S>) {
        self.shared.versions.starts_after(store.last_timestamp());
        let is_first = self.shared.store.set(store).is_ok();
        assert!(is_first, "a node has one store");
        self.shared.opened.notify_waiters();
    }

    /// Waits until it cannot go on, because of a panic in something that it cannot do without: then it is to be stopped.
    pub fn panicked(&self) -> impl Future<Output = Panicked> + use<S> {
        self.shared.vital.panicked()
    }

    /// Ends the requests in flight, makes everything durable, and stops. Requests that come meanwhile are told so.
    pub fn stop(mut self) -> Result<(), StopError> {
        self.stage.send_replace(Stage::Draining);
        for _ in 0..self.threads.len() {
            // None where an event loop panicked: then there is nothing to wait for.
            let _ = self.drained.blocking_recv();
        }
        if let Some(cluster) = &self.shared.cluster {
            cluster.close();
        }
        let closed = self.shared.store.get().map_or(Ok(()), |store| store.close());
        self.stop_event_loops();
        match (self.shared.vital.check(), closed) {
            (Ok(()), closed) => closed.map_err(StopError::Close),
            (Err(panicked), Ok(())) => Err(StopError::Panicked(panicked)),
            (Err(panicked), Err(error)) => Err(StopError::PanickedAndClose { panicked, error }),
        }
    }

    fn stop_event_loops(&mut self) {
        self.stage.send_replace(Stage::Stopped);
        for thread in self.threads.drain(..) {
            // Whether it panicked, the node was told.
            let _ = thread.join();
        }
    }
}

impl<S: Store> Drop for Node<S> {
    fn drop(&mut self) {
        self.stop_event_loops();
    }
}

type Listeners = Vec<Vec<std::net::TcpListener>>;

/// The addresses as they are, and for each event loop a listener on each. A name may stand for addresses that this
/// machine does not have, as `localhost` does where there is no IPv6: one that it has is enough.
fn listen_on_all(config: &Config) -> Result<(Vec<SocketAddr>, Listeners), ListenError> {
    let mut by_loop: Listeners = (0..config.event_loops).map(|_| Vec::new()).collect();
    let mut addresses = Vec::new();
    let mut missing = None;
    for &wanted in &config.listen {
        let listeners = match listen(wanted, config.event_loops) {
            Ok(listeners) => listeners,
            Err(error) if error.is_no_such_address() => {
                missing = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        addresses.push(listeners[0].local_addr().map_err(|error| ListenError { address: wanted, error })?);
        for (listener, own) in listeners.into_iter().zip(&mut by_loop) {
            own.push(listener);
        }
    }
    match missing {
        Some(error) if addresses.is_empty() => Err(error),
        _ => Ok((addresses, by_loop)),
    }
}
