use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};
use rustls::ClientConnection;

use ladoga_tls::client::TlsClient;

use crate::stats::ConnectionError;

/// TLS over a socket that does not wait. What is sent is encrypted at once, and stays here until the socket takes it.
#[derive(Debug)]
pub(super) struct Secure {
    session: ClientConnection,
    client: TlsClient,
    /// Decrypted bytes that were not read yet: the socket does not become readable for them again.
    readable: usize,
}

impl Secure {
    pub(super) fn new(client: &TlsClient) -> Result<Self, ConnectionError> {
        let mut session = client.session().map_err(|error| failed(client, error))?;
        session.set_buffer_limit(None); // A request is bounded by who makes it.
        Ok(Self { session, client: client.clone(), readable: 0 })
    }

    /// Continues the handshake as far as the socket permits; true once it is complete.
    pub(super) fn shake_hands(&mut self, socket: &OwnedFd) -> Result<bool, ConnectionError> {
        loop {
            self.flush(socket)?;
            if !self.session.is_handshaking() {
                return Ok(!self.wants_write());
            }
            if self.wants_write() || !self.read_socket(socket)? {
                return Ok(false);
            }
        }
    }

    pub(super) fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    pub(super) const fn has_more(&self) -> bool {
        self.readable > 0
    }

    pub(super) fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> Result<(), Errno> {
        self.session.writer().write_all(bytes).map_err(|error| errno(&error))?;
        self.flush(socket)
    }

    /// Hands over what the socket takes.
    pub(super) fn flush(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Socket(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(errno(&error)),
            }
        }
        Ok(())
    }

    /// What arrived; none if nothing did, zero if the peer closed.
    pub(super) fn receive(
        &mut self,
        socket: &OwnedFd,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, ConnectionError> {
        while self.readable == 0 {
            if self.session.wants_write() {
                self.flush(socket)?; // An answer of TLS itself, such as to a change of keys.
            }
            match self.read_socket(socket) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(ConnectionError::Closed) => return Ok(Some(0)),
                Err(error) => return Err(error),
            }
        }
        let read = self.session.reader().read(buffer).map_err(|error| errno(&error))?;
        self.readable -= read;
        Ok(Some(read))
    }

    /// Reads and decrypts; false if the socket has nothing.
    fn read_socket(&mut self, socket: &OwnedFd) -> Result<bool, ConnectionError> {
        match self.session.read_tls(&mut Socket(socket)) {
            Ok(0) => return Err(ConnectionError::Closed),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(errno(&error).into()),
        }
        let state = self.session.process_new_packets().map_err(|error| failed(&self.client, error))?;
        self.readable = state.plaintext_bytes_to_read();
        if self.readable == 0 && state.peer_has_closed() {
            return Err(ConnectionError::Closed);
        }
        Ok(true)
    }
}

fn failed(client: &TlsClient, error: rustls::Error) -> ConnectionError {
    ConnectionError::Tls(client.in_words(io::Error::other(error)).to_string())
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::PROTO)
}

/// A socket as TLS reads and writes it.
struct Socket<'a>(&'a OwnedFd);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match net::recv(self.0, buffer, RecvFlags::empty()) {
            Ok((_, received)) => Ok(received),
            Err(Errno::INTR) => Err(ErrorKind::WouldBlock.into()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match net::send(self.0, bytes, SendFlags::NOSIGNAL) {
            Ok(sent) => Ok(sent),
            Err(Errno::INTR) => Err(ErrorKind::WouldBlock.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
