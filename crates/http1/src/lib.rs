//! HTTP/1.1 without sockets: bytes go in, and what they mean comes out.
//!
//! - [`server`]: the server's side of a connection
//! - [`answer`]: the client's side, answers
//! - `masked`: what may be told of a URL
#![forbid(unsafe_code)]

pub mod answer;
mod masked;
pub mod server;

pub use masked::masked;

pub use http::{Method, StatusCode, Uri, Version};
