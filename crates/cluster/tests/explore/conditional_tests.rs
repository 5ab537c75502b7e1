//! Conditional writes beside reads and plain writes, and what goes wrong beside them.
//!
//! Three replicas, with all that two or three clients can do and one thing that goes wrong at a time; two replicas with several.
//! What takes longer was run once, on three replicas, and nothing was found: two increments of two attempts each (1,499,941 states),
//! an increment whose coordinator may be gone, with a take-over (965,075), an increment, a write and two reads (2,862,776), and two
//! increments, of which a read follows one, beside a write (2,858,114 states by one order of the clocks, and by another).

use ladoga_model::Replicas;

use super::scenario::{Ask, Faults, Scenario};
use super::{I, R, W, assert_linearizable, scenario};

const NONE: Faults = Faults {
    lost_answers: 0,
    late_commits: 0,
    deadlines: 0,
    crashes: 0,
    take_overs: 0,
    restarts: 0,
    lost_disks: 0,
};

/// The plain write is older or newer than the conditional one, and comes in between or not.
#[test]
fn an_increment_beside_a_write_and_a_read() {
    let asks: [&[Ask]; 2] = [&[I], &[W(10), R]];
    let by_one = [[0, 0], [5, 0], [0, 5]].map(|clocks| scenario(&asks, &clocks, NONE));
    let by_two = scenario(&[&[I], &[W(10)], &[R]], &[5, 0, 0], NONE);
    assert_linearizable("an increment", by_one.into_iter().chain([by_two]));
}

/// One of the writers has a clock that is behind: its write is given a newer version, and may be gone over again.
#[test]
fn an_increment_between_two_writes() {
    let behind = scenario(&[&[W(20), R], &[W(10), I]], &[0, 5], NONE);
    let ahead = scenario(&[&[W(10), I], &[W(20), R]], &[5, 0], NONE);
    assert_linearizable("an increment between two writes", [behind, ahead]);
}

#[test]
fn a_condition_that_does_not_hold_stays_so() {
    let set = |expected| Ask::CompareAndSet(expected, 50);
    let scenarios = [
        scenario(&[&[set(None)], &[W(10)], &[R]], &[0, 0, 0], NONE),
        scenario(&[&[set(None), R], &[W(10)]], &[5, 0], NONE),
        Scenario { attempts: 2, ..scenario(&[&[set(Some(10)), R], &[W(10)]], &[5, 0], NONE) },
    ];
    assert_linearizable("a condition that does not hold", scenarios);
}

/// A promise to an increment keeps the value for which it does not hold away from a replica. It has that accepted once more; if this is
/// cut short, too, nothing of it is anywhere, and its client is told so.
#[test]
fn a_condition_that_does_not_hold_gets_past_a_promise() {
    let set = Ask::CompareAndSet(None, 50);
    let faults = Faults { deadlines: 1, ..NONE };
    let two = Scenario {
        replicas: Replicas::majority_of(2),
        attempts: 2,
        ..scenario(&[&[set], &[W(10), I]], &[5, 0], faults)
    };
    assert_linearizable("a condition past a promise", [two]);
}

/// A coordinator is slow or gone: who meets its promise puts something newer in the place of what it was for.
#[test]
fn a_write_that_meets_a_promise_takes_over() {
    let faults = Faults { take_overs: 1, ..NONE };
    assert_linearizable("a promise that does not end", [scenario(&[&[I], &[W(10), R]], &[5, 0], faults)]);
}

#[test]
fn a_replica_that_is_restarted_keeps_its_promises() {
    let faults = Faults { restarts: 1, ..NONE };
    assert_linearizable("a restart", [scenario(&[&[I], &[W(10), R]], &[5, 0], faults)]);
}

/// The promise is given, and something is accepted, between the look at what is there and the commit.
#[test]
fn a_write_that_was_the_newest_before_a_promise_does_not_count() {
    let faults = Faults { late_commits: 1, ..NONE };
    let clocks = [[5, 0], [0, 5]];
    let asks: [&[Ask]; 2] = [&[I], &[W(10), R]];
    assert_linearizable("a late commit", clocks.map(|clocks| scenario(&asks, &clocks, faults)));
}

#[test]
fn nobody_knows_what_became_of_an_answer_that_is_lost() {
    let faults = Faults { lost_answers: 1, ..NONE };
    assert_linearizable("a lost answer", [scenario(&[&[I], &[W(10), R]], &[5, 0], faults)]);
}

/// Of one that promised something: see [`super::plain_tests`] for the others.
#[test]
fn a_lost_disk_breaks_no_promise() {
    let faults = Faults { lost_disks: 1, ..NONE };
    assert_linearizable("a lost disk", [scenario(&[&[I], &[W(10), R]], &[5, 0], faults)]);
}

/// On two replicas, several of these at once.
#[test]
fn two_replicas_with_several_things_that_go_wrong() {
    let two = |scenario: Scenario| Scenario { replicas: Replicas::majority_of(2), ..scenario };
    let restarts = Faults { take_overs: 1, restarts: 1, ..NONE };
    let crashes = Faults { take_overs: 1, crashes: 1, ..NONE };
    let scenarios = [
        scenario(&[&[W(10), I], &[W(20)], &[R]], &[5, 0, 0], NONE),
        scenario(&[&[I], &[W(10)], &[R]], &[5, 0, 0], restarts),
        Scenario { attempts: 2, ..scenario(&[&[I], &[I, R]], &[0, 0], crashes) },
    ];
    assert_linearizable("two replicas", scenarios.map(two));
}

/// A write comes between the promises and the cell: who was to accept the cell says that it may count as if it had come before, unless
/// something was promised to the other increment by then.
#[test]
fn a_newer_write_overtakes_the_cell_of_an_increment() {
    let two = |clocks: &[u64]| Scenario {
        replicas: Replicas::majority_of(2),
        ..scenario(&[&[I], &[I, R], &[W(10)]], clocks, NONE)
    };
    assert_linearizable("an overtaken increment", [two(&[0, 1, 5]), two(&[0, 5, 1])]);
    let three = [[0, 1], [0, 5]].map(|clocks| scenario(&[&[I], &[W(10), R]], &clocks, NONE));
    assert_linearizable("an overtaken increment, three replicas", three);
}
