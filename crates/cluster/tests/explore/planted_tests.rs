//! Bugs that are planted, and how many states it takes to find each.
//!
//! Two more were planted and do no harm with three replicas: to ask one that promises late to accept whatever it has (2,862,776
//! states of one increment, one write and two reads), since the promises of the others and what is compared at acceptance are
//! enough; and to let only hints through a promise, since what has hints was acknowledged, so each proposal has seen it.

use super::scenario::{Ask, Bug, Faults, Scenario};
use super::{I, R, W, assert_linearizable, assert_violated, scenario};

/// One increment with a clock that is ahead, and one client that writes and reads.
const ASKS: [&[Ask]; 2] = [&[I], &[Ask::Write(10), R]];
const AHEAD: [u64; 2] = [5, 0];

fn plant(bug: Bug, scenario: Scenario) {
    assert_violated(&format!("{bug:?}"), &Scenario { bug: Some(bug), ..scenario });
}

#[test]
fn a_promise_that_is_forgotten_or_ends_by_itself() {
    let faults = Faults { restarts: 1, ..Faults::default() };
    plant(Bug::ForgetsFences, scenario(&ASKS, &AHEAD, faults));
    plant(Bug::FenceTimesOut, scenario(&ASKS, &AHEAD, Faults::default()));
}

#[test]
fn what_is_repaired_goes_through_a_promise() {
    let asks: [&[Ask]; 3] = [&[I], &[W(10)], &[R, R]];
    plant(Bug::RepairsThroughFence, scenario(&asks, &[5, 0, 0], Faults::default()));
}

#[test]
fn a_condition_is_refused_by_what_is_on_a_minority() {
    let asks: [&[Ask]; 2] = [&[Ask::CompareAndSet(None, 50), R], &[W(10)]];
    plant(Bug::RefusesUnstable, scenario(&asks, &AHEAD, Faults::default()));
}

#[test]
fn who_takes_over_takes_the_promise_back() {
    let faults = Faults { crashes: 1, take_overs: 1, ..Faults::default() };
    plant(Bug::TakesOverByRelease, scenario(&ASKS, &AHEAD, faults));
}

/// The newer promise is taken back, and the older one is gone with it.
#[test]
fn a_promise_takes_the_place_of_an_older_one() {
    let asks: [&[Ask]; 3] = [&[I], &[Ask::CompareAndSet(Some(10), 60)], &[W(10), R]];
    plant(Bug::HoldsOneFence, scenario(&asks, &[5, 9, 0], Faults::default()));
}

#[test]
fn a_replica_promises_while_it_is_being_rebuilt() {
    let faults = Faults { lost_disks: 1, ..Faults::default() };
    plant(Bug::PromisesWhileRebuilding, scenario(&ASKS, &AHEAD, faults));
}

/// The answer to a proposal came from a disk that was lost since, and the others are asked to accept.
#[test]
fn a_cell_is_accepted_by_the_promise_of_a_lost_disk() {
    let faults = Faults { lost_disks: 1, ..Faults::default() };
    plant(Bug::AcceptsForLostPromise, scenario(&ASKS, &AHEAD, faults));
}

#[test]
fn a_replica_says_that_it_had_what_it_was_given_while_it_was_being_rebuilt() {
    let faults = Faults { lost_disks: 1, ..Faults::default() };
    plant(Bug::RemembersRebuilding, scenario(&ASKS, &AHEAD, faults));
}

/// A write was acknowledged by a replica that has something newer since before it was durable; that was conditional, and decided
/// without it.
#[test]
fn a_write_counts_because_it_was_the_newest_when_it_came() {
    let faults = Faults { late_commits: 1, ..Faults::default() };
    plant(Bug::TrustsArrival, scenario(&ASKS, &AHEAD, faults));
}

/// A write that had been given a newer version was acknowledged where something newer was, as if it came right before that.
#[test]
fn a_write_is_acknowledged_where_something_conditional_went_over_it() {
    let asks: [&[Ask]; 2] = [&[W(20), R], &[W(10), I]];
    plant(Bug::CountsPassedOver, scenario(&asks, &[0, 5], Faults::default()));
}

/// A write was on one replica; a conditional one was decided on it, and put in its place on the others, which said that they
/// never had it: so it was written again.
#[test]
fn a_write_is_written_again_after_what_was_decided_on_it() {
    plant(Bug::ForgetsDecidedOn, scenario(&ASKS, &AHEAD, Faults::default()));
    // By a replica that promised, and got the cell from who repairs.
    let asks: [&[Ask]; 3] = [&[I], &[W(10)], &[R, R]];
    plant(Bug::RemembersIfAccepted, scenario(&asks, &[5, 0, 0], Faults::default()));
}

/// The newer one is of another proposal, which was decided without it.
#[test]
fn a_cell_counts_where_something_conditional_went_over_it() {
    plant(Bug::CountsAnyOvertaken, scenario(&[&[I], &[I, R]], &[0, 5], Faults::default()));
}

/// A coordinator whose increment was accepted by one replica found it there when it tried again. Meanwhile the write was acknowledged
/// by a replica that had accepted something decided on it, from a coordinator that was outbid then. (Without the bug it is right in
/// all 7,956,034 states.)
#[test]
fn a_write_counts_where_what_saw_it_is_gone_over() {
    let faults = Faults { take_overs: 1, ..Faults::default() };
    let asks = Scenario { attempts: 2, ..scenario(&ASKS, &AHEAD, faults) };
    plant(Bug::TrustsAccepted, asks);
}

#[test]
fn what_does_no_harm() {
    for bug in [Bug::AcceptsAnythingLate, Bug::HintsThroughFence] {
        let harmless = scenario(&ASKS, &AHEAD, Faults::default());
        let harmless = Scenario { bug: Some(bug), hints: true, ..harmless };
        assert_linearizable(&format!("{bug:?}"), [harmless]);
    }
}
