//! HTTP/1.1 without sockets: bytes go in, and what they mean comes out.
//!
//! - [`answer`]: the client's side, answers
#![forbid(unsafe_code)]

pub mod answer;
