//! Whole connections: however the bytes are cut, the same requests are seen; and none that hyper does not see.

mod corpus;
mod cuts;
mod oracle;
mod reading;
