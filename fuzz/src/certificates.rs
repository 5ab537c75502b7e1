//! Files of certificates and keys.

use ladoga_tls::{Certificate, CertificateDer, FILE_BYTES_MAX, private_key};

/// The longest error: it is one line for an operator.
const ERROR_BYTES_MAX: usize = 200;

/// A PEM file, and the same bytes as one certificate: what is wrong is one line, and has nothing of a key in it.
///
/// # Panics
/// If it is not.
pub fn certificates(bytes: &[u8]) {
    for outcome in [ladoga_tls::certificates(bytes).map(drop), private_key(bytes).map(drop)] {
        let Err(error) = outcome else { continue };
        let line = error.to_string();
        assert!(line.len() <= ERROR_BYTES_MAX && !line.contains(char::is_control), "{line:?}");
    }
    for certificate in ladoga_tls::certificates(bytes).into_iter().flatten() {
        assert!(bytes.len() <= FILE_BYTES_MAX);
        look(&certificate);
    }
    look(&CertificateDer::from(bytes));
}

fn look(certificate: &CertificateDer<'_>) {
    let Ok(read) = Certificate::parse(certificate) else { return };
    assert!(read.check_time(0).is_err() || read.not_before_s <= 0);
    for text in read.names.iter().chain([&read.subject, &read.issuer]) {
        assert!(!text.contains(char::is_control), "{text:?}");
    }
    let _ = ladoga_tls::is_for(&[certificate.clone().into_owned()], "127.0.0.1");
}

/// Files to begin from.
pub fn certificate_seeds() -> Vec<Vec<u8>> {
    // Made by `openssl req -x509 -addext subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1`; the key is all zeros.
    let (pem, der) = (include_bytes!("certificate.pem"), include_bytes!("certificate.der"));
    let key = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----\n";
    vec![pem.to_vec(), der.to_vec(), key.to_vec(), [pem.as_slice(), key].concat()]
}
