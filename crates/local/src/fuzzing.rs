//! Entry points for fuzzers.

pub use crate::embedded::fuzz_token as token;
