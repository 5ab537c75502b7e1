//! Every order in which the messages of a few requests on one key can arrive, or not, with the machines that ship, and with what
//! goes wrong beside them: answers that are lost, requests that take too long, a replica that forgets, a disk that is lost.
//!
//! - `system`: clients, coordinators and messages; `replica`: what a replica has and remembers

mod replica;
mod system;

use std::collections::HashSet;

use ladoga_history::{Verdict, check};
use ladoga_model::Replicas;
use system::{Ask, Faults, Rule, Scenario, System};

const R: Ask = Ask::Read;
const D: Ask = Ask::Delete;
const W: fn(u64) -> Ask = Ask::Write;

const CLOCKS: [[u64; 2]; 3] = [[0, 0], [0, 5], [5, 0]];

struct Explored {
    states: usize,
    /// The first history that is not linearizable, and how it came about.
    violation: Option<String>,
}

/// Goes through all states, depth first.
fn explore(scenario: &Scenario) -> Explored {
    let start = System::of(scenario);
    let mut known = HashSet::from([start.fingerprint()]);
    let mut trail = vec![(start.choices(scenario), start)];
    // What happened up to the state at the end of the trail.
    let mut happened = Vec::new();
    while let Some((choices, system)) = trail.last_mut() {
        let Some(choice) = choices.pop() else {
            trail.pop();
            happened.pop();
            continue;
        };
        let mut then = system.clone();
        then.choose(scenario, choice);
        if !known.insert(then.fingerprint()) {
            continue;
        }
        happened.push(choice);
        let is_news = then.history != system.history;
        if is_news && let Verdict::Violation(violation) = check(&then.history) {
            return Explored { states: known.len(), violation: Some(format!("{violation}\n{happened:#?}")) };
        }
        trail.push((then.choices(scenario), then));
    }
    Explored { states: known.len(), violation: None }
}

fn scenario(processes: &[&[Ask]], clocks: &[u64], faults: Faults) -> Scenario {
    Scenario {
        replicas: Replicas { ack: 2, from: 3 },
        processes: processes.iter().map(|asks| asks.to_vec()).collect(),
        clocks: clocks.to_vec(),
        digests: false,
        rule: Rule::Unseen,
        faults,
    }
}

/// Goes through all states of each scenario, and tells how many there were.
fn assert_linearizable(name: &str, scenarios: impl IntoIterator<Item = Scenario>) {
    let mut states = 0;
    for scenario in scenarios {
        let explored = explore(&scenario);
        states += explored.states;
        if let Some(violation) = explored.violation {
            panic!("{name}: {violation}\nin {scenario:?}");
        }
    }
    println!("{name}: {states} states");
}

/// A write took effect twice: a reader had the version spread that came first, another write took its place, and the
/// coordinator of the first, told that something newer was there, wrote it again. (Decision 0048.)
#[test]
fn a_write_that_was_seen_is_not_written_again() {
    let asks: [&[Ask]; 2] = [&[W(1)], &[R, W(2), R]];
    let none = Faults::default();
    assert_linearizable("two writers", CLOCKS.map(|clocks| scenario(&asks, &clocks, none)));
    let planted = Scenario { rule: Rule::Stale, ..scenario(&asks, &[0, 0], none) };
    let explored = explore(&planted);
    println!("the planted one: {} states", explored.states);
    let violation = explored.violation.unwrap_or_else(|| panic!("not found in {} states", explored.states));
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
