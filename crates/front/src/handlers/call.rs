use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use ladoga_model::Replicas;
use ladoga_runtime::AccessKind;
use ladoga_service::{Context, Error, KeySpan, KeyValue, Later, Precondition};

use crate::connection::{Following, Link, StreamError, Streamed};
use crate::door::Door;
use crate::http::{Answer, BatchTarget, ConditionError, EntityTarget, Refusal};

/// A request, and where it came from.
pub(super) struct Call<'c, K: KeyValue> {
    pub(super) door: &'c Rc<Door<K>>,
    pub(super) link: &'c Rc<Link>,
    /// How long it has waited until this node was ready.
    pub(super) waited_ms: u64,
}

impl<'c, K: KeyValue> Call<'c, K> {
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
            link.asked.waited(|waits| waits.ready_ns = waited_ms * 1_000_000);
            let call = Call { door: &door, link: &link, waited_ms };
            serve(&call)?.outcome().await
        }))
    }

    /// Refuses a key that who asks has nothing to do with; else it is what the request is about.
    pub(super) fn admit_key(&self, kind: AccessKind, key: &[u8]) -> Result<(), Refusal> {
        let checked = self.link.caller().map_or(Ok(()), |caller| caller.check_key(key));
        checked.map_err(Refusal::denied)?;
        self.link.asked.note_key(key);
        self.door.core.count_access(kind, key);
        Ok(())
    }

    /// The same of a range.
    pub(super) fn check_span(&self, span: &KeySpan) -> Result<(), Refusal> {
        self.link.caller().map_or(Ok(()), |caller| caller.check_span(span)).map_err(Refusal::denied)
    }

    /// Whether who asks may be told why the node does not serve.
    pub(super) fn is_trusted(&self) -> bool {
        self.door.access.guard.is_none() || self.link.caller().is_some()
    }

    /// The request's context for the service.
    pub(super) fn context(&self, replicas: Replicas) -> Context {
        let trace = self.link.asked.trace(replicas);
        Context { waited_ms: self.waited_ms, trace, ..Context::new(replicas) }
    }

    /// The same of a write.
    pub(super) fn write_context(&self, target: &EntityTarget, precondition: Precondition) -> Context {
        let (ttl, durability) = (target.ttl(), target.durability());
        Context { precondition, ttl, durability, ..self.context(target.replicas()) }
    }

    /// The same of the lines of a batch, beside what each says itself.
    pub(super) fn batch_context(&self, target: BatchTarget) -> Context {
        Context { durability: target.durability, ..self.context(target.replicas) }
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
    Stream(Box<Streamed>),
    /// One that has no end.
    Follow(Following),
    /// One with the status 200 that is written while the body of the request is read.
    Exchange(Pin<Box<dyn Future<Output = Result<(), StreamError>>>>),
    /// None: the connection is a peer's from now on, to be served by the event loop of this number, if the peer has named one.
    Peer(Option<usize>),
}

/// What becomes of a request, now or later.
pub(crate) enum Reply {
    /// It is known.
    Now(Outcome),
    /// It takes time.
    Later(Later<Result<Outcome, Refusal>>),
}

impl Reply {
    pub(super) fn now(answer: Answer) -> Reply {
        Reply::Now(Outcome::Answer(answer))
    }

    pub(super) fn later(outcome: impl Future<Output = Result<Outcome, Refusal>> + 'static) -> Reply {
        Reply::Later(Box::pin(outcome))
    }

    /// The outcome, once it is known.
    pub(super) async fn outcome(self) -> Result<Outcome, Refusal> {
        match self {
            Reply::Now(outcome) => Ok(outcome),
            Reply::Later(outcome) => outcome.await,
        }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Outcome {
        Outcome::Answer(refusal.into())
    }
}

/// What depends on what is there needs a majority that agrees on it.
pub(super) fn check_majority(replicas: Replicas) -> Result<(), Refusal> {
    let Replicas { ack, from } = replicas;
    if replicas.is_quorum() {
        Ok(())
    } else {
        Err(Refusal::bad_request(ConditionError::NoMajority { ack, from }))
    }
}
