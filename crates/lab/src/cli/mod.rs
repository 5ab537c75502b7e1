//! What a person types: flags, the address, and the token that is shown there.

mod options;
mod target;
mod token;
mod typed;

pub use options::Options;
pub(crate) use options::check_size;
pub(crate) use target::{Scheme, Target, resolve};
pub(crate) use token::Token;
pub(crate) use typed::{command_line, command_words};
