use std::cell::{Cell, OnceCell, Ref, RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use ladoga_env::Clock;
use ladoga_http1::server::Overdue;
use slab::Slab;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::acceptor::{Intake, accept, receive};
use super::connection::serve;
use super::link::{Link, timeouts};
use super::node::{Shared, Stage, UPLOAD_WINDOW_MS};
use super::sweeper::sweep;
use crate::config::Limits;
use crate::fair::Gate;
use crate::metrics::LoopMetrics;
use crate::peers::Peers;
use crate::store::Store;
use crate::vital::Vital;

/// What everything on one event loop shares, whatever the store is.
pub(crate) struct Core {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<LoopMetrics>,
    pub(crate) vital: Vital,
    /// Bytes of values on their way into memory, small ones apart: this loop's share of them.
    pub(crate) bodies: Gate,
    /// The bounds whose time goes on whether anything happens or not.
    gates: [Gate; 3],
    age: Age,
    /// The time of day as answers have it, as of the last look.
    date: RefCell<String>,
    scratch: RefCell<Vec<u8>>,
    links: RefCell<Slab<Rc<Link>>>,
    is_draining: Cell<bool>,
    /// Connections that were there when draining began.
    to_drain: Cell<usize>,
    is_drained: Notify,
}

/// So much of the time between two looks at the clock counts, where there was more.
const UNSEEN_MS_MAX: u64 = 500;

/// For how long an event loop has been at work, as of its last look at the clock: what it lost because it was held up itself,
/// with the process or the machine, was no time for what came meanwhile to be read. So it is not held against those who
/// have said something, or may have.
#[derive(Debug)]
struct Age {
    now_ms: Cell<u64>,
    looked_ms: Cell<u64>,
}

impl Age {
    fn begins(clock_ms: u64) -> Age {
        Age { now_ms: Cell::new(clock_ms), looked_ms: Cell::new(clock_ms) }
    }

    fn look(&self, clock_ms: u64) {
        let unseen_ms = clock_ms.saturating_sub(self.looked_ms.replace(clock_ms));
        self.now_ms.set(self.now_ms.get() + unseen_ms.min(UNSEEN_MS_MAX));
    }
}

/// What is read from a socket at once, at most.
const SCRATCH_BYTES: usize = 64 << 10;

fn date(clock: &dyn Clock) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(clock.wall_ms()))
}

impl Core {
    fn new<S: Store>(node: &Shared<S>, index: usize) -> Core {
        let (limits, loops) = (node.config.limits.clone(), node.config.event_loops);
        let body_bytes_max = limits.body_bytes_max / loops as u64;
        let age = Age::begins(node.clock.monotonic_ns() / 1_000_000);
        let bound = "as many bytes of values as possible are arriving";
        let bodies = Gate::new(body_bytes_max, UPLOAD_WINDOW_MS, bound, Arc::clone(&node.clock));
        Core {
            gates: [bodies.clone(), node.uploads.clone(), node.streams.clone()],
            bodies,
            clock: Arc::clone(&node.clock),
            limits,
            metrics: Arc::clone(&node.metrics.loops[index]),
            vital: node.vital.clone(),
            age,
            date: RefCell::new(date(&*node.clock)),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES]),
            links: RefCell::default(),
            is_draining: Cell::new(false),
            to_drain: Cell::new(0),
            is_drained: Notify::new(),
        }
    }

    /// The time as of the last look, which timeouts are coarse enough for: time in which the loop was at work.
    pub(crate) fn now_ms(&self) -> u64 {
        self.age.now_ms.get()
    }

    pub(crate) fn look_at_the_clock(&self) {
        self.age.look(self.clock.monotonic_ns() / 1_000_000);
        self.date.replace(date(&*self.clock));
    }

    /// The time of day as answers have it, as of the last look.
    pub(crate) fn date(&self) -> Ref<'_, str> {
        Ref::map(self.date.borrow(), String::as_str)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// A buffer for what is used at once.
    pub(crate) fn scratch(&self) -> RefMut<'_, Vec<u8>> {
        self.scratch.borrow_mut()
    }

    /// Ends the connections on which somebody waits for too long.
    pub(super) fn sweep(&self) {
        let now_ms = self.now_ms();
        self.gates.iter().for_each(Gate::look_at_the_clock);
        let timeouts = timeouts(&self.limits);
        self.for_each_link(|link| link.sweep(now_ms, &timeouts));
    }

    fn for_each_link(&self, act: impl Fn(&Link)) {
        for (_, link) in &*self.links.borrow() {
            act(link);
        }
    }

    fn add(&self, link: Rc<Link>) -> usize {
        self.links.borrow_mut().insert(link)
    }

    fn begin_to_drain(&self) {
        self.is_draining.set(true);
        self.to_drain.set(self.links.borrow().len());
        self.for_each_link(Link::begins_to_drain);
    }

    async fn until_drained(&self) {
        while self.to_drain.get() > 0 {
            self.is_drained.notified().await;
        }
    }
}

