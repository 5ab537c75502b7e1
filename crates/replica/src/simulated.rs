//! For the simulation: a node of a cluster without HTTP, on one event loop that is not a thread.
//!
//! - [`SimulatedNode`]: the parts of a node, put together as `node` does, and what a checker may look at
//! - [`Bug`]: bugs that are planted, to see that they are found; [`last_version`]: the version that an answer was about
//! - [`last_time_ms`]: the time by which an answer was decided, if it is about what expires
//! - [`given_up`]: versions under which nobody may have read anything, since their writes were written again
//! - [`overtaken`]: cells of which a replica said that it counts them, and that it has something newer instead

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, BytesMut};
use ladoga_cluster::{NodeId, Placement};
use ladoga_env::{Env, Listener, Stream};
use ladoga_local::store::Store;
use ladoga_model::HybridClock;
use ladoga_runtime::{Address, Gate, KEEP_ALIVE, LoopContext, Metrics, Supervisor};
use ladoga_service::KeyValue;
use tokio::io::ReadBuf;

use crate::{
    Bounds, Cluster, Membership, MembershipFile, OwnReplica, PeerLimits, PeerSocket, Replicated, serve,
};

pub use crate::planted::{Bug, OvertakenCell, given_up, last_time_ms, last_version, overtaken, plant};

/// A running node.
pub struct SimulatedNode<S: Store> {
    cluster: Arc<Cluster>,
    service: Rc<Replicated<S>>,
    supervisor: Supervisor,
}

/// How a node is, for who checks.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// Whether its answers count.
    pub is_whole: bool,
    /// Tombstones before this may go.
    pub droppable_before: u64,
    /// Hints that it has not delivered.
    pub hints_waiting: u64,
    /// The number of this run.
    pub session: u64,
    /// The timestamp that its clock is at.
    pub clock: u64,
}

impl<S: Store> SimulatedNode<S> {
    /// Starts a node over an open store, with so many places for large values and ranges that are read, and as many for those that
    /// arrive; within the set of tasks that are to be its process.
    pub fn start(
        env: &Env,
        dir: &Path,
        (membership, limits, placement): (&Membership, PeerLimits, Arc<Placement>),
        (kept, places): (&MembershipFile, u64),
        store: Arc<S>,
    ) -> io::Result<SimulatedNode<S>> {
        let supervisor = Supervisor::default();
        let (clock, metrics) = (Arc::clone(&env.clock), Arc::new(Metrics::new(1)));
        let cluster =
            Cluster::placed(membership, limits, Arc::clone(&clock), Arc::clone(&env.net), placement);
        let cluster = Arc::new(cluster);
        let last_timestamp = store.last_timestamp();
        cluster.versions.starts_after(last_timestamp);
        let observer = cluster.join(env, dir, kept, last_timestamp, &supervisor)?;
        store.gate(cluster.gate());
        store.arrivals(cluster.arrivals());
        store.observe(observer)?;
        let core = LoopContext::new(0, Arc::clone(&clock), Arc::clone(&metrics.loops[0]), supervisor.clone());
        let core = Rc::new(core);
        let gate = || Gate::new(places, 5_000, "as many as possible", Arc::clone(&clock));
        let bounds = Bounds { streams: gate(), uploads: gate(), greeting_timeout_ms: 10_000 };
        let local = store.attach(&supervisor);
        let replica = Rc::new(OwnReplica::new(&core, &cluster, (store, local), bounds));
        crate::start(&replica, metrics);
        Ok(SimulatedNode { cluster, service: Rc::new(Replicated::new(replica)), supervisor })
    }

    /// What clients ask.
    pub fn service(&self) -> &Rc<impl KeyValue + use<S>> {
        &self.service
    }

    /// Serves peers, for as long as the process runs.
    pub fn listen(&self, mut listener: Box<dyn Listener>) {
        let service = Rc::clone(&self.service);
        self.supervisor.spawn_local("accept", async move {
            while let Ok(stream) = std::future::poll_fn(|context| listener.poll_accept(context)).await {
                let service = Rc::clone(&service);
                tokio::task::spawn_local(async move {
                    let Ok(socket) = Accepted::after_upgrade(stream).await else { return };
                    let _ = serve(service.replica(), Rc::new(socket)).await;
                });
            }
        });
    }

