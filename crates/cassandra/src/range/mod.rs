//! Entities in the order of their keys: the merge of the slices of all buckets.
//!
//! - `record`: a row of a range
//! - `slice`: the keys of one bucket, page by page
//! - `merge`: the slices, and the next keys of all of them
//! - `values`: the values of those keys
//! - `stream`: both, written in a format
//!
//! Keys are read first, without values: a page of keys is small, and says how long the values are. Those that are short are read at once,
//! by one statement a page; longer ones when their keys have their turn in the order of all. So a range has in memory a page of keys for
//! each bucket, and the values of as many keys as fit into a bound, however long they are.

mod merge;
mod record;
mod slice;
mod stream;
mod values;

pub(crate) use stream::RangePieces;
