//! Which keys and prefixes clients ask for most, lately.
//!
//! - `sketch`: the most frequent of many names, in little memory
//! - `sampler`: what one event loop has seen, one access in 64
//! - `report`: what all event loops have seen together

mod report;
mod sampler;
mod sketch;

pub use report::{HotList, HotName, HotReport};
pub use sampler::{AccessKind, HotKeys};
