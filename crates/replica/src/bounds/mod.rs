//! What peers and repair may take of a node.
//!
//! - `budget`: the memory of the connections that peers make; `account`: the share of one of them
//! - `pace`: how fast repair may go
//! - `copies`: how many large values are copied at a time
//! - `turns`: conditional requests of one key, one after another
//! - `shared_keys`: which keys are asked for through several nodes

mod account;
mod budget;
mod copies;
mod pace;
mod shared_keys;
mod turns;

pub(crate) use account::SessionAccount;
pub(crate) use budget::{SESSION_OWN_BYTES, SessionBudget};
pub(crate) use copies::{Copies, CopyName, CopyReader, CopyRequest, CopyTurns, Copying, NotCopied};
pub(crate) use pace::Pace;
pub(crate) use shared_keys::SharedKeys;
pub(crate) use turns::{NoTurn, Turn, Turns};