/// A connection's entry, which goes when the task that drives it does, even in a panic.
struct Seat {
    core: Rc<Core>,
    index: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let core = &self.core;
        let link = core.links.borrow_mut().remove(self.index);
        core.metrics.disconnected();
        if core.is_draining() && !link.is_late() {
            core.to_drain.set(core.to_drain.get() - 1);
            core.is_drained.notify_one();
        }
    }
}

/// One thread's share of the node.
pub(crate) struct EventLoop<S: Store> {
    index: usize,
    pub(crate) core: Rc<Core>,
    pub(crate) node: Arc<Shared<S>>,
    local: OnceCell<Rc<S::Local>>,
    peers: OnceCell<Rc<Peers>>,
}

impl<S: Store> EventLoop<S> {
    pub(super) fn new(node: Arc<Shared<S>>, index: usize) -> EventLoop<S> {
        EventLoop {
            index,
            core: Rc::new(Core::new(&node, index)),
            node,
            local: OnceCell::new(),
            peers: OnceCell::new(),
        }
    }

    /// The store, once it is open.
    pub(crate) fn store(&self) -> Option<Rc<S::Local>> {
        if let Some(local) = self.local.get() {
            return Some(Rc::clone(local));
        }
        let store = self.node.store.get()?;
        Some(Rc::clone(self.local.get_or_init(|| Rc::new(store.attach(&self.core.vital)))))
    }

    /// The store, once it is open: waits for that.
    pub(crate) async fn opened(&self) -> Rc<S::Local> {
        loop {
            let opened = self.node.opened.notified();
            if let Some(store) = self.store() {
                return store;
            }
            opened.await;
        }
    }

    /// The other nodes, where there are any.
    pub(crate) fn peers(&self) -> Option<&Rc<Peers>> {
        let cluster = self.node.cluster.as_ref()?;
        Some(self.peers.get_or_init(|| Peers::start(cluster, &self.core)))
    }

    /// Serves a connection that was counted before.
    pub(super) fn serve(self: &Rc<Self>, socket: TcpStream) {
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(%error, "a connection was gone before it was served");
        }
        let link = Rc::new(Link::new(socket, Rc::clone(&self.core)));
        let seat = Seat { index: self.core.add(Rc::clone(&link)), core: Rc::clone(&self.core) };
        let event_loop = Rc::clone(self);
        tokio::task::spawn_local(async move {
            serve(event_loop, link).await;
            drop(seat);
        });
    }

    /// Serves until the node is to stop, and the requests in flight have ended or had their time. Who comes after
    /// that is told.
    pub(super) async fn run(self: Rc<Self>, intake: Intake) {
        let mut stage = intake.stage;
        let vital = &self.core.vital;
        for listener in intake.listeners {
            vital.spawn_local("accept", accept(Rc::clone(&self), listener));
        }
        vital.spawn_local("receive", receive(Rc::clone(&self), intake.handed_over));
        vital.spawn_local("sweep", sweep(Rc::clone(&self.core)));
        if self.index == 0 {
            vital.spawn_local("deliver", crate::peers::deliver(Rc::clone(&self)));
            vital.spawn_local("state", crate::peers::state(Rc::clone(&self)));
            vital.spawn_local("exchange", crate::peers::exchange(Rc::clone(&self)));
            vital.spawn_local("follow", crate::peers::follow(Rc::clone(&self)));
        }
        // The sender lives as long as the node; without one there is nobody to serve for.
        let _ = stage.wait_for(|stage| *stage != Stage::Running).await;
        self.drain().await;
        let _ = intake.drained.send(()).await;
        // Whoever waits for all loops notices by that where one is no more.
        drop(intake.drained);
        let _ = stage.wait_for(|stage| *stage == Stage::Stopped).await;
    }

    async fn drain(&self) {
        let core = &self.core;
        core.begin_to_drain();
        let patience = Duration::from_millis(core.limits.drain_timeout_ms);
        if tokio::time::timeout(patience, core.until_drained()).await.is_err() {
            tracing::warn!(connections = core.to_drain.get(), "cut off requests that took too long to drain");
            core.for_each_link(|link| link.end(Overdue::Answer));
            core.until_drained().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_which_a_loop_was_held_up_counts_for_little() {
        let age = Age::begins(1_000);
        let look = |clock_ms| {
            age.look(clock_ms);
            age.now_ms.get()
        };
        assert_eq!([look(1_000), look(1_250), look(1_250), look(1_750)], [1_000, 1_250, 1_250, 1_750]);
        assert_eq!(look(1_750 + UNSEEN_MS_MAX + 1), 1_750 + UNSEEN_MS_MAX);
        assert_eq!(look(100_000), 1_750 + 2 * UNSEEN_MS_MAX);
        assert_eq!(look(100_050), 1_800 + 2 * UNSEEN_MS_MAX);
    }
}
