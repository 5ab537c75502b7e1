use std::future::Future;
use std::pin::Pin;

use crate::connection::Streamed;
use crate::http::{Answer, Refusal};

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
