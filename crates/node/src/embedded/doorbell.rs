use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Rings once for all that an event loop does in one turn.
///
/// The first to press it wakes a task of the loop, which comes after every task that was ready by then; only that
/// task rings. So a hundred connections that have a write each cost the thread that commits one wake-up, not a hundred.
#[derive(Default)]
pub(super) struct Doorbell {
    pressed: Cell<bool>,
    ringer: RefCell<Option<Waker>>,
}

impl Doorbell {
    /// Has it ring at the end of this turn.
    pub(super) fn press(&self) {
        if !self.pressed.replace(true)
            && let Some(ringer) = &*self.ringer.borrow()
        {
            ringer.wake_by_ref();
        }
    }

    /// Rings, for as long as the event loop runs.
    pub(super) async fn ring(self: Rc<Self>, ring: impl Fn()) {
        poll_fn(|context| {
            let mut ringer = self.ringer.borrow_mut();
            if !ringer.as_ref().is_some_and(|ringer| ringer.will_wake(context.waker())) {
                *ringer = Some(context.waker().clone());
            }
            drop(ringer);
            if self.pressed.take() {
                ring();
            }
            Poll::<()>::Pending
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
    fn many_presses_are_one_ring_and_none_is_lost() {
        let (bell, rings) = (Rc::new(Doorbell::default()), Cell::new(0));
        bell.press();
        let mut ringing = pin!(Rc::clone(&bell).ring(|| rings.set(rings.get() + 1)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(ringing.as_mut().poll(&mut context).is_pending());
        assert_eq!(rings.get(), 1, "pressed before anybody listened");
        bell.press();
        bell.press();
        assert!(ringing.as_mut().poll(&mut context).is_pending());
        assert!(ringing.as_mut().poll(&mut context).is_pending());
        assert_eq!(rings.get(), 2);
    }
}
