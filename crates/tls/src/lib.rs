//! TLS, by rustls.
//!
//! - `pem`: certificates and keys out of files, which are bounded before they are read; `certificate`: what one of them says
//! - `files`: the files that a node is started with; `state`: what they come to
//! - `node`: the TLS of a node, replaced while it runs; `figures`: what it counts
//! - `clients`: whose certificates a node accepts; `signatures`: whether who shows one has its key
//! - `session`: one connection, without I/O; `records`: where its records end; `stream`: one that a node makes to a peer
//! - `client`: TLS of a client that waits
#![forbid(unsafe_code)]

mod certificate;
pub mod client;
mod clients;
mod figures;
mod files;
mod node;
mod pem;
mod records;
mod session;
mod signatures;
mod state;
mod stream;

pub use certificate::{BadCertificate, Certificate};
pub use figures::{Failure, Figures};
pub use files::{TlsFiles, TlsPaths};
pub use node::{NodeTls, NotAPeer, is_for};
pub use pem::{FILE_BYTES_MAX, PemError, certificates, private_key, read_bounded};
pub use rustls::Error;
pub use rustls::pki_types::CertificateDer;
pub use session::{Chain, Session};
pub use state::{BadFiles, TlsState};

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

/// What all of TLS here computes with.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
