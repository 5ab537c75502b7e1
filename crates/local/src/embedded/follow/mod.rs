//! Those who follow changes, as one event loop serves them.
//!
//! - `following`: what an event loop has of this
//! - `hub`: wakes those whose keys have changed
//! - `follower`: reads what one of them is told, from memory or from the tables

mod follower;
mod following;
mod hub;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod replica_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod told;

pub(super) use follower::{EmbeddedFollower, Reached};
pub(super) use following::Following;
use hub::Hub;
