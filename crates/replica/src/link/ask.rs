use std::rc::Rc;

use ladoga_model::TraceContext;
use ladoga_runtime::OneShot;

use super::error::PeerError;
use super::peer_link::{PeerLink, Waiter};
use crate::wire::{Answer, Request};

/// One answer, for a task that waits for nothing else. `map` gets it as it comes, whether or not the task still waits.
struct AwaitedAnswer<T, F> {
    map: F,
    answer: OneShot<T>,
}

impl<T, F: Fn(Result<Answer, PeerError>) -> T> Waiter for AwaitedAnswer<T, F> {
    fn answered(self: Rc<Self>, _slot: usize, answer: Result<Answer, PeerError>) {
        self.answer.set((self.map)(answer));
    }
}

impl PeerLink {
    /// Sends a request at once, and waits for its answer.
    pub(crate) fn ask(
        self: &Rc<Self>,
        request: &Request,
    ) -> impl Future<Output = Result<Answer, PeerError>> + use<> {
        self.ask_for((request, None), |answer| answer)
    }

    /// The same with one that may be a part of a span.
    pub(crate) fn ask_as_part(
        self: &Rc<Self>,
        request: &Request,
        of: Option<TraceContext>,
    ) -> impl Future<Output = Result<Answer, PeerError>> + use<> {
        self.ask_for((request, of), |answer| answer)
    }

    /// The same, with the answer mapped. The result is dropped if the task no longer waits.
    pub(crate) fn ask_for<T: 'static, F: Fn(Result<Answer, PeerError>) -> T + 'static>(
        self: &Rc<Self>,
        request: (&Request, Option<TraceContext>),
        map: F,
    ) -> impl Future<Output = T> + use<T, F> {
        let asked = Rc::new(AwaitedAnswer { map, answer: OneShot::default() });
        let waiter = Rc::clone(&asked);
        if let Err(error) = self.send(request, waiter, 0) {
            asked.answer.set((asked.map)(Err(error)));
        }
        async move { asked.answer.take().await }
    }
}
