use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// What was decided about a request, for the one task that waits for it.
pub(super) struct Decision<T> {
    state: RefCell<State<T>>,
}

struct State<T> {
    decided: Option<T>,
    waker: Option<Waker>,
}

impl<T> Default for Decision<T> {
    fn default() -> Decision<T> {
        Decision { state: RefCell::new(State { decided: None, waker: None }) }
    }
}

impl<T> Decision<T> {
    /// It is decided, once.
    pub(super) fn decide(&self, decided: T) {
        let mut state = self.state.borrow_mut();
        state.decided = Some(decided);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits for it, and takes it.
    pub(super) async fn taken(&self) -> T {
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            match state.decided.take() {
                Some(decided) => Poll::Ready(decided),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}
