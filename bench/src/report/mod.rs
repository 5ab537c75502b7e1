//! What is printed and kept.
//!
//! | module | is |
//! | --- | --- |
//! | [`series`] | the values of one figure over the rounds: median and spread |
//! | [`contest`] | ours and the references, figure by figure: the table and the ratios |
//! | [`results`] | the same as JSON lines, in `bench/out/` |

mod contest;
mod results;
mod series;

pub(crate) use contest::{Contest, Figure};
pub(crate) use results::Results;
pub(crate) use series::Series;
