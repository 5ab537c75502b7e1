use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

/// The body of an answer that is in memory. What is not is written by [`crate::server`], past hyper.
pub(crate) enum Body {
    /// No bytes.
    Empty,
    /// These bytes.
    Full(Bytes),
    /// What `HEAD` has instead of this many bytes.
    Withheld(u64),
}

impl Body {
    /// Bytes that are all there.
    pub(crate) fn full(bytes: Bytes) -> Body {
        if bytes.is_empty() { Body::Empty } else { Body::Full(bytes) }
    }

    /// How many bytes are sent.
    pub(crate) fn bytes(&self) -> u64 {
        if let Body::Full(bytes) = self { bytes.len() as u64 } else { 0 }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match std::mem::replace(&mut *self, Body::Empty) {
            Body::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Body::Empty | Body::Withheld(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Body::Empty => 0,
            Body::Full(bytes) => bytes.len() as u64,
            Body::Withheld(bytes) => *bytes,
        })
    }
}
