//! Requests, however they are cut.
//!
//! - `reading`: all that a parser sees in some bytes; `corpus`: bytes to begin from
//! - `cutting`: that a cut makes no difference

mod corpus;
mod cutting;
mod reading;
