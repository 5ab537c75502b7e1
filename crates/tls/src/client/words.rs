//! What errors of TLS mean, and what to do about them.

use std::io;

use rustls::{AlertDescription, CertificateError, Error};

/// What a person can do, by the flags that this command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hints {
    /// If nobody who is trusted has signed the server's certificate.
    pub authority: &'static str,
    /// If the server demands a certificate.
    pub certificate: &'static str,
}

impl Hints {
    /// Of a node that asks another one.
    pub const PEER: Hints = Hints {
        authority: "Expected one that --peer-ca has signed",
        certificate: "Expected one that its --peer-ca has signed",
    };
}

/// A handshake that failed, in words; of the kind `InvalidData`, if it is a matter of TLS.
pub fn of_handshake(error: io::Error, hints: Hints) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return io::Error::other("the server closed the connection during the TLS handshake");
    }
    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        return io::Error::other("the server did not answer the TLS handshake in time");
    }
    of_connection(error, hints)
}

/// What is wrong with TLS, in words. It is within the errors that this module makes.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct TlsError(String);

/// Whether an error is a matter of TLS, and not of what is sent by it.
pub fn is_of_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<TlsError>)
}

/// A connection that failed: a server may refuse a certificate after the client has made the handshake.
pub fn of_connection(error: io::Error, hints: Hints) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(reason) => io::Error::new(io::ErrorKind::InvalidData, TlsError(of_tls(reason, hints))),
        None => error,
    }
}

fn of_tls(error: &Error, hints: Hints) -> String {
    match error {
        Error::InvalidMessage(_) => {
            "the server does not speak TLS. If it speaks plain HTTP, use http://".to_owned()
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            format!("no trusted authority has signed the server's certificate. {}", hints.authority)
        }
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            "the server's signature does not fit its certificate, or its key is not supported: expected RSA of 2048 bits or \
             more, ECDSA on P-256 or P-384, or Ed25519"
                .to_owned()
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "the server's certificate has expired".to_owned()
        }
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "the server's certificate does not count yet: see the clocks of both machines".to_owned(),
        Error::InvalidCertificate(
            name @ (CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }),
        ) => format!("the server's certificate is for another name: {name}"),
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            format!("the server demands a certificate. {}", hints.certificate)
        }
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError,
        ) => format!("the server does not trust the certificate that it was shown. {}", hints.certificate),
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "the certificate that the server was shown has expired".to_owned()
        }
        Error::AlertReceived(AlertDescription::ProtocolVersion) => {
            "the server speaks neither TLS 1.2 nor TLS 1.3".to_owned()
        }
        other => format!("the TLS handshake failed: {other}"),
    }
}
