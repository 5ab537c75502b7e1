use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::error::PeerError;
use super::peer_link::{PeerLink, Waiter};
use crate::wire::{Answer, Request};

/// One answer, for who waits for nothing else; `map` takes it as it comes, whether or not anybody waits by then.
struct Asked<T, F> {
    map: F,
    answer: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
}

impl<T, F: Fn(Result<Answer, PeerError>) -> T> Waiter for Asked<T, F> {
    fn answered(self: Rc<Self>, _slot: usize, answer: Result<Answer, PeerError>) {
        *self.answer.borrow_mut() = Some((self.map)(answer));
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
    ) -> impl Future<Output = Result<Answer, PeerError>> + use<> {
        self.ask_for(request, |answer| answer)
    }

    /// The same for what an answer amounts to. It is dropped where nobody waits for it any more.
    pub(crate) fn ask_for<T: 'static, F: Fn(Result<Answer, PeerError>) -> T + 'static>(
        self: &Rc<Self>,
        request: &Request,
        map: F,
    ) -> impl Future<Output = T> + use<T, F> {
        let asked = Rc::new(Asked { map, answer: RefCell::default(), waker: RefCell::default() });
        let waiter = Rc::clone(&asked);
        if let Err(error) = self.send(request, waiter, 0) {
            *asked.answer.borrow_mut() = Some((asked.map)(Err(error)));
        }
        poll_fn(move |context| match asked.answer.borrow_mut().take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                *asked.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        })
    }
}
