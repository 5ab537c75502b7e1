//! RESP, the protocol of Redis, without sockets. Bytes in, requests out; replies in, bytes out. No I/O, no clock.
//!
//! - `parser`: cuts requests out of what arrives, however it is cut; a large argument can be taken out piece by piece
//! - `request`: a request: its arguments, which are not copied; `inline`: one that a person typed
//! - `reply`: what is answered, in RESP2 and RESP3
//! - `number`: integers as Redis reads and writes them; `glob`: patterns of keys
#![forbid(unsafe_code)]

mod glob;
mod inline;
mod number;
mod parser;
mod reply;
mod request;

pub use glob::matches;
pub use number::{parse_integer, write_integer};
pub use parser::{Parser, ParserLimits, Piece, ProtocolError, Step};
pub use reply::{Dialect, Reply, write_array_head, write_bulk, write_bulk_head};
pub use request::Request;
