use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Incoming};

use crate::http::Refusal;
use crate::server::Link;

/// Reads a value of `bytes` into memory. One that came in one piece, as most do, is not copied.
pub(super) async fn read_value(link: &Link, mut body: Incoming, bytes: u64) -> Result<Bytes, Refusal> {
    link.body_begins();
    let first = next_piece(link, &mut body).await?.unwrap_or_default();
    let value =
        if first.len() as u64 == bytes { first } else { read_rest(link, body, bytes, &first).await? };
    link.body_ends();
    Ok(value)
}

async fn read_rest(link: &Link, mut body: Incoming, bytes: u64, first: &[u8]) -> Result<Bytes, Refusal> {
    let mut value = BytesMut::with_capacity(bytes as usize);
    value.extend_from_slice(first);
    while let Some(piece) = next_piece(link, &mut body).await? {
        value.extend_from_slice(&piece);
    }
    check_complete(value.len() as u64, bytes)?;
    Ok(value.freeze())
}

/// Throws away what has arrived of a body of `bytes`, and answers whether that is all of it. What has not arrived when the
/// loop comes back from a look at the other connections is not waited for.
pub(super) async fn discard_arrived(link: &Link, mut body: Incoming, bytes: u64) -> bool {
    let (mut left, mut has_yielded) = (bytes, false);
    while left > 0 {
        let piece = poll_fn(|context| match Pin::new(&mut body).poll_frame(context) {
            Poll::Pending if has_yielded => Poll::Ready(None),
            Poll::Pending => {
                has_yielded = true;
                // By then hyper has asked the socket.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Ready(frame) => Poll::Ready(frame),
        });
        let Some(Ok(frame)) = piece.await else { return false };
        left = left.saturating_sub(frame.data_ref().map_or(0, |piece| piece.len() as u64));
        has_yielded = false;
    }
    link.body_ends();
    true
}

/// That a body has the length that its head promised. Hyper sees to it; what is stored depends on it, so does this.
pub(super) fn check_complete(found: u64, promised: u64) -> Result<(), Refusal> {
    if found == promised {
        return Ok(());
    }
    Err(Refusal::bad_request(format_args!("the body ended after {found} bytes, expected {promised}"))
        .and_close())
}

/// The next piece of a body, not empty; `None` at its end.
pub(super) async fn next_piece(link: &Link, body: &mut Incoming) -> Result<Option<Bytes>, Refusal> {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
            None => return Ok(None),
            Some(Ok(frame)) => {
                // Trailers are no part of a value.
                if let Ok(piece) = frame.into_data()
                    && !piece.is_empty()
                {
                    link.body_piece(piece.len());
                    return Ok(Some(piece));
                }
            }
            Some(Err(error)) => {
                return Err(Refusal::bad_request(format_args!("the body is incomplete: {error}")).and_close());
            }
        }
    }
}
