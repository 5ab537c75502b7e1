//! Entry points for fuzzers.

pub use crate::embedded::{fuzz_token as token, token_text_of as text_of};
