use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ClientConnection;

use super::TlsClient;

/// What is read from the socket at once.
const READ_BYTES: usize = 16 << 10;
/// What is encrypted at once.
const WRITE_BYTES: usize = 16 << 10;

/// A connection that one thread writes while another one reads, with or without TLS. Its clones are the same connection.
#[derive(Debug, Clone)]
pub struct Duplex(Transport);

#[derive(Debug, Clone)]
enum Transport {
    Plain(Arc<TcpStream>),
    Secure(Arc<Secure>),
}

/// The session is held for computing only, never while the socket is waited for: or else who reads would keep out who writes.
#[derive(Debug)]
struct Secure {
    socket: TcpStream,
    tls: TlsClient,
    session: Mutex<ClientConnection>,
    /// Held while something is encrypted and sent: records have to go out in the order in which they are numbered.
    sending: Mutex<()>,
    /// What was read from the socket, and is not decrypted. Held by who reads.
    arrived: Mutex<Vec<u8>>,
}

impl Duplex {
    /// Makes the handshake, if there is TLS. `patience` is how long each read may take, and the handshake.
    pub fn open(
        mut socket: TcpStream,
        patience: Option<Duration>,
        tls: Option<&TlsClient>,
    ) -> io::Result<Duplex> {
        let Some(tls) = tls else {
            socket.set_read_timeout(patience)?;
            return Ok(Duplex(Transport::Plain(Arc::new(socket))));
        };
        let session = Mutex::new(tls.shake_hands(&mut socket, patience)?);
        let tls = tls.clone();
        Ok(Duplex(Transport::Secure(Arc::new(Secure {
            socket,
            tls,
            session,
            sending: Mutex::default(),
            arrived: Mutex::default(),
        }))))
    }

    /// Ends it in both directions: whoever waits for it does so no longer.
    pub fn shut_down(&self) {
        let socket = match &self.0 {
            Transport::Plain(socket) => socket,
            Transport::Secure(secure) => &secure.socket,
        };
        // It may be gone already.
        let _ = socket.shutdown(Shutdown::Both);
    }
}

impl Read for Duplex {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.0 {
            Transport::Plain(socket) => (&**socket).read(buffer),
            Transport::Secure(secure) => secure.read(buffer).map_err(|error| secure.tls.in_words(error)),
        }
    }
}

impl Write for Duplex {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Transport::Plain(socket) => (&**socket).write(bytes),
            Transport::Secure(secure) => secure.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Secure {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut arrived = self.arrived.lock();
        loop {
            match self.session.lock().reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // An end without a word of TLS is one all the same: an answer says how long it is.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if arrived.is_empty() {
                arrived.resize(READ_BYTES, 0);
                let read = (&self.socket).read(&mut arrived);
                arrived.truncate(*read.as_ref().unwrap_or(&0));
                read?;
            }
            let taken = self.take_in(&arrived)?;
            arrived.drain(..taken);
        }
    }

    /// Decrypts the first of the bytes, as many as the session has room for; answers how many. None at all are the end.
    fn take_in(&self, mut arrived: &[u8]) -> io::Result<usize> {
        let mut session = self.session.lock();
        let taken = session.read_tls(&mut arrived)?;
        session.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        let wants_write = session.wants_write();
        drop(session);
        if wants_write {
            self.send(&[])?;
        }
        Ok(taken)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(WRITE_BYTES)];
        self.send(bytes)?;
        Ok(bytes.len())
    }

    /// Encrypts all the bytes, and sends them behind what the session itself has to say.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let _sending = self.sending.lock();
        let mut records = Vec::new();
        let mut session = self.session.lock();
        session.writer().write_all(bytes)?;
        while session.wants_write() {
            session.write_tls(&mut records)?;
        }
        drop(session);
        (&self.socket).write_all(&records)
    }
}
