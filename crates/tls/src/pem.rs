use std::fs;
use std::io::{self, Read};
use std::path::Path;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The longest file of certificates or of a key. What a system trusts is a quarter of that.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Certificates of a file.
const CERTIFICATES_MAX: usize = 1 << 10;

/// Why a file has not in it what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// It is longer than any.
    #[error("expected at most {FILE_BYTES_MAX} bytes")]
    TooLong,
    /// It is no PEM.
    #[error("expected PEM: {0}")]
    Malformed(String),
    /// No certificate is in it.
    #[error("expected a certificate, -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    /// Too many are in it.
    #[error("expected at most {CERTIFICATES_MAX} certificates")]
    TooMany,
    /// No key is in it.
    #[error("expected a private key without a passphrase, -----BEGIN PRIVATE KEY-----")]
    NoKey,
}

/// Reads a file, and one byte more than it may have, if it has more.
#[expect(clippy::disallowed_methods, reason = "keys are no part of a store; its disk seam is not for them")]
pub fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// All certificates of a PEM file, at least one; whatever else is in it does not count.
pub fn certificates(content: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemError> {
    check_length(content)?;
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(content) {
        if found.len() == CERTIFICATES_MAX {
            return Err(PemError::TooMany);
        }
        found.push(certificate.map_err(malformed)?);
    }
    if found.is_empty() { Err(PemError::NoCertificate) } else { Ok(found) }
}

/// The first private key of a PEM file: PKCS #8, or as OpenSSL wrote them before that.
pub fn private_key(content: &[u8]) -> Result<PrivateKeyDer<'static>, PemError> {
    check_length(content)?;
    PrivateKeyDer::from_pem_slice(content).map_err(|error| match error {
        pem::Error::NoItemsFound => PemError::NoKey,
        error => malformed(error),
    })
}

fn check_length(content: &[u8]) -> Result<(), PemError> {
    if content.len() > FILE_BYTES_MAX { Err(PemError::TooLong) } else { Ok(()) }
}

#[expect(clippy::needless_pass_by_value, reason = "it is for `map_err`")]
fn malformed(error: pem::Error) -> PemError {
    // Some of its errors show what was read, and that may be a key.
    PemError::Malformed(match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a section begins wrongly".to_owned(),
        pem::Error::Base64Decode(_) => "what is in a section is no Base64".to_owned(),
        _ => "it cannot be read".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_pem_is_told_without_what_it_is() {
        for (content, told) in [
            (&b""[..], "expected a certificate"),
            (b"secret", "expected a certificate"),
            (b"-----BEGIN CERTIFICATE-----\nAAAA", "a section has no end"),
            (b"-----BEGIN CERTIFICATE-----\n***secret***\n-----END CERTIFICATE-----\n", "no Base64"),
        ] {
            let error = certificates(content).expect_err("none").to_string();
            assert!(error.contains(told) && !error.contains("secret"), "{error}");
        }
        assert_eq!(private_key(b"nonsense"), Err(PemError::NoKey));
        assert_eq!(certificates(&vec![b'a'; FILE_BYTES_MAX + 1]), Err(PemError::TooLong));
        let encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        assert_eq!(private_key(encrypted), Err(PemError::NoKey));
    }

    #[test]
    fn there_are_only_so_many_certificates() {
        let one = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(certificates(&one.repeat(CERTIFICATES_MAX)).expect("some").len(), CERTIFICATES_MAX);
        assert_eq!(certificates(&one.repeat(CERTIFICATES_MAX + 1)), Err(PemError::TooMany));
    }
}
