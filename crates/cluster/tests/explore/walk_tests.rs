//! Walks at random through what is too large to be gone through: more clients, more that goes wrong, five replicas.
//!
//! Each seed is a scenario and a walk. Half of the walks choose anything that can happen next. The others give each thing a random place
//! in a line, and choose the first: so that some messages are late by very much, which is what it takes to find that one was not thought of.
//! `LADOGA_WALKS=FIRST..END cargo test -p ladoga-cluster --test explore walks` takes other seeds.

use ladoga_model::Replicas;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::scenario::{Ask, Bug, Faults, Scenario};
use super::system::System;
use super::violation;

/// How many walks are a test: some seconds.
const WALKS: u64 = 100_000;
/// How long one is, at most.
const STEPS_MAX: usize = 400;
/// How many it may take until a bug that is planted is found.
const PLANTED_WALKS: u64 = 200_000;

/// Numbers like random ones, the same for each seed.
struct Random {
    seed: u64,
    count: u64,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.count += 1;
        xxh3_64_with_seed(&self.count.to_le_bytes(), self.seed)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// No two values that are written are the same, whatever is added to them.
    fn ask(&mut self, written: &mut u64) -> Ask {
        let before = Some(*written).filter(|&before| before > 0 && self.below(2) > 0);
        let new = *written + 100;
        match self.below(8) {
            0 | 1 => return Ask::Read,
            2 => return Ask::Delete,
            3 | 4 => return Ask::Increment,
            _ => *written = new,
        }
        if self.below(3) > 0 { Ask::Write(new) } else { Ask::CompareAndSet(before, new) }
    }

    fn scenario(&mut self, bug: Option<Bug>) -> Scenario {
        let replicas = self.one_of(&[(2, 2), (2, 3), (2, 3), (2, 3), (3, 3), (3, 5)]);
        let mut written = 0;
        let processes = (0..self.one_of(&[2, 2, 3, 4])).map(|_| {
            let asks = self.one_of(&[1, 2, 3]);
            (0..asks).map(|_| self.ask(&mut written)).collect()
        });
        let processes: Vec<Vec<Ask>> = processes.collect();
        let clocks = processes.iter().map(|_| self.one_of(&[0, 0, 3, 5, 9])).collect();
        let mut times = |max: usize| if self.below(3) == 0 { 1 + self.below(max) } else { 0 };
        let faults = Faults {
            lost_answers: times(3),
            late_commits: times(2),
            deadlines: times(2),
            crashes: times(2),
            take_overs: times(2),
            restarts: times(2),
            // Of a majority that lost its disks, nothing is promised.
            lost_disks: times(1),
        };
        Scenario {
            replicas: Replicas { ack: replicas.0, from: replicas.1 },
            processes,
            clocks,
            digests: self.below(2) > 0,
            hints: self.below(2) > 0,
            attempts: self.one_of(&[1, 2, 3]),
            bug,
            faults,
        }
    }
}

/// What is wrong at the end of a walk, and how it came there.
fn walk(seed: u64, bug: Option<Bug>) -> Option<String> {
    let mut random = Random { seed, count: 0 };
    let scenario = random.scenario(bug);
    let in_line = random.below(2) > 0;
    let (mut system, mut happened) = (System::of(&scenario), Vec::new());
    // Who meets a promise that nobody ends asks again for ever.
    while happened.len() < STEPS_MAX {
        let choices = system.choices(&scenario);
        if choices.is_empty() {
            break;
        }
        let choice = if in_line && random.below(16) > 0 {
            let place = |choice: &_| xxh3_64_with_seed(format!("{choice:?}").as_bytes(), seed);
            choices.into_iter().max_by_key(place).expect("there is one")
        } else {
            random.one_of(&choices)
        };
        let told = system.told;
        system.choose(&scenario, choice);
        happened.push(choice);
        if let Some(violation) = violation(&system, system.told != told) {
            return Some(format!("seed {seed}: {violation}\n{happened:?}\nin {scenario:?}"));
        }
    }
    None
}

#[test]
fn walks_at_random() {
    let range = std::env::var("LADOGA_WALKS").unwrap_or_else(|_| format!("0..{WALKS}"));
    let (first, end) = range.split_once("..").expect("LADOGA_WALKS is FIRST..END");
    let [first, end] = [first, end].map(|seed| seed.parse::<u64>().expect("a number"));
    if let Some(violation) = (first..end).find_map(|seed| walk(seed, None)) {
        panic!("{violation}");
    }
}

/// An increment was decided on a write that began after a newer one had ended, by a clock that was behind; and counted as if it had come
/// before that one.
#[test]
fn a_cell_that_is_decided_on_what_came_after_the_newer_one_is_found() {
    let found = (0..PLANTED_WALKS).find_map(|seed| walk(seed, Some(Bug::CountsOvertakenBase)));
    let violation = found.expect("a walk that finds it");
    assert!(violation.contains("nothing explains"), "{violation}");
}
