use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ladoga_runtime::LoopContext;
use slab::Slab;
use tokio::sync::Notify;

use super::protocol::Connection;

/// How long those that other loops gave to this one while it drained may take to end: they have nothing under way.
const REST: Duration = Duration::from_millis(100);

/// The open connections of an event loop.
pub(super) struct Connections {
    context: Rc<LoopContext>,
    open: RefCell<Slab<Rc<dyn Connection>>>,
    /// Behind the last one that was asked to move.
    next_to_move: Cell<usize>,
    /// Those that were there when draining began, or were on their way.
    to_drain: Cell<usize>,
    is_drained: Notify,
}

impl Connections {
    pub(super) fn new(context: Rc<LoopContext>) -> Connections {
        Connections {
            context,
            open: RefCell::default(),
            next_to_move: Cell::new(0),
            to_drain: Cell::new(0),
            is_drained: Notify::new(),
        }
    }

    /// Ends connections that have timed out.
    pub(super) fn sweep(&self) {
        let now_ms = self.context.now_ms();
        self.for_each(|connection| connection.sweep(now_ms));
    }

    /// Looks after a connection for as long as its entry lives.
    pub(super) fn enter(self: &Rc<Self>, connection: Rc<dyn Connection>) -> Entry {
        if self.context.is_draining() && !connection.is_late() {
            self.to_drain.set(self.to_drain.get() + 1);
        }
        Entry {
            index: self.open.borrow_mut().insert(connection),
            goes_on: false,
            connections: Rc::clone(self),
        }
    }

    /// Ends all connections: those with requests in flight once these are answered, or when the drain timeout is over.
    pub(super) async fn drain(&self, patience: Duration) {
        self.context.begin_to_drain();
        self.to_drain.set(self.open.borrow().len());
        self.for_each(Connection::begin_to_drain);
        if tokio::time::timeout(patience, self.until_drained()).await.is_err() {
            tracing::warn!(connections = self.to_drain.get(), "aborted requests that did not finish in time");
            self.for_each(Connection::cut_off);
            self.until_drained().await;
        }
    }

    /// Ends the connections that were on their way to this loop when it had drained. No loop gives it any more of them.
    pub(super) async fn drain_rest(&self) {
        if tokio::time::timeout(REST, self.until_rest_is_drained()).await.is_err() {
            tracing::debug!(
                connections = self.to_drain.get(),
                "cut off connections that did not end in time"
            );
        }
    }

    /// Has so many of them go on at other loops, as soon as they can. It begins behind those that were asked last, which may be busy for
    /// long.
    pub(super) fn ask_to_move(&self, count: usize) {
        let (open, first) = (self.open.borrow(), self.next_to_move.get());
        let behind = open.iter().filter(|(index, _)| *index >= first);
        let before = open.iter().filter(|(index, _)| *index < first);
        let asked = behind.chain(before).filter(|(_, connection)| connection.move_on());
        if let Some((last, _)) = asked.take(count).last() {
            self.next_to_move.set(last + 1);
        }
    }

    fn for_each(&self, act: impl Fn(&dyn Connection)) {
        for (_, connection) in &*self.open.borrow() {
            act(&**connection);
        }
    }

    async fn until_drained(&self) {
        while self.to_drain.get() > 0 {
            self.is_drained.notified().await;
        }
    }

    async fn until_rest_is_drained(&self) {
        // Who gives one away counts it here before it is sent.
        while self.context.metrics.connections() > self.open.borrow().len() as u64 {
            tokio::task::yield_now().await;
        }
        self.until_drained().await;
    }
}

/// A connection's entry, which goes when the task that drives it does, even in a panic.
pub(super) struct Entry {
    connections: Rc<Connections>,
    index: usize,
    /// At another loop.
    goes_on: bool,
}

impl Entry {
    /// The connection goes on at another loop.
    pub(super) fn moves(mut self) {
        self.goes_on = true;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Connections { context, open, to_drain, is_drained, .. } = &*self.connections;
        let connection = open.borrow_mut().remove(self.index);
        if self.goes_on {
            context.metrics.moved_away();
        } else {
            context.metrics.disconnected();
        }
        if context.is_draining() && !connection.is_late() {
            to_drain.set(to_drain.get() - 1);
            is_drained.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::Poll;

    use ladoga_env::real::RealClock;
    use ladoga_runtime::{Metrics, Supervisor};

    use super::*;

    /// One that says whether it will ever move, and counts how often it was asked to.
    struct Asked {
        may_move: bool,
        times: Cell<u32>,
    }

    impl Connection for Asked {
        fn sweep(&self, _: u64) {}

        fn begin_to_drain(&self) {}

        fn move_on(&self) -> bool {
            self.times.set(self.times.get() + u32::from(self.may_move));
            self.may_move
        }

        fn cut_off(&self) {}

        fn is_late(&self) -> bool {
            false
        }
    }

    impl Asked {
        fn new(may_move: bool) -> Rc<Asked> {
            Rc::new(Asked { may_move, times: Cell::new(0) })
        }
    }

    fn none() -> Rc<Connections> {
        let loops = Arc::clone(&Metrics::new(1).loops[0]);
        let context = LoopContext::new(0, Arc::new(RealClock::new()), loops, Supervisor::default());
        Rc::new(Connections::new(Rc::new(context)))
    }

    #[test]
    fn those_that_never_move_are_not_among_those_that_are_asked_to() {
        let connections = none();
        let open = [false, true, false, true, true].map(|may_move| {
            let connection = Asked::new(may_move);
            (Rc::clone(&connection), connections.enter(connection))
        });
        for expected in [[0, 1, 0, 1, 0], [0, 2, 0, 1, 1], [0, 2, 0, 2, 2]] {
            connections.ask_to_move(2);
            assert_eq!(open.each_ref().map(|(asked, _)| asked.times.get()), expected, "all in their turn");
        }
    }

    /// Whether nothing is to be waited for, or only for so long.
    async fn is_drained(connections: &Connections) -> bool {
        let (mut drained, mut turns) = (pin!(connections.until_rest_is_drained()), 0..10);
        poll_fn(|context| {
            if drained.as_mut().poll(context).is_ready() {
                return Poll::Ready(true);
            }
            context.waker().wake_by_ref();
            if turns.next().is_some() { Poll::Pending } else { Poll::Ready(false) }
        })
        .await
    }

    #[test]
    fn who_was_on_the_way_when_draining_began_is_drained_too() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let connections = none();
            connections.drain(Duration::from_secs(1)).await;
            assert!(is_drained(&connections).await);
            // One has been sent, and has not arrived.
            connections.context.metrics.moved_here();
            assert!(!is_drained(&connections).await);
            let entry = connections.enter(Asked::new(true));
            assert!(!is_drained(&connections).await);
            drop(entry);
            assert!(is_drained(&connections).await);
        });
    }
}
