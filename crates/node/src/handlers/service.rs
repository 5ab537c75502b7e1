use std::convert::Infallible;
use std::future::Future;
use std::mem::take;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Incoming};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode, Uri};

use super::reply::{Outcome, Reply};
use super::{cluster, entity, profile, put, range, status};
use crate::coordinate::until_it_may_coordinate;
use crate::http::{Answer, EntityTarget, HEADERS_BYTES_MAX, Head, Refusal, Route, route};
use crate::metrics::Operation;
use crate::server::{EventLoop, Link, Takeover};
use crate::store::Store;

/// What hyper hands the requests of a connection to.
pub(crate) struct Service<S: Store> {
    event_loop: Rc<EventLoop<S>>,
    link: Rc<Link>,
}

impl<S: Store> Service<S> {
    pub(crate) fn new(event_loop: Rc<EventLoop<S>>, link: Rc<Link>) -> Service<S> {
        Service { event_loop, link }
    }
}

impl<S: Store> hyper::service::Service<Request<Incoming>> for Service<S> {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering<S>;

    fn call(&self, request: Request<Incoming>) -> Answering<S> {
        self.link.request_begins(!request.body().is_end_stream());
        let started_ns = self.event_loop.core.clock.monotonic_ns();
        let call = Call { event_loop: &self.event_loop, link: &self.link, waited_ms: 0 };
        let (operation, reply) = call.handle(request);
        Answering {
            event_loop: Rc::clone(&self.event_loop),
            link: Rc::clone(&self.link),
            operation,
            started_ns,
            state: State::Waiting(reply),
        }
    }
}

/// A request, and where it came from.
pub(super) struct Call<'c, S: Store> {
    pub(super) event_loop: &'c Rc<EventLoop<S>>,
    pub(super) link: &'c Rc<Link>,
    /// How long it has waited until this node was ready.
    pub(super) waited_ms: u64,
}

impl<S: Store> Call<'_, S> {
    fn handle(&self, request: Request<Incoming>) -> (Operation, Reply) {
        let (parts, body) = request.into_parts();
        let Parts { method, uri, headers, version, .. } = parts;
        let mut head = Head::of(headers, version, &body);
        let route = match route(&method, uri.path()) {
            Ok(route) => route,
            Err(refusal) => return (Operation::None, Reply::now(head.refusal(refusal))),
        };
        let reply = match route {
            _ if head.headers_bytes() > HEADERS_BYTES_MAX => Err(Refusal::headers_too_large()),
            Route::Get | Route::Head | Route::Put | Route::Delete => self.entity(route, uri, body, &mut head),
            Route::Range => range::range(self, &uri, &mut head),
            Route::Status => status::status(self, &mut head),
            Route::Cluster => cluster::cluster(self, &mut head),
            Route::Peer => cluster::peer(self, &mut head),
            Route::Repair => cluster::repair(self, &mut head),
            Route::Metrics => Ok(status::metrics(self, &mut head)),
            Route::Profile => profile::profile(self, &uri, &mut head),
        };
        (Operation::Of(route), reply.unwrap_or_else(|refusal| Reply::now(head.refusal(refusal))))
    }

    /// A request for one entity. What is wrong with it is told before anything is waited for.
    fn entity(&self, route: Route, uri: Uri, body: Incoming, head: &mut Head) -> Result<Reply, Refusal> {
        let nodes = self.event_loop.node.config.nodes();
        let target = EntityTarget::parse(uri, nodes).map_err(Refusal::bad_request)?;
        if route == Route::Put {
            put::value_bytes(head, &body)?;
        }
        self.once_it_may_coordinate(head, move |call, head| match route {
            Route::Put => put::put(call, target, body, head),
            Route::Delete => entity::delete(call, target, head),
            _ => entity::get(call, route, &target, head),
        })
    }

    /// Serves a request at once, or, where this node has still to hear whether it lost anything, once it has.
    pub(super) fn once_it_may_coordinate(
        &self,
        head: &mut Head,
        serve: impl FnOnce(&Call<'_, S>, &mut Head) -> Result<Reply, Refusal> + 'static,
    ) -> Result<Reply, Refusal> {
        let cluster = self.event_loop.node.cluster.as_ref();
        let settled = cluster.and_then(|cluster| cluster.settled.get());
        if settled.is_none_or(|settled| settled.may_coordinate()) {
            return serve(self, head);
        }
        self.store()?;
        let (event_loop, link) = (Rc::clone(self.event_loop), Rc::clone(self.link));
        Ok(Reply::later_or(take(head), async move |head| {
            let waited_ms = until_it_may_coordinate(&event_loop, &link).await?;
            let call = Call { event_loop: &event_loop, link: &link, waited_ms };
            Ok(serve(&call, head)?.outcome().await)
        }))
    }

    /// The store, unless the node does not serve.
    pub(super) fn store(&self) -> Result<Rc<S::Local>, Refusal> {
        if self.event_loop.core.is_draining() {
            return Err(Refusal::draining());
        }
        self.event_loop.store().ok_or_else(|| Refusal::unavailable("the node is opening its data directory"))
    }
}

enum State {
    Waiting(Reply),
    TakenOver(Option<Takeover>),
    Done,
}

/// A request being answered.
pub(crate) struct Answering<S: Store> {
    event_loop: Rc<EventLoop<S>>,
    link: Rc<Link>,
    operation: Operation,
    started_ns: u64,
    state: State,
}

impl<S: Store> Answering<S> {
    fn decided(&self, status: StatusCode) {
        let core = &self.event_loop.core;
        let duration_ns = core.clock.monotonic_ns().saturating_sub(self.started_ns);
        core.metrics.answered(self.operation, status, duration_ns);
    }
}

impl<S: Store> Future for Answering<S> {
    type Output = Result<Answer, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Waiting(Reply::Later(outcome)) = &mut self.state {
            let outcome = ready!(outcome.as_mut().poll(context));
            self.state = State::Waiting(Reply::Now(outcome));
        }
        match std::mem::replace(&mut self.state, State::Done) {
            State::Waiting(Reply::Now(Outcome::Answer(answer))) => {
                self.decided(answer.status());
                self.link.answer_begins();
                self.event_loop.core.metrics.sent(answer.body().bytes());
                return Poll::Ready(Ok(answer));
            }
            State::Waiting(Reply::Now(Outcome::Stream(streamed))) => {
                self.decided(StatusCode::OK);
                self.link.stream_begins();
                self.state = State::TakenOver(Some(Takeover::Stream(streamed)));
            }
            State::Waiting(Reply::Now(Outcome::Peer)) => {
                self.decided(StatusCode::SWITCHING_PROTOCOLS);
                self.link.stream_begins();
                self.state = State::TakenOver(Some(Takeover::Peer));
            }
            state => self.state = state,
        }
        let answering = &mut *self;
        if let State::TakenOver(takeover) = &mut answering.state {
            answering.link.hand_over(takeover);
        }
        // From here on the connection is taken from hyper, which then drops this.
        Poll::Pending
    }
}
