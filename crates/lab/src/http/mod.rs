//! As much HTTP/1.1 as a load generator needs: where a request ends, and what an answer was.

mod request;
mod response;

pub(crate) use request::Batch;
pub use request::Method;
pub(crate) use response::{Captured, ResponseParser};
