//! `ladoga lab compare`: what changed between two reports, and what is only noise.
//!
//! - `rank_test`: the significance test
//! - `judge`: what it means, in words
//! - `command`: from the two files to the text and the page

mod command;
mod judge;
mod rank_test;

pub(crate) use command::compare;
