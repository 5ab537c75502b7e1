//! Every order in which the messages of a few requests on one key can arrive, or not, with the machines that ship, and with what
//! goes wrong beside them: answers that are lost, requests that take too long, coordinators that are gone, a replica that forgets, a
//! disk that is lost.
//!
//! - `scenario`: what is explored; `system`: clients, coordinators and messages; `replica`: what a replica has and remembers
//! - `plain_tests`: reads and writes; `conditional_tests`: conditional writes beside them; `planted_tests`: bugs that are found;
//!   `walk_tests`: walks at random; `scripted_tests`: what is too long for those
//!
//! In each state it is checked that what clients were told could have happened one operation after the other, and that no read
//! returned a version that was given up. A coordinator that says that nothing happened is held to that as well.

mod conditional_tests;
mod message;
mod plain_tests;
mod planted_tests;
mod replica;
mod scenario;
mod scripted_tests;
mod system;
mod walk_tests;

use std::collections::HashSet;

use ladoga_history::{Verdict, check};
use ladoga_model::Replicas;
use scenario::{Ask, Faults, Scenario};
use system::System;

const R: Ask = Ask::Read;
const D: Ask = Ask::Delete;
const I: Ask = Ask::Increment;
const W: fn(u64) -> Ask = Ask::Write;

struct Explored {
    states: usize,
    /// The first history that is not linearizable, and how it came about.
    violation: Option<String>,
}

/// Goes through all states, depth first; or through so many.
fn explore(scenario: &Scenario, states_max: usize) -> Explored {
    explore_from(scenario, System::of(scenario), states_max)
}

fn explore_from(scenario: &Scenario, start: System, states_max: usize) -> Explored {
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
        if let Some(violation) = violation(&then, then.told != system.told) {
            return Explored { states: known.len(), violation: Some(format!("{violation}\n{happened:#?}")) };
        }
        if known.len() >= states_max {
            break;
        }
        trail.push((then.choices(scenario), then));
    }
    Explored { states: known.len(), violation: None }
}

fn violation(system: &System, is_news: bool) -> Option<String> {
    if let Some(version) = system.resurrected() {
        return Some(format!("a read returned {version:?}, which was given up"));
    }
    match is_news.then(|| check(&system.history))? {
        Verdict::Linearizable => None,
        Verdict::Violation(violation) => Some(violation.to_string()),
        Verdict::Undecided => Some("it was too long for the checker".to_owned()),
    }
}

fn scenario(processes: &[&[Ask]], clocks: &[u64], faults: Faults) -> Scenario {
    Scenario {
        replicas: Replicas { ack: 2, from: 3 },
        processes: processes.iter().map(|asks| asks.to_vec()).collect(),
        clocks: clocks.to_vec(),
        digests: false,
        hints: false,
        attempts: 1,
        bug: None,
        faults,
    }
}

/// Goes through all states of each scenario, and tells how many there were.
fn assert_linearizable(name: &str, scenarios: impl IntoIterator<Item = Scenario>) {
    let mut states = 0;
    for scenario in scenarios {
        let explored = explore(&scenario, usize::MAX);
        states += explored.states;
        if let Some(violation) = explored.violation {
            panic!("{name}: {violation}\nin {scenario:?}");
        }
    }
    println!("{name}: {states} states");
}

/// Goes through states until one is found that must not be. Answers what was found.
fn assert_violated(name: &str, planted: &Scenario) -> String {
    let explored = explore(planted, usize::MAX);
    println!("{name}: found after {} states", explored.states);
    explored.violation.unwrap_or_else(|| panic!("{name}: not found in {} states", explored.states))
}
