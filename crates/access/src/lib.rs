//! Who may do what, without I/O, clock or threads: bytes and times go in, and what is allowed comes out.
//!
//! - `scope`: what a token may do
//! - `token`: what a client shows, and the hash by which it is known
//! - `grant`: what is checked of a request: its scopes, its key, its range
//! - `rate`: how much of it a second
//! - `file`: the file of tokens; `moment`: when they expire
//! - `peer`: how a node shows that it is of the cluster; `hex`: bytes as text
#![forbid(unsafe_code)]

mod file;
mod grant;
mod hex;
mod moment;
mod peer;
mod rate;
mod scope;
mod token;

pub use file::{FILE_BYTES_MAX, FileError, TOKENS_MAX, TokenEntry, TokenFile};
pub use grant::{Denied, Grant};
pub use moment::{moment_text, parse_moment};
pub use peer::{PEER_SECRET_BYTES_MIN, PeerSecret};
pub use rate::{BYTES_PER_SECOND_MAX, REQUESTS_PER_SECOND_MAX, Rate};
pub use scope::{Scope, Scopes};
pub use token::{Presented, SecretHash, TokenId, bearer, generate, is_bearer};
