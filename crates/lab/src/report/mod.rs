//! What is printed and written about a run.

mod files;
mod live;
mod notes;
mod spectrum;
mod text;

pub(crate) use files::{HdrLog, limit_name, write_json};
pub(crate) use live::Live;
pub(crate) use notes::{Asked, limit_in_words, misses_in_words, misses_share, print_notes};
pub(crate) use text::{Header, print_header, print_result};
