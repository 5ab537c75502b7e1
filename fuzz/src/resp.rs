//! Requests of Redis, as the tests of their crate have them.

#[path = "../../crates/resp/tests/resp/corpus.rs"]
mod corpus;
#[path = "../../crates/resp/tests/resp/reading.rs"]
mod reading;

/// Reads the bytes in one piece and in many.
///
/// # Panics
/// If a cut makes a difference.
pub fn resp(bytes: &[u8]) {
    let whole = reading::read([bytes]);
    for step in [1, 7] {
        assert_eq!(reading::read(bytes.chunks(step)), whole, "{} by {step}", bytes.escape_ascii());
    }
}

/// Requests to begin from.
pub fn resp_seeds() -> Vec<Vec<u8>> {
    corpus::streams()
}
