//! Connections of HTTP/1.1, as the tests of their crate have them.

#[path = "../../crates/http1/tests/http1/corpus.rs"]
mod corpus;
#[path = "../../crates/http1/tests/http1/oracle.rs"]
mod oracle;
#[path = "../../crates/http1/tests/http1/reading.rs"]
mod reading;

/// Compares what a connection sees with what hyper sees, and with what it sees if the bytes are cut.
///
/// # Panics
/// If it sees a request that hyper does not see, or if a cut makes a difference.
pub fn http1(bytes: &[u8]) {
    oracle::compare(bytes);
    let whole = reading::read([bytes]);
    for step in [1, 7] {
        assert_eq!(reading::read(bytes.chunks(step)), whole, "{} by {step}", bytes.escape_ascii());
    }
}

/// Requests to begin from.
pub fn http1_seeds() -> Vec<Vec<u8>> {
    corpus::streams()
}
