//! Every order in which the messages of a few requests on one key can arrive, or not, with the machines that ship.

mod system;

use ladoga_model::Replicas;
use system::{Ask, Scenario, explore};

/// A write takes effect twice: a reader has the version spread that came first, another write takes its place, and the
/// coordinator of the first, told that something newer is there, writes it again.
///
/// This is known. What it takes to end it is written down in decision 0048; the test is turned round with it.
#[test]
fn a_write_that_was_seen_is_written_again() {
    let scenario = Scenario {
        replicas: Replicas { ack: 2, from: 3 },
        processes: vec![vec![Ask::Write(1)], vec![Ask::Read, Ask::Write(2), Ask::Read]],
        clocks: vec![0, 0],
    };
    let explored = explore(&scenario);
    let violation = explored.violation.unwrap_or_else(|| panic!("not found in {} states", explored.states));
    assert!(violation.contains("the key holds Some(2)"), "{violation}");
}
