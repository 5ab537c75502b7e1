//! What happens in one order, and then in all: it takes so many requests that neither all orders nor walks at random come to it.

use ladoga_model::Replicas;

use super::message::{Choice, Message};
use super::scenario::{Bug, Faults, Scenario};
use super::system::System;
use super::{I, R, W, explore_from, scenario};

/// What comes next, of what can.
#[derive(Debug, Clone, Copy)]
enum Step {
    Ask(usize),
    /// A message of a request comes to a replica.
    Write(usize, usize),
    Prepare(usize, usize),
    Accept(usize, usize),
}

impl Step {
    fn is(self, choice: &Choice) -> bool {
        match (self, *choice) {
            (Step::Ask(process), Choice::Ask(asked)) => process == asked,
            (Step::Write(of, at), Choice::Arrive(Message::Write { request, to, .. }))
            | (Step::Prepare(of, at), Choice::Arrive(Message::Prepare { request, to, .. }))
            | (Step::Accept(of, at), Choice::Arrive(Message::Accept { request, to, .. })) => {
                (of, at) == (request, to)
            }
            _ => false,
        }
    }
}

/// What comes of these steps.
fn after(scenario: &Scenario, steps: &[Step]) -> System {
    let mut system = System::of(scenario);
    for step in steps {
        let choice = system.choices(scenario).into_iter().find(|choice| step.is(choice));
        system.choose(scenario, choice.unwrap_or_else(|| panic!("{step:?} cannot come next")));
    }
    system
}

/// Of five replicas, only the first has a write. An increment is decided on that (2), and another one on the outcome (4), which a majority
/// accepts. Two more were decided on nothing (1 and 3), and accepted by minorities. The replicas that accepted those said that the write was
/// skipped, so it was written again: over two increments.
#[test]
fn a_write_on_which_something_was_decided_is_not_skipped_by_what_was_decided_without_it() {
    use Step::{Accept, Ask, Prepare, Write};
    let asks = [&[W(100)][..], &[I], &[I], &[I], &[I], &[R]];
    let three = scenario(&asks, &[0, 1, 2, 3, 4, 5], Faults::default());
    let five = Scenario { replicas: Replicas { ack: 3, from: 5 }, ..three };
    let steps = [
        &[Ask(0), Write(0, 0)][..],
        &[Ask(1), Prepare(1, 1), Prepare(1, 2), Prepare(1, 3), Accept(1, 3)],
        &[Ask(2), Prepare(2, 1), Prepare(2, 2), Prepare(2, 0), Accept(2, 0)],
        &[Ask(3), Prepare(3, 4), Prepare(3, 1), Prepare(3, 2), Accept(3, 4), Accept(3, 1)],
        &[Ask(4), Prepare(4, 2), Prepare(4, 3), Prepare(4, 0), Accept(4, 2), Accept(4, 3), Accept(4, 0)],
        &[Accept(2, 1), Write(0, 4), Write(0, 1), Write(0, 3)],
    ];
    let steps = steps.concat();
    let explored = explore_from(&five, after(&five, &steps), STATES_MAX);
    assert_eq!(explored.violation, None);
    println!("after five requests: {} states", explored.states);
    let planted = Scenario { bug: Some(Bug::SkipsByOne), ..five };
    let violation = explore_from(&planted, after(&planted, &steps), STATES_MAX).violation;
    assert!(violation.is_some_and(|violation| violation.contains("nothing explains")));
}

/// What can still come after the steps, with repairs and answers that are late, is more than is worth it.
const STATES_MAX: usize = 20_000;
