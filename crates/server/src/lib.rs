//! Event loops and what arrives on them, whatever protocol it speaks. Knows no store and no bytes of a protocol.
//!
//! - `threads`: a running server: one thread an event loop, its stages, its end
//! - `protocol`: what a protocol makes of a connection
//! - `listener`: listening sockets, one a loop
//! - `event_loop`: what one thread serves; `connections`: those that are open
//! - `acceptor`: which loop gets a connection
//! - `placement`: by which rule; `balance`: how many loops serve; `follow_load`: what they use of the CPUs, and who moves then
//! - `sweeper`: looks at all connections from time to time
//! - `shared`: what its event loops share, and what each gets its connections from
//! - `limits`: the bounds and timeouts of connections
#![forbid(unsafe_code)]

mod acceptor;
mod balance;
mod connections;
mod event_loop;
mod follow_load;
mod limits;
mod listener;
mod placement;
mod protocol;
mod shared;
mod sweeper;
mod threads;

pub use limits::Limits;
pub use listener::ListenError;
pub use placement::Placement;
pub use protocol::{Connection, Moving, Protocol};
pub use threads::{Server, ServerConfig, StartError};
