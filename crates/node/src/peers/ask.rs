use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::error::PeerError;
use super::link::{PeerLink, Waiter};
use super::wire::{Answer, Request};

/// One answer, for who waits for nothing else.
#[derive(Default)]
struct Asked {
    answer: RefCell<Option<Result<Answer, PeerError>>>,
    waker: RefCell<Option<Waker>>,
}

impl Waiter for Asked {
    fn answered(self: Rc<Self>, _slot: usize, answer: Result<Answer, PeerError>) {
        *self.answer.borrow_mut() = Some(answer);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl PeerLink {
    /// Sends a request at once, and waits for its answer.
    pub(crate) fn ask(
        self: &Rc<Self>,
        request: &Request,
    ) -> impl Future<Output = Result<Answer, PeerError>> + 'static {
        let asked = Rc::new(Asked::default());
        let waiter = Rc::clone(&asked);
        let sent = self.send(request, waiter, 0);
        poll_fn(move |context| {
            if let Err(error) = &sent {
                return Poll::Ready(Err(error.clone()));
            }
            match asked.answer.borrow_mut().take() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    *asked.waker.borrow_mut() = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}
