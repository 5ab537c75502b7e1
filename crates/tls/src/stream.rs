use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use ladoga_env::{KeepAlive, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::session::Session;

/// A connection that a node makes to another, with TLS. As with any [`Stream`], what is written is not kept back.
pub(crate) struct TlsStream {
    stream: Box<dyn Stream>,
    session: Session,
}

impl TlsStream {
    /// Makes the handshake.
    pub(crate) async fn open(mut stream: Box<dyn Stream>, mut session: Session) -> io::Result<TlsStream> {
        std::future::poll_fn(|context| {
            polled(session.shake_hands(&mut Waiting { stream: &mut *stream, context }))
        })
        .await?;
        Ok(TlsStream { stream, session })
    }
}

impl Stream for TlsStream {
    fn peer_address(&self) -> io::Result<SocketAddr> {
        self.stream.peer_address()
    }

    fn keep_alive(&self, keep_alive: &KeepAlive) -> io::Result<()> {
        self.stream.keep_alive(keep_alive)
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let TlsStream { stream, session } = self.get_mut();
        let read = session
            .read(&mut Waiting { stream: &mut **stream, context }, buffer.initialize_unfilled())
            .map(|count| buffer.advance(count));
        polled(read)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let TlsStream { stream, session } = self.get_mut();
        polled(session.write(&mut Waiting { stream: &mut **stream, context }, bytes, &[]))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What was written is out.
        Pin::new(&mut *self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let TlsStream { stream, session } = self.get_mut();
        session.close(&mut Waiting { stream: &mut **stream, context });
        Pin::new(&mut **stream).poll_shutdown(context)
    }
}

/// A stream as a session has it.
struct Waiting<'w, 'c> {
    stream: &'w mut dyn Stream,
    context: &'w mut Context<'c>,
}

impl Read for Waiting<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(&mut *self.stream).poll_read(self.context, &mut buffer) {
            Poll::Ready(read) => read.map(|()| buffer.filled().len()),
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Waiting<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Pin::new(&mut *self.stream).poll_write(self.context, bytes) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match Pin::new(&mut *self.stream).poll_write_vectored(self.context, slices) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn polled<T>(done: io::Result<T>) -> Poll<io::Result<T>> {
    match done {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
        done => Poll::Ready(done),
    }
}
