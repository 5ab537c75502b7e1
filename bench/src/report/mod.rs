//! What is printed and kept.
//!
//! | module | is |
//! | --- | --- |
//! | [`series`] | the values of one figure over the rounds: median and spread |
//! | [`contest`] | ours and the references, figure by figure: the table and the ratios |
//! | [`results`] | the same as JSON lines, in `bench/out/` |
//! | [`archive`] | such lines, read back |

mod archive;
mod contest;
#[cfg(test)]
pub(crate) mod fixture;
mod results;
mod series;

pub(crate) use archive::{Archive, Published, PublishedRow};
pub(crate) use contest::{Contest, Figure};
pub(crate) use results::{COMMAND, Origin, Results, comparison_of, text_of};
pub(crate) use series::{Series, grouped};
