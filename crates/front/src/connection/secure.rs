use std::cell::{RefCell, RefMut};
use std::io::{self, Read, Write};

use ladoga_tls::{Chain, Session};

/// The session of a connection with TLS, as all who deal with the connection share it.
pub(crate) struct Secure(Box<RefCell<Session>>);

impl Secure {
    pub(super) fn new(session: Session) -> Secure {
        Secure(Box::new(RefCell::new(session)))
    }

    /// The session. Borrowed for a moment only.
    pub(super) fn session(&self) -> RefMut<'_, Session> {
        self.0.borrow_mut()
    }

    /// Calls `look` with what the client has shown.
    pub(crate) fn with_certificates<T>(&self, look: impl FnOnce(Option<Chain<'_>>) -> T) -> T {
        look(self.0.borrow().certificates())
    }

    /// Reads into memory of its own, of up to `bytes_max`.
    pub(super) fn read_new(&self, io: &mut (impl Read + Write), bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut session = self.session();
        let mut bytes = vec![0; session.wait_readable(io)?.min(bytes_max)];
        let count = session.read(io, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }
}
