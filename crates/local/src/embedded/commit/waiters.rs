use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::write_queue::{CommitResult, WriteQueue};
use crate::store::StoreError;

/// Who waits on an event loop for writes.
#[derive(Default)]
pub(in super::super) struct Waiters {
    slots: RefCell<Slab<Waiter>>,
}

enum Waiter {
    /// For what is not decided yet.
    Waiting(Option<Waker>),
    /// For what is decided, and not seen yet.
    Decided(Result<(), StoreError>),
    /// For nothing: the connection is gone.
    Gone,
}

impl Waiters {
    /// A place to wait in.
    pub(in super::super) fn enter(&self) -> u32 {
        u32::try_from(self.slots.borrow_mut().insert(Waiter::Waiting(None))).expect("fewer writes than 2^32")
    }

    /// Hands an outcome to all who wait for it.
    pub(in super::super) fn receive(&self, write_queue: &WriteQueue, result: CommitResult) {
        write_queue.leave(result.load);
        let mut slots = self.slots.borrow_mut();
        for index in result.waiters {
            let index = index as usize;
            match std::mem::replace(&mut slots[index], Waiter::Decided(result.outcome.clone())) {
                Waiter::Waiting(Some(waker)) => waker.wake(),
                Waiter::Waiting(None) => {}
                Waiter::Gone => drop(slots.remove(index)),
                Waiter::Decided(_) => unreachable!("a write is decided once"),
            }
        }
    }
}

/// A write under way. Dropping it does not undo it.
pub struct Applied(State);

enum State {
    Waiting { waiters: Rc<Waiters>, index: u32 },
    Over,
}

impl Applied {
    pub(in super::super) fn waiting(waiters: Rc<Waiters>, index: u32) -> Applied {
        Applied(State::Waiting { waiters, index })
    }
}

impl Future for Applied {
    type Output = Result<(), StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let State::Waiting { waiters, index } = &self.0 else { return Poll::Pending };
        let index = *index as usize;
        let mut slots = waiters.slots.borrow_mut();
        match &mut slots[index] {
            Waiter::Waiting(waker) => {
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    *waker = Some(context.waker().clone());
                }
                return Poll::Pending;
            }
            Waiter::Decided(_) => {}
            Waiter::Gone => unreachable!("who polls is there"),
        }
        let Waiter::Decided(outcome) = slots.remove(index) else { unreachable!("it was looked at") };
        drop(slots);
        self.0 = State::Over;
        Poll::Ready(outcome)
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        if let State::Waiting { waiters, index } = &self.0 {
            let mut slots = waiters.slots.borrow_mut();
            let index = *index as usize;
            match slots[index] {
                Waiter::Decided(_) => drop(slots.remove(index)),
                _ => slots[index] = Waiter::Gone,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::unit_cost::Cost;
    use super::*;
    use std::sync::Arc;

    fn result(waiters: Vec<u32>, outcome: Result<(), StoreError>) -> CommitResult {
        CommitResult { waiters, load: Cost::default(), outcome }
    }

    #[test]
    fn an_outcome_reaches_those_who_wait_and_no_slot_is_left_behind() {
        let waiters = Rc::new(Waiters::default());
        let write_queue = WriteQueue::new(Arc::default());
        let mut seats: Vec<_> =
            (0..4).map(|_| Applied::waiting(Rc::clone(&waiters), waiters.enter())).collect();
        let mut context = Context::from_waker(Waker::noop());
        let gone = seats.remove(3);
        drop(gone);
        assert!(Pin::new(&mut seats[0]).poll(&mut context).is_pending());
        let full = StoreError::NoRoom { reason: "full".into() };
        waiters.receive(&write_queue, result(vec![0, 3], Ok(())));
        waiters.receive(&write_queue, result(vec![1, 2], Err(full.clone())));
        assert_eq!(Pin::new(&mut seats[0]).poll(&mut context), Poll::Ready(Ok(())));
        assert_eq!(Pin::new(&mut seats[1]).poll(&mut context), Poll::Ready(Err(full)));
        drop(seats);
        assert!(waiters.slots.borrow().is_empty());
    }
}
