//! HTTP/1.1 without sockets: bytes go in, and what they mean comes out.
//!
//! - [`server`]: the server's side of a connection
//! - [`answer`]: the client's side, answers
#![forbid(unsafe_code)]

pub mod answer;
pub mod server;

pub use http::{Method, StatusCode, Uri, Version};
