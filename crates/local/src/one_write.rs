use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ladoga_model::Version;
use ladoga_service::{Error, Later};

use crate::store::StoreError;

/// A write under way. What most of them are is small: it is moved several times.
pub(crate) enum OneWrite<P> {
    /// The store has it. It has this version, unless it got another one at the gate.
    Applied(P, Version),
    /// It waits for something else, too.
    Later(Later<Result<Version, Error>>),
    /// It is refused.
    Refused(Option<Error>),
}

impl<P: Future<Output = Result<Option<Version>, StoreError>> + Unpin> Future for OneWrite<P> {
    type Output = Result<Version, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            OneWrite::Applied(applied, version) => {
                let applied = ready!(Pin::new(applied).poll(context));
                Poll::Ready(applied.map(|renewed| renewed.unwrap_or(*version)).map_err(Error::from))
            }
            OneWrite::Later(written) => written.as_mut().poll(context),
            OneWrite::Refused(error) => Poll::Ready(Err(error.take().expect("it is told once"))),
        }
    }
}
