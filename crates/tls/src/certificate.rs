use std::net::{Ipv4Addr, Ipv6Addr};

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// What a certificate says, for people: nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Whose it is.
    pub subject: String,
    /// Who signed it.
    pub issuer: String,
    /// The names and addresses that it is for.
    pub names: Vec<String>,
    /// From when on it counts, in seconds since 1970.
    pub not_before_s: i64,
    /// Up to when.
    pub not_after_s: i64,
    /// Whether it may sign others.
    pub is_authority: bool,
}

/// It is no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a certificate of X.509 version 3")]
pub struct BadCertificate;

impl Certificate {
    /// Reads one.
    pub fn parse(der: &CertificateDer<'_>) -> Result<Certificate, BadCertificate> {
        let (_, parsed) = X509Certificate::from_der(der).map_err(|_| BadCertificate)?;
        let names = parsed.subject_alternative_name().map_err(|_| BadCertificate)?;
        let names = names.map_or_else(Vec::new, |names| names.value.general_names.iter().map(text).collect());
        Ok(Certificate {
            subject: printable(&parsed.subject().to_string()),
            issuer: printable(&parsed.issuer().to_string()),
            names,
            not_before_s: parsed.validity().not_before.timestamp(),
            not_after_s: parsed.validity().not_after.timestamp(),
            is_authority: parsed.is_ca(),
        })
    }

    /// Whether it counts at this time, in milliseconds since 1970; the error is why not.
    pub fn check_time(&self, wall_ms: u64) -> Result<(), &'static str> {
        let now_s = i64::try_from(wall_ms / 1_000).unwrap_or(i64::MAX);
        if now_s < self.not_before_s {
            Err("it does not count yet")
        } else if now_s > self.not_after_s {
            Err("it has expired")
        } else {
            Ok(())
        }
    }
}

/// Without what a terminal or a log would obey.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

fn text(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) | GeneralName::URI(name) | GeneralName::RFC822Name(name) => {
            name.escape_default().to_string()
        }
        GeneralName::IPAddress(bytes) => address(bytes).unwrap_or_else(|| "an address".to_owned()),
        _ => "a name of another kind".to_owned(),
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(octets).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|octets| Ipv6Addr::from(octets).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_tells_its_names_and_its_end() {
        let names = ["db.example.com".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names.clone()).expect("a certificate");
        let read = Certificate::parse(made.cert.der()).expect("a certificate");
        assert_eq!(read.names, names);
        assert!(read.subject.contains("rcgen") && !read.is_authority, "{read:?}");
        let end_ms = read.not_after_s as u64 * 1_000;
        assert_eq!(read.check_time(end_ms), Ok(()));
        assert_eq!(read.check_time(end_ms + 1_000), Err("it has expired"));
        assert_eq!(read.check_time(0), Err("it does not count yet"));
        assert_eq!(Certificate::parse(&CertificateDer::from(vec![1, 2, 3])), Err(BadCertificate));
    }
}
