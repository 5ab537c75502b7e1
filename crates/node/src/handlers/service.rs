use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Incoming};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode, Uri};

use super::reply::{Outcome, Reply};
use super::{cluster, entity, profile, put, range, status};
use crate::coordinate::check_may_coordinate;
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
        let call = Call { event_loop: &self.event_loop, link: &self.link };
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
            Route::Get | Route::Head => {
                self.target(uri).and_then(|target| entity::get(self, route, &target, &mut head))
            }
            Route::Put => self.target(uri).and_then(|target| put::put(self, target, body, &mut head)),
            Route::Delete => self.target(uri).and_then(|target| entity::delete(self, target, &mut head)),
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

    fn target(&self, uri: Uri) -> Result<EntityTarget, Refusal> {
        if let Some(cluster) = &self.event_loop.node.cluster {
            check_may_coordinate(cluster)?;
        }
        EntityTarget::parse(uri, self.event_loop.node.config.nodes()).map_err(Refusal::bad_request)
    }

    /// The store, unless the node does not serve.
    pub(super) fn store(&self) -> Result<Rc<S::Local>, Refusal> {
        if self.event_loop.core.is_draining() {
            return Err(Refusal::unavailable("the node is draining: it is about to stop").and_close());
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
