//! Another implementation, to compare with.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use http::{Request, Response, StatusCode};
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;

use super::reading::{End, LIMITS, Seen, read};

/// Bytes that have all arrived, of a client that listens to nothing.
struct Arrived<'b>(&'b [u8]);

impl Read for Arrived<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let (now, later) = self.0.split_at(self.0.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.0 = later;
        Poll::Ready(Ok(()))
    }
}

impl Write for Arrived<'_> {
    fn poll_write(self: Pin<&mut Self>, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The requests that hyper sees, with whole bodies.
fn read_by_hyper(bytes: &[u8]) -> Vec<Seen> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (parts, mut body) = request.into_parts();
            let mut bytes = Vec::new();
            while let Some(frame) =
                std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
            {
                let Ok(frame) = frame else {
                    return Ok::<_, Infallible>(answer(StatusCode::BAD_REQUEST));
                };
                bytes.extend(frame.into_data().unwrap_or_default());
            }
            let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or("").to_owned());
            let method = parts.method.to_string();
            seen.borrow_mut().push(Seen { method, path, query, body: bytes });
            Ok(answer(StatusCode::NOT_FOUND))
        }
    });
    let mut builder = http1::Builder::new();
    builder.half_close(true).header_read_timeout(None).max_headers(LIMITS.fields_bytes_max);
    let mut connection = pin!(builder.serve_connection(Arrived(bytes), service));
    // All input is there, so a pending future is ready after one more poll.
    for _ in 0..=bytes.len() {
        if connection.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            break;
        }
    }
    seen.take()
}

fn answer(status: StatusCode) -> Response<String> {
    let mut answer = Response::new(String::new());
    *answer.status_mut() = status;
    answer
}

/// Panics if a connection sees a request in `bytes` that hyper does not see, or sees fewer without reporting an error.
pub(crate) fn compare(bytes: &[u8]) {
    let (ours, end) = read([bytes]);
    let theirs = read_by_hyper(bytes);
    let shown = bytes.escape_ascii();
    assert!(ours.len() <= theirs.len(), "more than hyper sees in {shown}: {ours:?}, hyper: {theirs:?}");
    assert_eq!(ours, theirs[..ours.len()], "other requests than hyper sees in {shown}");
    assert!(
        end != End::Done || ours.len() == theirs.len(),
        "fewer than hyper sees in {shown}: {ours:?}, {theirs:?}"
    );
}
