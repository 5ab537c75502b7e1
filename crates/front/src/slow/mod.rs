//! The log of slow requests.
//!
//! - `asked`: what a request is about and what it has waited for, remembered while it is served
//! - `log`: the lines, so many a second at most

mod asked;
mod log;

pub(crate) use asked::{About, Asked, BegunRequest, WaitTimes, waiting_ns};
pub(crate) use log::{SlowLog, SlowRequest};
