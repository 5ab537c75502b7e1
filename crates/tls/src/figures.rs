use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::Error;

/// Why a handshake came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// What came is no TLS.
    NotTls,
    /// It did not come in time.
    Timeout,
    /// The other side left.
    Closed,
    /// Others needed the room that it took.
    Displaced,
    /// A certificate was demanded, and none was shown.
    NoCertificate,
    /// The certificate that was shown does not count.
    BadCertificate,
    /// Both have no version, cipher or protocol in common.
    Incompatible,
    /// The other side refused, which may be because of our certificate.
    Refused,
    /// Something else.
    Other,
}

impl Failure {
    /// All of them.
    pub const ALL: [Failure; 9] = [
        Failure::NotTls,
        Failure::Timeout,
        Failure::Closed,
        Failure::Displaced,
        Failure::NoCertificate,
        Failure::BadCertificate,
        Failure::Incompatible,
        Failure::Refused,
        Failure::Other,
    ];

    /// Its name in figures.
    pub const fn word(self) -> &'static str {
        match self {
            Failure::NotTls => "not_tls",
            Failure::Timeout => "timeout",
            Failure::Closed => "closed",
            Failure::Displaced => "displaced",
            Failure::NoCertificate => "no_certificate",
            Failure::BadCertificate => "bad_certificate",
            Failure::Incompatible => "incompatible",
            Failure::Refused => "refused",
            Failure::Other => "other",
        }
    }

    /// What an error of a handshake is.
    pub fn of(error: &io::Error) -> Failure {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            None => Failure::Closed,
            Some(Error::InvalidMessage(_)) => Failure::NotTls,
            Some(Error::NoCertificatesPresented) => Failure::NoCertificate,
            Some(Error::InvalidCertificate(_)) => Failure::BadCertificate,
            Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => Failure::Incompatible,
            Some(Error::AlertReceived(_)) => Failure::Refused,
            Some(_) => Failure::Other,
        }
    }
}

/// What the TLS of a node counts.
#[derive(Debug, Default)]
pub struct Figures {
    handshakes: AtomicU64,
    failures: [AtomicU64; Failure::ALL.len()],
    peers_refused: AtomicU64,
    reloads: AtomicU64,
    reloads_failed: AtomicU64,
}

impl Figures {
    /// A handshake is complete.
    pub fn handshake(&self) {
        self.handshakes.fetch_add(1, Ordering::Relaxed);
    }

    /// One came to nothing.
    pub fn failed(&self, failure: Failure) {
        self.failures[failure as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody asked for the protocol of nodes, and is none by its certificate.
    pub fn peer_refused(&self) {
        self.peers_refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reloaded(&self, is_success: bool) {
        let count = if is_success { &self.reloads } else { &self.reloads_failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Handshakes that were complete.
    pub fn handshakes(&self) -> u64 {
        self.handshakes.load(Ordering::Relaxed)
    }

    /// Those that came to nothing, by their reason.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Failure::ALL
            .into_iter()
            .map(|failure| (failure.word(), self.failures[failure as usize].load(Ordering::Relaxed)))
    }

    /// Who asked for the protocol of nodes in vain.
    pub fn peers_refused(&self) -> u64 {
        self.peers_refused.load(Ordering::Relaxed)
    }

    /// How often the files were read anew, and how often that failed.
    pub fn reloads(&self) -> (u64, u64) {
        (self.reloads.load(Ordering::Relaxed), self.reloads_failed.load(Ordering::Relaxed))
    }
}
