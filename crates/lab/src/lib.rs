//! The performance lab.
#![forbid(unsafe_code)]
