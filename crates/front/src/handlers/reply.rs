use std::future::Future;
use std::pin::Pin;

use crate::connection::Streamed;
use crate::http::{Answer, Head, Refusal};

/// What becomes of a request.
pub(super) enum Outcome {
    /// An answer in memory, which hyper writes.
    Answer(Answer),
    /// One that is written past it.
    Stream(Streamed),
    /// None: the connection is a peer's from now on.
    Peer,
}

/// What becomes of a request, now or later.
pub(super) enum Reply {
    /// It is known.
    Now(Outcome),
    /// It takes time.
    Later(Pin<Box<dyn Future<Output = Outcome>>>),
}

impl Reply {
    pub(super) fn now(answer: Answer) -> Reply {
        Reply::Now(Outcome::Answer(answer))
    }

    pub(super) fn later(outcome: impl Future<Output = Outcome> + 'static) -> Reply {
        Reply::Later(Box::pin(outcome))
    }

    /// What becomes of it in the end.
    pub(super) async fn outcome(self) -> Outcome {
        match self {
            Reply::Now(outcome) => outcome,
            Reply::Later(outcome) => outcome.await,
        }
    }

    /// What `outcome` comes to, or a refusal with `head`.
    pub(super) fn later_or(
        mut head: Head,
        outcome: impl AsyncFnOnce(&mut Head) -> Result<Outcome, Refusal> + 'static,
    ) -> Reply {
        Reply::later(async move {
            match outcome(&mut head).await {
                Ok(outcome) => outcome,
                Err(refusal) => Outcome::Answer(head.refusal(refusal)),
            }
        })
    }
}
