//! What peers and repair may take of a node.
//!
//! - `budget`: the memory of the connections that peers make
//! - `pace`: how much of the node repair may take
//! - `copies`: how many large values are copied at a time

mod budget;
mod copies;
mod pace;

pub(crate) use budget::{SESSION_OWN_BYTES, SessionAccount, SessionBudget};
pub(crate) use copies::{Copies, CopyName, CopyReader, CopyRequest, CopyRequests, CopyTurns, Copying};
pub(crate) use pace::Pace;
