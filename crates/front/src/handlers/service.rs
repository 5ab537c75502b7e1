use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use ladoga_http1::server::Request;
use ladoga_model::Replicas;
use ladoga_runtime::Operation;
use ladoga_service::{Context, Error, KeyValue, Later};

use super::{entity, put, range};
use crate::admin;
use crate::connection::{Link, Streamed};
use crate::door::Door;
use crate::http::{Answer, EntityTarget, Refusal, operation};

/// Serves a request.
pub(crate) fn handle<K: KeyValue>(
    door: &Rc<Door<K>>,
    link: &Rc<Link>,
    request: Request,
) -> (Option<Operation>, Reply) {
    let call = Call { door, link, waited_ms: 0 };
    match operation(&request.method, request.uri.path()) {
        Ok(operation) => {
            let reply = call.reply(operation, request);
            (Some(operation), reply.unwrap_or_else(|refusal| Reply::Now(refusal.into())))
        }
        Err(refusal) => (None, Reply::Now(refusal.into())),
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
    fn reply(&self, operation: Operation, request: Request) -> Result<Reply, Refusal> {
        let door = self.door;
        match operation {
            Operation::Get | Operation::Head | Operation::Put | Operation::Delete => {
                self.entity(operation, request)
            }
            Operation::Range => range::range(self, &request),
            Operation::Status => admin::status(door).map(Reply::now),
            Operation::Cluster => admin::cluster(door).map(Reply::now),
            Operation::Peer => admin::admit_peer(door, &request).map(|()| Reply::Now(Outcome::Peer)),
            Operation::Repair => admin::repair(door).map(Reply::now),
            Operation::Metrics => admin::metrics(door, &request).map(Reply::now),
            Operation::Profile => {
                let profile = admin::profile(&door.core, self.link, &request.uri)?;
                Ok(Reply::later(async move { Ok(Outcome::Answer(profile.await?)) }))
            }
        }
    }

    /// A request for one entity. What is wrong with it is told before anything is waited for.
    fn entity(&self, operation: Operation, request: Request) -> Result<Reply, Refusal> {
        let target = EntityTarget::parse(request.uri, self.door.nodes).map_err(Refusal::bad_request)?;
        let bytes = if operation == Operation::Put { put::value_bytes(request.body)? } else { 0 };
        self.once_it_is_ready(move |call| match operation {
            Operation::Put => put::put(call, target, bytes),
            Operation::Delete => entity::delete(call, target),
            _ => entity::get(call, operation, &target),
        })
    }

    /// Serves a request at once, or once the service is ready.
    pub(super) fn once_it_is_ready(
        &self,
        serve: impl FnOnce(&Call<'_, K>) -> Result<Reply, Refusal> + 'static,
    ) -> Result<Reply, Refusal> {
        let Some(ready) = self.door.opening.get().and_then(|service| service.until_ready()) else {
            return serve(self);
        };
        let (door, link) = (Rc::clone(self.door), Rc::clone(self.link));
        Ok(Reply::later(async move {
            let waited_ms = unless_left(&link, ready).await?;
            let call = Call { door: &door, link: &link, waited_ms };
            Ok(serve(&call)?.outcome().await)
        }))
    }

    /// What the request says, in the words of the service.
    pub(super) fn context(&self, replicas: Replicas) -> Context {
        Context { replicas, waited_ms: self.waited_ms }
    }

    /// The service, unless the node does not serve.
    pub(super) fn service(&self) -> Result<&'c Rc<K>, Error> {
        self.door.service()
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

/// What becomes of a request.
pub(crate) enum Outcome {
    /// An answer in memory.
    Answer(Answer),
    /// One that is not.
    Stream(Streamed),
    /// None: the connection is a peer's from now on.
    Peer,
}

/// What becomes of a request, now or later.
pub(crate) enum Reply {
    /// It is known.
    Now(Outcome),
    /// It takes time.
    Later(Pin<Box<dyn Future<Output = Outcome>>>),
}

impl Reply {
    pub(super) fn now(answer: Answer) -> Reply {
        Reply::Now(Outcome::Answer(answer))
    }

    pub(super) fn later(outcome: impl Future<Output = Result<Outcome, Refusal>> + 'static) -> Reply {
        Reply::Later(Box::pin(async move { outcome.await.unwrap_or_else(Outcome::from) }))
    }

    /// What becomes of it in the end.
    pub(super) async fn outcome(self) -> Outcome {
        match self {
            Reply::Now(outcome) => outcome,
            Reply::Later(outcome) => outcome.await,
        }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Outcome {
        Outcome::Answer(refusal.into())
    }
}
