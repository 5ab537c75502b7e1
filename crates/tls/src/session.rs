use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, Connection, ServerConfig, ServerConnection};

use super::records::Records;

/// The certificate of the other side, and those between it and an authority.
pub type Chain<'c> = &'c [CertificateDer<'static>];

/// One connection, without its I/O: that is done by who is given, which answers [`ErrorKind::WouldBlock`] if it would have to wait, and
/// sees to it that its caller is then woken.
///
/// Protocol: `shake_hands+ (read | write | poll_end)* close?`, where each one that would have to wait is called again.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    /// What of it has arrived.
    records: Records,
    /// Decrypted bytes that were not read yet: the socket does not become readable for them again.
    readable: usize,
    /// The other side has said everything.
    has_ended: bool,
    /// Bytes that are encrypted, and that nobody was told of: not all of them are out.
    untold: usize,
    /// This side has said everything.
    is_closed: bool,
}

/// How much is discarded at once of what arrives after the end.
const DISCARDED_BYTES: usize = 4096;

impl Session {
    /// Of a server.
    pub fn accept(config: Arc<ServerConfig>) -> Result<Session, rustls::Error> {
        Ok(Session::of(ServerConnection::new(config)?.into()))
    }

    /// Of a client.
    pub fn connect(connection: ClientConnection) -> Session {
        Session::of(connection.into())
    }

    fn of(connection: Connection) -> Session {
        Session {
            connection,
            records: Records::default(),
            readable: 0,
            has_ended: false,
            untold: 0,
            is_closed: false,
        }
    }

    /// Makes the handshake.
    pub fn shake_hands(&mut self, io: &mut (impl Read + Write)) -> io::Result<()> {
        loop {
            self.flush(io)?;
            if !self.connection.is_handshaking() {
                return Ok(());
            }
            self.receive(io)?;
            if self.has_ended {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// What the other side has shown, once the handshake is complete.
    pub fn certificates(&self) -> Option<Chain<'_>> {
        self.connection.peer_certificates()
    }

    /// Reads what was sent; no bytes at its end. An end of the connection is one, too: what must not be cut short says how long it is.
    pub fn read(&mut self, io: &mut (impl Read + Write), buffer: &mut [u8]) -> io::Result<usize> {
        if self.wait_readable(io)? == 0 {
            return Ok(0);
        }
        let count = self.connection.reader().read(buffer)?;
        self.readable -= count;
        Ok(count)
    }

    /// As [`Session::read`], into memory of its own, of up to `bytes_max`.
    pub fn read_new(&mut self, io: &mut (impl Read + Write), bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.wait_readable(io)?.min(bytes_max)];
        let count = self.read(io, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// How many bytes can be read at once; none at the end.
    pub fn wait_readable(&mut self, io: &mut (impl Read + Write)) -> io::Result<usize> {
        while self.readable == 0 && !self.has_ended {
            self.receive(io)?;
        }
        Ok(self.readable)
    }

    /// Whether a part of what the other side says has arrived which cannot be read before the rest is there.
    pub const fn is_within_record(&self) -> bool {
        self.records.is_within_one()
    }

    /// Takes in what arrives until nothing more does, or something can be read. Answers whether the other side has said everything.
    pub fn has_ended(&mut self, io: &mut (impl Read + Write)) -> io::Result<bool> {
        match self.wait_readable(io) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            readable => Ok(readable? == 0),
        }
    }

    /// Writes of both, the first ones first. Answers how many bytes are out.
    ///
    /// What is encrypted has to be sent. If it would have to wait, it is called again with the same bytes, or with more behind them.
    pub fn write(&mut self, io: &mut (impl Read + Write), first: &[u8], second: &[u8]) -> io::Result<usize> {
        let given = first.len() + second.len();
        if self.untold == 0 {
            // What waits may be of TLS itself.
            self.flush(io)?;
            self.untold =
                self.connection.writer().write_vectored(&[IoSlice::new(first), IoSlice::new(second)])?;
        }
        self.flush(io)?;
        let told = self.untold.min(given);
        self.untold -= told;
        Ok(told)
    }

    /// Says that nothing more is written, as far as that needs no waiting.
    pub fn close(&mut self, io: &mut impl Write) {
        self.is_closed = true;
        self.connection.send_close_notify();
        // If it does not go out, the end of the connection says as much.
        let _ = self.flush(io);
    }

    fn flush(&mut self, io: &mut impl Write) -> io::Result<()> {
        while self.connection.wants_write() {
            if self.connection.write_tls(io)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    fn receive(&mut self, io: &mut (impl Read + Write)) -> io::Result<()> {
        if self.is_closed {
            // Of no use, whatever it is: the library would want to send an alert about what is malformed, after its last message.
            self.has_ended = io.read(&mut [0; DISCARDED_BYTES])? == 0;
            return Ok(());
        }
        if self.connection.read_tls(&mut self.records.watch(io))? == 0 {
            self.has_ended = true;
            return Ok(());
        }
        match self.connection.process_new_packets() {
            Ok(state) => {
                self.readable = state.plaintext_bytes_to_read();
                self.has_ended = state.peer_has_closed();
                Ok(())
            }
            Err(error) => {
                // The other side is told why, if that needs no waiting.
                let _ = self.flush(io);
                Err(io::Error::new(ErrorKind::InvalidData, error))
            }
        }
    }
}
