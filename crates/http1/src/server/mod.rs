//! A server's side of a connection (RFC 9112), without its socket and without a clock.
//!
//! One [`Connection`] has one buffer for input, one for output, and one state. Its driver moves the bytes and gives the time:
//!
//! ```text
//! (receive* next_request (begin_body (next_piece receive*)*)? discard_body begin_answer send* (unsent sent)* rest)*
//! ```
//!
//! An answer may begin before its request has arrived: `begin_answer_early` comes between two pieces, and `end_early_answer` behind
//! the last bytes that are sent.
//!
//! - `head`: request lines and header fields, bounded and strict; `asker`: what they say about who asks
//! - `target`: what a request is about; `characters`: which ones are allowed where
//! - `body`: the end of a body, by its length or by chunks
//! - `reply`: the heads of answers
//! - `timing`: which side waits for the other, and for how long
//! - `connection`: all of them, in turn

mod asker;
mod body;
mod characters;
mod connection;
mod head;
mod reply;
mod target;
mod timing;

pub use body::{BadBody, Piece};
pub use connection::Connection;
pub use head::{BadRequest, BodyLength, HeadLimits, Request};
pub use reply::{ReplyHead, ReplyLength};
pub use timing::{Overdue, Timeouts};
