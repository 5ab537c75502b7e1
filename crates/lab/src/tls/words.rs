use std::io;

use rustls::{CertificateError, Error};

/// A handshake that failed, in words. What is no matter of TLS stays as it is.
pub(super) fn of_handshake(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return io::Error::other("the server closed the connection during the TLS handshake");
    }
    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        return io::Error::other("the server did not answer the TLS handshake in time");
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(reason) => io::Error::other(of_tls(reason)),
        None => error,
    }
}

fn of_tls(error: &Error) -> String {
    match error {
        Error::InvalidMessage(_) => {
            "the server does not speak TLS. If it speaks plain HTTP, use http://".to_owned()
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "no trusted authority has signed the server's certificate. \
             Name the one that has with --ca FILE, or leave --verify out"
                .to_owned()
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
            name @ (CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }),
        ) => format!("the server's certificate is for another name: {name}"),
        other => format!("the TLS handshake failed: {other}"),
    }
}