    /// How it is.
    pub fn view(&self) -> View {
        let stability = self.cluster.stability();
        let wall_ms = self.cluster.versions.time_ms();
        let hints = self.cluster.peers.iter().map(|peer| peer.hints_waiting.load(Ordering::Relaxed));
        View {
            is_whole: stability.has_all(),
            droppable_before: stability.droppable_before(),
            hints_waiting: hints.sum(),
            session: stability.statement(0, 0).session,
            clock: HybridClock::at_wall_ms(wall_ms).max(stability.clock_floor()),
        }
    }

    /// How many promises to conditional writes it holds.
    pub fn fences(&self) -> usize {
        self.cluster.fences().count()
    }

    /// The session of a peer that it would remember after a restart.
    pub fn remembered_session(&self, peer: NodeId) -> u64 {
        self.cluster.stability().remembered_session(peer)
    }

    /// The answer of `/v0/cluster`.
    pub fn report(&self) -> String {
        self.cluster.report()
    }

    /// The timestamp before which it has everything that any node had.
    pub fn synced_before(&self) -> u64 {
        self.cluster.stability().synced_before()
    }

    /// Has it take over what the others have and it lacks, as `ladoga repair` does. Answers the number of the repair.
    pub fn request_repair(&self) -> u64 {
        self.cluster.request_repair()
    }

    /// What became of a repair, if it has ended: what could not be repaired, or nothing.
    pub fn repaired(&self, number: u64) -> Option<Result<(), String>> {
        let progress = &self.cluster.exchange;
        let has_ended = progress.completed.load(Ordering::Acquire) >= number;
        has_ended.then(|| progress.error.lock().clone().map_or(Ok(()), Err))
    }

    /// What panicked, if something did that it cannot do without.
    pub fn panicked(&self) -> Option<String> {
        self.supervisor.check().err().map(|panicked| panicked.to_string())
    }
}

/// A waiting task holds the node, which holds the connection, which holds the waiting task. A process that ends frees all of
/// that; here, thousands of nodes begin and end in one process, so the cycle is broken by hand.
impl<S: Store> Drop for SimulatedNode<S> {
    fn drop(&mut self) {
        self.service.replica().peers.forget_requests();
    }
}

/// A connection that a peer made.
struct Accepted {
    stream: RefCell<Box<dyn Stream>>,
    /// What came with the request to upgrade.
    ahead: RefCell<BytesMut>,
}

impl Accepted {
    /// Answers the request to upgrade, as the server of HTTP does.
    async fn after_upgrade(mut stream: Box<dyn Stream>) -> io::Result<Accepted> {
        stream.keep_alive(&KEEP_ALIVE)?;
        let mut input = BytesMut::new();
        let end = loop {
            if let Some(end) = input.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            let mut bytes = [0; 4096];
            let mut buffer = ReadBuf::new(&mut bytes);
            std::future::poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buffer)).await?;
            if buffer.filled().is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            input.extend_from_slice(buffer.filled());
        };
        input.advance(end);
        let mut answer = &b"HTTP/1.1 101 Switching Protocols\r\n\r\n"[..];
        while !answer.is_empty() {
            let count =
                std::future::poll_fn(|context| Pin::new(&mut *stream).poll_write(context, answer)).await?;
            answer = &answer[count..];
        }
        Ok(Accepted { stream: RefCell::new(stream), ahead: RefCell::new(input) })
    }
}

impl PeerSocket for Accepted {
    fn driven_by(&self, _task: &Waker) {}

    fn poll_take(
        &self,
        context: &mut Context<'_>,
        input: &mut BytesMut,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        let ahead = std::mem::take(&mut *self.ahead.borrow_mut());
        if !ahead.is_empty() {
            input.extend_from_slice(&ahead);
            return Poll::Ready(Ok(ahead.len()));
        }
        let mut bytes = [MaybeUninit::uninit(); 16 << 10];
        let room = bytes_max.min(bytes.len());
        let mut buffer = ReadBuf::uninit(&mut bytes[..room]);
        let mut stream = self.stream.borrow_mut();
        std::task::ready!(Pin::new(&mut **stream).poll_read(context, &mut buffer))?;
        input.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut **self.stream.borrow_mut()).poll_write(context, bytes)
    }

    fn unacknowledged_bytes(&self) -> u64 {
        0
    }

    fn is_certified_for(&self, _host: &str) -> bool {
        false
    }

    fn address(&self) -> Address {
        Address::of_client(self.stream.borrow().peer_address().ok().map(|address| address.ip()))
    }
}
