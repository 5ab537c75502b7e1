use std::net::SocketAddr;
use std::sync::Arc;

use crate::error::{LabError, Outcome};
use crate::http::{Batch, Captured};
use ladoga_tls::client::TlsClient;

/// Makes requests, one after the other.
pub(crate) trait Requests {
    /// Appends the next request of a connection, or several if they are to be pipelined. `connection` is the number of the
    /// connection among those of the thread. None if there are no more for it.
    fn next(&mut self, connection: usize, out: &mut Vec<u8>) -> Outcome<Option<Batch>>;

    /// How long to wait before the next request, in milliseconds. Called only if [`Source::has_delay`] is true.
    fn delay_ms(&mut self) -> Outcome<u64> {
        Ok(0)
    }

    /// An answer arrived. Called only if [`Source::wants_answers`] is true.
    fn answered(&mut self, _status: u16, _answer: &Captured) -> Outcome<()> {
        Ok(())
    }

    /// Whether the thread is to end its run now.
    fn should_stop(&self) -> bool {
        false
    }
}

/// A request that is always the same: made once, never copied.
#[derive(Debug, Clone)]
pub(crate) struct Fixed {
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) batch: Batch,
}

impl Fixed {
    pub(crate) fn new(bytes: &[u8]) -> Outcome<Self> {
        let batch = Batch::parse(bytes).map_err(|error| LabError::Script(error.to_string()))?;
        Ok(Self { bytes: bytes.into(), batch })
    }
}

/// The source of a thread's requests.
pub(crate) struct Source {
    /// Takes precedence over `requests` if there is one.
    pub(crate) fixed: Option<Fixed>,
    pub(crate) requests: Option<Box<dyn Requests>>,
    pub(crate) has_delay: bool,
    pub(crate) wants_answers: bool,
    /// Whether the requests are a script's, which may keep the thread for ever.
    pub(crate) is_scripted: bool,
}

impl Source {
    pub(crate) fn fixed(fixed: Fixed) -> Self {
        Self {
            fixed: Some(fixed),
            requests: None,
            has_delay: false,
            wants_answers: false,
            is_scripted: false,
        }
    }

    pub(crate) fn made(requests: Box<dyn Requests>) -> Self {
        Self {
            fixed: None,
            requests: Some(requests),
            has_delay: false,
            wants_answers: false,
            is_scripted: false,
        }
    }
}

/// What a thread needs before it can begin.
pub(crate) struct Station {
    pub(crate) address: SocketAddr,
    /// None for plain HTTP.
    pub(crate) tls: Option<TlsClient>,
    pub(crate) source: Source,
    /// Runs on the thread after its run, and may take until the thread is not needed any more.
    pub(crate) afterwards: Box<dyn FnOnce()>,
}

/// Makes the station of a thread, on that thread: a Lua state cannot move from one to another.
pub(crate) trait Maker: Send {
    fn make(self: Box<Self>) -> Outcome<Station>;
}
