use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use ladoga_http1::server::{Connection, Overdue};
use ladoga_runtime::{Displaced, Permit, Taken};
use ladoga_server::Limits;
use ladoga_service::{Later, Piece, Pieces, StoreError};

use super::link::Link;
use crate::http::{ETag, Field};

/// An answer that is too large for memory.
pub(crate) struct Streamed {
    /// What it is.
    pub(crate) content_type: &'static str,
    /// The entity tag, if the body is one cell.
    pub(crate) etag: Option<ETag>,
    /// How long it is, if that is known.
    pub(crate) bytes: Option<u64>,
    /// When it expires, in milliseconds since 1970, if it does.
    pub(crate) expires: Option<Box<str>>,
    /// One more header field.
    pub(crate) field: Option<Field>,
    /// The body, as far as it has been read: what fails up to here is a refusal, and later breaks the connection.
    pub(crate) first: Option<Piece>,
    /// What may be written where a piece is empty, to show that more is coming, if anything may.
    pub(crate) alive: &'static [u8],
    /// The right to it.
    pub(crate) permit: Permit,
}

/// Why an answer was cut off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The client is gone.
    #[error("the connection broke: {0}")]
    Socket(#[from] io::Error),
    /// The rest cannot be read.
    #[error("the rest of the value or range cannot be read: {0}")]
    Store(#[from] StoreError),
    /// The client closed its side, and there was nothing to send by which its absence could be noticed.
    #[error("the client closed its side of the connection, and nothing was found for it since")]
    Left,
    /// The client reads so slowly that it has to give way.
    #[error("the client read the response too slowly while other requests waited")]
    Displaced(#[from] Displaced),
}

/// How long a client is left without a sign that its answer is being made.
pub(crate) const SILENCE_MS_MAX: u64 = 1_000;

/// The next piece of an answer. It is read while the client takes the one before, if there is memory for both.
pub(crate) fn next_piece(rest: Box<dyn Pieces>, limits: &Limits) -> Later<Result<Option<Piece>, StoreError>> {
    if limits.reads_ahead { rest.next() } else { Box::pin(async { rest.next().await }) }
}

/// Writes an answer, behind its head, as fast as the client takes it, with one piece read ahead if there is memory for it.
pub(crate) async fn write_stream(link: &Link, streamed: Streamed) -> Result<(), StreamError> {
    let Streamed { first: mut piece, alive, permit, bytes: promised, .. } = streamed;
    let (mut written_ms, mut sent_ms, mut sent_bytes) = (None, link.now_ms(), 0);
    while let Some((bytes, rest)) = piece {
        let next = next_piece(rest, link.limits());
        if bytes.is_empty() {
            // The head goes out at once: whoever asked has waited for it.
            if written_ms.is_none_or(|ms| link.now_ms() - ms >= SILENCE_MS_MAX) {
                write_unless_displaced(link, &permit, alive).await?;
                flush_unless_displaced(link, &permit).await?;
                link.sent(alive.len() as u64);
                written_ms = Some(link.now_ms());
                if !alive.is_empty() {
                    sent_ms = link.now_ms();
                }
            }
            if link.is_abandoned(sent_ms).await {
                return Err(StreamError::Left);
            }
            tokio::task::yield_now().await;
        } else {
            write_unless_displaced(link, &permit, &bytes).await?;
            link.sent(bytes.len() as u64);
            sent_bytes += bytes.len() as u64;
            sent_ms = link.now_ms();
            written_ms = Some(sent_ms);
        }
        drop(bytes);
        piece = next.await?;
    }
    match promised {
        // The client would take the next answer for the rest of this one.
        Some(promised) if sent_bytes != promised => Err(StoreError::Unreadable {
            reason: format!("it ended after {sent_bytes} bytes, expected {promised}"),
        }
        .into()),
        _ => Ok(()),
    }
}

/// Writes what is to be sent, unless the client takes it so slowly that it has to give way.
pub(crate) async fn flush_unless_displaced(link: &Link, permit: &Permit) -> Result<(), StreamError> {
    poll_fn(|context| {
        if let Poll::Ready(displaced) = permit.poll_displaced(context) {
            return Poll::Ready(Err(StreamError::from(displaced)));
        }
        let flushed = link.poll_flush(context);
        if flushed.is_pending() {
            wait_for_client(permit, link.take_drained());
        } else {
            permit.rests();
        }
        flushed.map_err(StreamError::from)
    })
    .await
}

impl Link {
    /// As [`Link::poll_flush`], of answers that have no permit: what they hold, and requests behind them, counts while the client does
    /// not take it.
    pub(crate) fn poll_flush_counted(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.poll_flush(context);
        self.unread.hold_beside(if flushed.is_pending() { self.http().buffered_bytes() } else { 0 });
        flushed
    }

    /// Whether the client has closed its side, and nothing was sent to it since `sent_ms` for as long as a client may take to
    /// read. One that is gone shows only when something is sent; one that has merely asked for everything looks the same.
    pub(crate) async fn is_abandoned(&self, sent_ms: u64) -> bool {
        let is_silent = self.now_ms() - sent_ms >= self.core.limits.answer_timeout_ms;
        is_silent && poll_fn(|context| Poll::Ready(self.poll_left(context).is_ready())).await
    }

    /// What the client took while nothing could be written to it, since this was asked last.
    pub(crate) fn take_drained(&self) -> u64 {
        self.socket.drain().take()
    }

    /// How many of these bytes, which were written, were not answered by [`Link::take_drained`] before.
    pub(crate) fn uncounted(&self, written: u64) -> u64 {
        self.socket.drain().uncounted(written)
    }

    /// Has a client that takes something, however slowly, count as one that does. Its task looks at what that was. One that is too slow
    /// gives what its answer holds to others.
    pub(super) fn look_at_drain(&self, http: &mut Connection, now_ms: u64) {
        let taken = self.socket.look_at_drain();
        if taken > 0 {
            http.drained(taken, now_ms);
            self.ending.wake();
        }
        let room = (&self.core.bodies, self.address());
        if self.unread.look(now_ms, taken, room) && self.ending.why().is_none() {
            self.core.metrics.displaced(Taken::Value);
            self.ending.end(Overdue::Answer);
        }
    }
}

/// The client is waited for, and has taken so many bytes since this was said last.
pub(crate) fn wait_for_client(permit: &Permit, taken_bytes: u64) {
    permit.waits();
    if taken_bytes > 0 {
        permit.moved(taken_bytes);
    }
}

/// Writes what is already queued and then all the bytes, unless the client takes them so slowly that it has to give way.
pub(super) async fn write_unless_displaced(
    link: &Link,
    permit: &Permit,
    mut bytes: &[u8],
) -> Result<(), StreamError> {
    while !bytes.is_empty() {
        let count = poll_fn(|context| {
            if let Poll::Ready(displaced) = permit.poll_displaced(context) {
                return Poll::Ready(Err(StreamError::from(displaced)));
            }
            let written = link.poll_write_behind(context, bytes);
            match &written {
                Poll::Pending => wait_for_client(permit, link.take_drained()),
                Poll::Ready(Ok(count)) => {
                    permit.moved(link.uncounted(*count as u64));
                    permit.rests();
                }
                Poll::Ready(Err(_)) => {}
            }
            written.map_err(StreamError::from)
        });
        bytes = &bytes[count.await?..];
    }
    Ok(())
}

/// Writes what is already queued and then all the bytes.
pub(crate) async fn write_all(link: &Link, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|context| link.poll_write_behind(context, bytes)).await?;
        bytes = &bytes[count..];
    }
    Ok(())
}

/// The same of an answer, which holds its memory until the client has taken it.
pub(crate) async fn write_counted(link: &Link, bytes: &[u8]) -> io::Result<()> {
    let _writing = link.unread.hold(bytes.len() as u64);
    write_all(link, bytes).await
}
