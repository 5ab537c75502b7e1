use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::mem::take;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, ready};

use hyper::body::{Body, Incoming};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode, Uri};
use ladoga_model::Replicas;
use ladoga_runtime::Operation;
use ladoga_service::{Context, Error, KeyValue, Later};

use super::reply::{Outcome, Reply};
use super::{cluster, entity, profile, put, range, status};
use crate::connection::{Link, Takeover};
use crate::door::Door;
use crate::http::{Answer, EntityTarget, HEADERS_BYTES_MAX, Head, Refusal, Route, route};

/// What hyper hands the requests of a connection to.
pub(crate) struct Service<K: KeyValue> {
    door: Rc<Door<K>>,
    link: Rc<Link>,
}

impl<K: KeyValue> Service<K> {
    pub(crate) fn new(door: Rc<Door<K>>, link: Rc<Link>) -> Service<K> {
        Service { door, link }
    }
}

impl<K: KeyValue> hyper::service::Service<Request<Incoming>> for Service<K> {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering<K>;

    fn call(&self, request: Request<Incoming>) -> Answering<K> {
        self.link.request_begins(!request.body().is_end_stream());
        let started_ns = self.door.core.clock.monotonic_ns();
        let call = Call { door: &self.door, link: &self.link, waited_ms: 0 };
        let (operation, reply) = call.handle(request);
        Answering {
            door: Rc::clone(&self.door),
            link: Rc::clone(&self.link),
            operation,
            started_ns,
            state: State::Waiting(reply),
        }
    }
}

/// A request, and where it came from.
pub(super) struct Call<'c, K: KeyValue> {
    pub(super) door: &'c Rc<Door<K>>,
    pub(super) link: &'c Rc<Link>,
    /// How long it has waited until this node was ready.
    pub(super) waited_ms: u64,
}

impl<'c, K: KeyValue> Call<'c, K> {
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
        (route.into(), reply.unwrap_or_else(|refusal| Reply::now(head.refusal(refusal))))
    }

    /// A request for one entity. What is wrong with it is told before anything is waited for.
    fn entity(&self, route: Route, uri: Uri, body: Incoming, head: &mut Head) -> Result<Reply, Refusal> {
        let target = EntityTarget::parse(uri, self.door.nodes).map_err(Refusal::bad_request)?;
        if route == Route::Put {
            put::value_bytes(head, &body)?;
        }
        self.once_it_is_ready(head, move |call, head| match route {
            Route::Put => put::put(call, target, body, head),
            Route::Delete => entity::delete(call, target, head),
            _ => entity::get(call, route, &target, head),
        })
    }

    /// Serves a request at once, or once the service is ready.
    pub(super) fn once_it_is_ready(
        &self,
        head: &mut Head,
        serve: impl FnOnce(&Call<'_, K>, &mut Head) -> Result<Reply, Refusal> + 'static,
    ) -> Result<Reply, Refusal> {
        let Some(ready) = self.door.opening.get().and_then(|service| service.until_ready()) else {
            return serve(self, head);
        };
        let (door, link) = (Rc::clone(self.door), Rc::clone(self.link));
        Ok(Reply::later_or(take(head), async move |head| {
            let waited_ms = unless_left(&link, ready).await?;
            let call = Call { door: &door, link: &link, waited_ms };
            Ok(serve(&call, head)?.outcome().await)
        }))
    }

    /// What the request says, in the words of the service.
    pub(super) fn context(&self, replicas: Replicas) -> Context {
        Context { replicas, waited_ms: self.waited_ms }
    }

    /// The service, unless the node does not serve.
    pub(super) fn service(&self) -> Result<&'c Rc<K>, Error> {
        if self.door.core.is_draining() {
            return Err(Error::Draining);
        }
        self.door.opening.get().ok_or(Error::Opening)
    }
}

/// How long the service was waited for, unless the client leaves before it is ready.
async fn unless_left(link: &Link, mut ready: Later<Result<u64, Error>>) -> Result<u64, Refusal> {
    poll_fn(|context| {
        if let Poll::Ready(waited_ms) = ready.as_mut().poll(context) {
            return Poll::Ready(Ok(waited_ms?));
        }
        if link.poll_left(context).is_ready() {
            let reason = "the connection was closed for sending while its request waited for other nodes, expected it to \
                          stay open";
            return Poll::Ready(Err(Refusal::unavailable(reason).and_close()));
        }
        Poll::Pending
    })
    .await
}

enum State {
    Waiting(Reply),
    TakenOver(Option<Takeover>),
    Done,
}

/// A request being answered.
pub(crate) struct Answering<K: KeyValue> {
    door: Rc<Door<K>>,
    link: Rc<Link>,
    operation: Operation,
    started_ns: u64,
    state: State,
}

impl<K: KeyValue> Answering<K> {
    fn decided(&self, status: StatusCode) {
        let core = &self.door.core;
        let duration_ns = core.clock.monotonic_ns().saturating_sub(self.started_ns);
        core.metrics.answered(self.operation, status.as_u16(), duration_ns);
    }
}

impl<K: KeyValue> Future for Answering<K> {
    type Output = Result<Answer, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if let State::Waiting(Reply::Later(outcome)) = &mut self.state {
            let outcome = ready!(outcome.as_mut().poll(context));
            self.state = State::Waiting(Reply::Now(outcome));
        }
        match std::mem::replace(&mut self.state, State::Done) {
            State::Waiting(Reply::Now(Outcome::Answer(answer))) => {
                self.decided(answer.status());
                self.link.answer_begins();
                self.door.core.metrics.sent(answer.body().bytes());
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
