//! Writes and reads with a quorum, and what goes wrong beside them.

use super::scenario::{Ask, Bug, Faults, Scenario};
use super::{D, R, W, assert_linearizable, assert_violated, scenario};

const CLOCKS: [[u64; 2]; 3] = [[0, 0], [0, 5], [5, 0]];

/// A write took effect twice: a reader had the version spread that came first, another write took its place, and the
/// coordinator of the first, told that something newer was there, wrote it again. (Decision 0048.)
#[test]
fn a_write_that_was_seen_is_not_written_again() {
    let asks: [&[Ask]; 2] = [&[W(1)], &[R, W(2), R]];
    let none = Faults::default();
    assert_linearizable("two writers", CLOCKS.map(|clocks| scenario(&asks, &clocks, none)));
    let planted = Scenario { bug: Some(Bug::RestampsStale), ..scenario(&asks, &[0, 0], none) };
    let violation = assert_violated("a write that was seen is written again", &planted);
    assert!(violation.contains("the key holds Some(2)"), "{violation}");
}

/// A read that has digests at first asks for a value that it lacks; a deletion has none.
#[test]
fn a_deletion_that_was_seen_is_not_written_again() {
    let asks: [&[Ask]; 2] = [&[D], &[R, W(2), R]];
    let deleting = scenario(&asks, &[0, 0], Faults::default());
    let asks: [&[Ask]; 2] = [&[W(1)], &[R, D, R]];
    let with_digests =
        CLOCKS.map(|clocks| Scenario { digests: true, ..scenario(&asks, &clocks, Faults::default()) });
    assert_linearizable("deletions and digests", with_digests.into_iter().chain([deleting]));
}

/// A replica says that it never had a write, and had it before it was restarted.
#[test]
fn a_replica_that_forgot_does_not_deny() {
    let asks: [&[Ask]; 2] = [&[W(1)], &[R, W(2), R]];
    let faults = Faults { restarts: 1, ..Faults::default() };
    assert_linearizable("a restart", [scenario(&asks, &[0, 0], faults)]);
}

/// What a replica had is gone, and it takes over what the others have.
#[test]
fn a_lost_disk_neither_vouches_nor_denies() {
    let asks: [&[Ask]; 2] = [&[W(1)], &[R, W(2)]];
    let faults = Faults { lost_disks: 1, ..Faults::default() };
    assert_linearizable("a lost disk", [scenario(&asks, &[0, 0], faults)]);
}

/// Something newer comes between the look at what is there and the commit.
#[test]
fn a_write_that_was_the_newest_when_it_came_counts_for_one_that_was_there() {
    let asks: [&[Ask]; 2] = [&[W(1)], &[R, W(2), R]];
    let faults = Faults { late_commits: 1, ..Faults::default() };
    assert_linearizable("a late commit", [scenario(&asks, &[0, 0], faults)]);
}

/// The answer is lost, and the write is sent once more.
#[test]
fn a_write_that_is_sent_twice_takes_effect_once() {
    let asks: [&[Ask]; 2] = [&[W(1)], &[R, W(2)]];
    let faults = Faults { lost_answers: 1, ..Faults::default() };
    assert_linearizable("a lost answer", CLOCKS.map(|clocks| scenario(&asks, &clocks, faults)));
}

/// Clients are told that nobody knows, and go on.
#[test]
fn a_write_that_took_too_long_may_have_happened_once() {
    let asks: [&[Ask]; 2] = [&[W(1)], &[W(2), R]];
    let faults = Faults { deadlines: 1, ..Faults::default() };
    assert_linearizable("a deadline", [scenario(&asks, &[0, 0], faults)]);
}
