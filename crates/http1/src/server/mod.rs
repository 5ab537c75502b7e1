//! A server's side of a connection (RFC 9112), without its socket and without a clock.
//!
//! One [`Connection`] has one buffer for what arrives, one for what is to be sent, and one state. Its driver moves the bytes
//! and says what time it is:
//!
//! ```text
//! (receive* next_request (begin_body (next_piece receive*)*)? discard_body begin_answer send* (unsent sent)* rest)*
//! ```
//!
//! - `head`: request lines and header fields, bounded and strict
//! - `body`: where a body ends, by its length or in chunks
//! - `reply`: the heads of answers
//! - `timing`: who waits for whom, and for how long
//! - `connection`: all of them, in turn

mod body;
mod connection;
mod head;
mod reply;
mod timing;

pub use body::{BadBody, Piece};
pub use connection::Connection;
pub use head::{BadRequest, BodyLength, HeadLimits, Request};
pub use reply::{ReplyHead, ReplyLength};
pub use timing::{Overdue, Timeouts};
