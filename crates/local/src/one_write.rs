use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_service::{Error, Later, Upload};

use crate::store::{LocalStore, StoreError};

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

/// Has a store apply a cell.
pub(crate) fn apply<S: LocalStore>(
    store: &S,
    key: &[u8],
    stamp: Stamp,
    value: Option<Value<Bytes, <S::Upload as Upload>::Finished>>,
) -> S::Apply {
    let apply = |value| store.apply([(key, Cell { stamp, value })]);
    match value {
        Some(Value::Inline(bytes)) => apply(Some(Value::Inline(&bytes[..]))),
        Some(Value::Large(upload)) => apply(Some(Value::Large(upload))),
        None => apply(None),
    }
}
