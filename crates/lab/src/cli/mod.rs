//! What a person types: flags and the address.

mod options;
mod target;

pub use options::Options;
pub(crate) use target::{Scheme, Target, resolve};
