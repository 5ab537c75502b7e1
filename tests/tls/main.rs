//! TLS: of clients, of nodes among each other, and of files that change while requests run.
//!
//! - `certs`: certificates for a test; `secure`: a connection with TLS
//! - `requests`: what is served is served by TLS, too
//! - `handshakes`: those that come to nothing
//! - `clients`: certificates of clients
//! - `reload`: certificates that come and go while requests run
//! - `peers`: a cluster whose nodes prove who they are
//! - `commands`: the commands of `ladoga` by https, and `ladoga certs`
//! - `start`: what a node refuses to start with
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod certs;
mod clients;
mod commands;
mod handshakes;
mod peers;
mod reload;
mod requests;
mod secure;
mod start;
