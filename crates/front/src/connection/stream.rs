use std::future::poll_fn;
use std::io;
use std::task::Poll;

use bytes::Bytes;
use ladoga_runtime::{Displaced, Permit};
use ladoga_service::{Piece, StoreError};

use super::link::Link;

/// An answer that is too large for memory, or for the buffers of a connection. It is written past hyper, which wants
/// every chunk in one buffer: so a value of 64 MiB is one chunk of a range, and takes the memory of a piece.
pub(crate) struct Streamed {
    /// The head, ready to be sent.
    pub(crate) head: Vec<u8>,
    /// The body, as far as it has been read: what fails up to here is a refusal, and later breaks the connection.
    pub(crate) first: Option<Piece>,
    /// What comes after the body.
    pub(crate) end: &'static [u8],
    /// Whether the connection takes another request then.
    pub(crate) keeps_alive: bool,
    /// The right to it, where it takes memory.
    pub(crate) permit: Option<Permit>,
}

/// What takes a connection from hyper.
pub(crate) enum Takeover {
    /// An answer; hyper may have the connection back after it.
    Stream(Streamed),
    /// Another protocol, up to the end of the connection.
    Peer,
}

/// Why an answer was cut off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The client is gone.
    #[error("the connection broke: {0}")]
    Socket(#[from] io::Error),
    /// The rest cannot be read.
    #[error("the rest of an answer cannot be read: {0}")]
    Store(#[from] StoreError),
    /// The client takes it so slowly that it has to give way.
    #[error("the client took the answer slowly, and others wanted its place")]
    Displaced(#[from] Displaced),
}

/// Writes an answer as fast as the client takes it, with one piece read ahead. Answers whether the connection is
/// kept alive.
pub(crate) async fn write_stream(link: &Link, streamed: Streamed) -> Result<bool, StreamError> {
    let mut unsent = streamed.head;
    let mut piece = streamed.first;
    let permit = streamed.permit.as_ref();
    while let Some((bytes, rest)) = piece {
        let next = rest.next();
        write_piece(link, permit, &mut unsent, &bytes).await?;
        link.sent(bytes.len());
        piece = next.await?;
    }
    unsent.extend_from_slice(streamed.end);
    write_unless_displaced(link, permit, &unsent).await?;
    drop(streamed.permit);
    Ok(streamed.keeps_alive)
}

/// Below this, a head goes into one packet with the first bytes of its body.
const TOGETHER_BYTES_MAX: usize = 16 << 10;

async fn write_piece(
    link: &Link,
    permit: Option<&Permit>,
    unsent: &mut Vec<u8>,
    bytes: &Bytes,
) -> Result<(), StreamError> {
    let mut rest: &[u8] = bytes;
    if !unsent.is_empty() {
        let (first, others) = rest.split_at(rest.len().min(TOGETHER_BYTES_MAX));
        unsent.extend_from_slice(first);
        write_unless_displaced(link, permit, unsent).await?;
        unsent.clear();
        rest = others;
    }
    write_unless_displaced(link, permit, rest).await
}

/// Writes all the bytes, unless the client takes them so slowly that it has to give way.
async fn write_unless_displaced(
    link: &Link,
    permit: Option<&Permit>,
    mut bytes: &[u8],
) -> Result<(), StreamError> {
    let Some(permit) = permit else { return Ok(write_all(link, bytes).await?) };
    while !bytes.is_empty() {
        let count = poll_fn(|context| {
            if let Poll::Ready(displaced) = permit.poll_displaced(context) {
                return Poll::Ready(Err(StreamError::from(displaced)));
            }
            let written = link.poll_write(context, bytes);
            match &written {
                Poll::Pending => permit.waits(),
                Poll::Ready(Ok(count)) => {
                    permit.moved(*count as u64);
                    permit.rests();
                }
                Poll::Ready(Err(_)) => {}
            }
            written.map_err(StreamError::from)
        });
        match count.await? {
            0 => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// Writes all the bytes.
pub(crate) async fn write_all(link: &Link, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match poll_fn(|context| link.poll_write(context, bytes)).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}
