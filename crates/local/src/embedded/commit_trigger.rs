use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Presses after which it rings although more are coming.
const NOTIFICATIONS_MAX: u32 = 64;

/// Rings once for all that an event loop does while it is busy.
///
/// The first to press it wakes a task of the loop, which rings after what the turn of the loop brought; where that wakes
/// the thread that commits, once a turn brought no more. So a hundred connections that have a write each cost that thread
/// one wake-up, not a hundred; and a single one waits for one look at the sockets.
#[derive(Default)]
pub(super) struct CommitTrigger {
    notifications: Cell<u32>,
    task: RefCell<Option<Waker>>,
}

impl CommitTrigger {
    /// Has it ring, soon.
    pub(super) fn notify(&self) {
        let notifications = self.notifications.get();
        self.notifications.set(notifications + 1);
        if notifications == 0
            && let Some(task) = &*self.task.borrow()
        {
            task.wake_by_ref();
        }
    }

    /// Rings, for as long as the event loop runs, with what `begin` says: at once where that is something, and otherwise after
    /// a turn without presses.
    pub(super) async fn run<T>(self: Rc<Self>, begin: impl Fn() -> Option<T>, ring: impl Fn(Option<T>)) {
        loop {
            self.notified().await;
            let (begun, mut seen) = (begin(), 0);
            while begun.is_none()
                && seen < self.notifications.get()
                && self.notifications.get() < NOTIFICATIONS_MAX
            {
                seen = self.notifications.get();
                // Comes back after a look at the sockets, and after what that made ready.
                tokio::task::yield_now().await;
            }
            self.notifications.set(0);
            ring(begun);
        }
    }

    async fn notified(&self) {
        poll_fn(|context| {
            let mut task = self.task.borrow_mut();
            if !task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
                *task = Some(context.waker().clone());
            }
            if self.notifications.get() == 0 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    #[test]
    fn presses_that_come_together_are_one_ring_and_none_is_lost() {
        let (bell, waits, rings) = (Rc::new(CommitTrigger::default()), Cell::new(true), Cell::new(0));
        bell.notify();
        let begin = || (!waits.get()).then_some(());
        let mut ringing = pin!(Rc::clone(&bell).run(begin, |begun| {
            assert_eq!(begun, begin());
            rings.set(rings.get() + 1);
        }));
        let mut context = Context::from_waker(Waker::noop());
        let mut turn = || assert!(ringing.as_mut().poll(&mut context).is_pending());
        turn();
        turn();
        assert_eq!(rings.get(), 1, "pressed before anybody listened");
        bell.notify();
        turn();
        bell.notify();
        turn();
        assert_eq!(rings.get(), 1, "the last turn brought one more");
        turn();
        turn();
        assert_eq!(rings.get(), 2);
        (0..NOTIFICATIONS_MAX).for_each(|_| bell.notify());
        turn();
        assert_eq!(rings.get(), 3, "many do not wait for more");
        waits.set(false);
        bell.notify();
        bell.notify();
        turn();
        assert_eq!(rings.get(), 4, "what costs no wake-up does not wait either");
    }
}
