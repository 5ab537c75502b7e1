use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ladoga_runtime::LoopContext;
use slab::Slab;
use tokio::sync::Notify;

use super::protocol::Connection;

/// The open connections of an event loop.
pub(super) struct Connections {
    context: Rc<LoopContext>,
    open: RefCell<Slab<Rc<dyn Connection>>>,
    /// Those that were there when draining began.
    to_drain: Cell<usize>,
    is_drained: Notify,
}

impl Connections {
    pub(super) fn new(context: Rc<LoopContext>) -> Connections {
        Connections { context, open: RefCell::default(), to_drain: Cell::new(0), is_drained: Notify::new() }
    }

    /// Ends connections that have timed out.
    pub(super) fn sweep(&self) {
        let now_ms = self.context.now_ms();
        self.for_each(|connection| connection.sweep(now_ms));
    }

    /// Looks after a connection for as long as its entry lives.
    pub(super) fn enter(self: &Rc<Self>, connection: Rc<dyn Connection>) -> Entry {
        Entry { index: self.open.borrow_mut().insert(connection), connections: Rc::clone(self) }
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

    /// Has so many of them go on at other loops, as soon as they can.
    pub(super) fn ask_to_move(&self, count: usize) {
        let open = self.open.borrow();
        open.iter().filter(|(_, connection)| connection.move_on()).take(count).for_each(drop);
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
}

/// A connection's entry, which goes when the task that drives it does, even in a panic.
pub(super) struct Entry {
    connections: Rc<Connections>,
    index: usize,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Connections { context, open, to_drain, is_drained } = &*self.connections;
        let connection = open.borrow_mut().remove(self.index);
        context.metrics.disconnected();
        if context.is_draining() && !connection.is_late() {
            to_drain.set(to_drain.get() - 1);
            is_drained.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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

    #[test]
    fn those_that_never_move_are_not_among_those_that_are_asked_to() {
        let metrics = Metrics::new(1);
        let loops = Arc::clone(&metrics.loops[0]);
        let context = LoopContext::new(0, Arc::new(RealClock::new()), loops, Supervisor::default());
        let connections = Rc::new(Connections::new(Rc::new(context)));
        let open = [false, true, false, true, true].map(|may_move| {
            let connection = Rc::new(Asked { may_move, times: Cell::new(0) });
            (Rc::clone(&connection), connections.enter(connection))
        });
        connections.ask_to_move(2);
        assert_eq!(open.each_ref().map(|(asked, _)| asked.times.get()), [0, 1, 0, 1, 0]);
    }
}
