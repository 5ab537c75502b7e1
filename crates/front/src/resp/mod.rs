//! The protocol of Redis, as a way in to the service. `ladoga_resp` is its bytes; what a value, an expiry, a condition and a number
//! are, is what they are by HTTP.
//!
//! - `door`: what the connections of an event loop share; `cursors`: where scans are
//! - `link`: a connection to a client: its bytes and its socket; `waits`: its timeouts; `held`: what it may have to give back to others,
//!   `request_room`: the memory of one request
//! - `serve`: a connection from its first request to its last reply; `in_flight`: requests that are served side by side,
//!   `expected`: how many of them may read; `receive`: what a connection waits for, `ahead`: requests that have arrived behind them; `replies`: how they are answered; `measured`: what is counted of each
//! - `session`: what a connection has been told: its version of the protocol, its name, its transaction
//! - `table`: every command there is, how many arguments it takes, where its keys are; `subcommands`: the same of those behind its name
//! - `dispatch`: from a request to what serves it; `transaction`: `MULTI` to `EXEC`, `queued`: what is kept in between, and
//!   `transaction_room` what that takes; `watching`: keys that it depends on where its commands are done one after the other
//! - `exec`: transactions of a node on its own; `together`: commands that happen in one step there; `overlay`: what they have read
//!   and written until then
//! - `call`: one request and the store: reads, writes, and read-modify-write; `found`: what they are about; `pauses`: how it waits
//!   for room; `served`, `failed`: what becomes of it
//! - `strings`, `numbers`, `expiry`, `keys`, `scan`, `flush`: commands by what they are about; `arguments`: their options;
//!   `decimal`: numbers with a point
//! - `upload`: values that are not held in memory, on their way in
//! - `access`: who may say what; `audited`: what the audit log has of it
//! - `about`: commands about a connection; `server`, `describe`: about the node and its commands

mod about;
mod access;
mod ahead;
mod arguments;
mod audited;
mod call;
mod cursors;
mod decimal;
mod describe;
mod dispatch;
mod door;
mod exec;
mod expected;
mod expiry;
mod failed;
mod flush;
mod found;
mod held;
mod in_flight;
mod keys;
mod link;
mod measured;
#[cfg(test)]
mod measured_tests;
mod numbers;
mod overlay;
mod pauses;
mod queued;
mod receive;
mod replies;
mod request_room;
mod scan;
mod serve;
mod served;
mod server;
mod session;
mod strings;
mod subcommands;
mod table;
mod together;
mod transaction;
mod transaction_room;
#[cfg(test)]
mod transaction_room_tests;
mod upload;
mod waits;
mod watching;

pub use cursors::Cursors;
pub use door::{RespDoor, RespSettings};
pub(crate) use link::RespLink;
pub(crate) use serve::{refusal, serve};
pub(crate) use session::Told;
