use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Presses after which it rings although more are coming.
const PRESSES_MAX: u32 = 64;

/// Rings once for all that an event loop does while it is busy.
///
/// The first to press it wakes a task of the loop, which rings after what the turn of the loop brought; where that wakes
/// the thread that commits, once a turn brought no more. So a hundred connections that have a write each cost that thread
/// one wake-up, not a hundred; and a single one waits for one look at the sockets.
#[derive(Default)]
pub(super) struct Doorbell {
    presses: Cell<u32>,
    ringer: RefCell<Option<Waker>>,
}

impl Doorbell {
    /// Has it ring, soon.
    pub(super) fn press(&self) {
        let presses = self.presses.get();
        self.presses.set(presses + 1);
        if presses == 0
            && let Some(ringer) = &*self.ringer.borrow()
        {
            ringer.wake_by_ref();
        }
    }

    /// Rings, for as long as the event loop runs, with what `begin` says: at once where that is something, and otherwise after
    /// a turn without presses.
    pub(super) async fn ring<T>(self: Rc<Self>, begin: impl Fn() -> Option<T>, ring: impl Fn(Option<T>)) {
        loop {
            self.pressed().await;
            let (begun, mut seen) = (begin(), 0);
            while begun.is_none() && seen < self.presses.get() && self.presses.get() < PRESSES_MAX {
                seen = self.presses.get();
                // Comes back after a look at the sockets, and after what that made ready.
                tokio::task::yield_now().await;
            }
            self.presses.set(0);
            ring(begun);
        }
    }

    async fn pressed(&self) {
        poll_fn(|context| {
            let mut ringer = self.ringer.borrow_mut();
            if !ringer.as_ref().is_some_and(|ringer| ringer.will_wake(context.waker())) {
                *ringer = Some(context.waker().clone());
            }
            if self.presses.get() == 0 { Poll::Pending } else { Poll::Ready(()) }
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
        let (bell, waits, rings) = (Rc::new(Doorbell::default()), Cell::new(true), Cell::new(0));
        bell.press();
        let begin = || (!waits.get()).then_some(());
        let mut ringing = pin!(Rc::clone(&bell).ring(begin, |begun| {
            assert_eq!(begun, begin());
            rings.set(rings.get() + 1);
        }));
        let mut context = Context::from_waker(Waker::noop());
        let mut turn = || assert!(ringing.as_mut().poll(&mut context).is_pending());
        turn();
        turn();
        assert_eq!(rings.get(), 1, "pressed before anybody listened");
        bell.press();
        turn();
        bell.press();
        turn();
        assert_eq!(rings.get(), 1, "the last turn brought one more");
        turn();
        turn();
        assert_eq!(rings.get(), 2);
        (0..PRESSES_MAX).for_each(|_| bell.press());
        turn();
        assert_eq!(rings.get(), 3, "many do not wait for more");
        waits.set(false);
        bell.press();
        bell.press();
        turn();
        assert_eq!(rings.get(), 4, "what costs no wake-up does not wait either");
    }
}
