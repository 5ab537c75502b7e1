use std::collections::HashSet;
use std::fmt;

use crate::register::{Operation, Register, without_unseen};

/// After how many steps a search is given up.
pub const STEPS_MAX: u64 = 20_000_000;

/// What became of the search for an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is one.
    Linearizable,
    /// There is none.
    Violation(Violation),
    /// Not found within [`STEPS_MAX`] steps.
    Undecided,
}

/// As far as an order could be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The operations that could be ordered.
    pub ordered: Vec<Operation>,
    /// What the key holds after them.
    pub holds: Option<u64>,
    /// The one that could not come at any place before it was over.
    pub stuck: Operation,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { ordered, holds, stuck } = self;
        writeln!(
            f,
            "after {} operations the key holds {holds:?}, and nothing explains {stuck:?}; before it:",
            ordered.len()
        )?;
        ordered.iter().rev().take(8).try_for_each(|operation| writeln!(f, "  {operation:?}"))
    }
}

/// Whether there is an order of `operations`, all on one key that holds nothing at first, in which each is told what it was
/// told, and comes after those that had been answered when it was asked.
pub fn check(operations: &[Operation]) -> Verdict {
    Search::new(without_unseen(operations)).run()
}

/// The beginning or the end of an operation, in a list from which what has been ordered is taken out.
#[derive(Debug, Clone, Copy)]
struct Event {
    operation: usize,
    is_end: bool,
    previous: usize,
    next: usize,
}

/// The place in the list before the first and after the last event.
const RIM: usize = 0;

struct Search {
    operations: Vec<Operation>,
    events: Vec<Event>,
    /// Of each operation, where it begins and where it ends.
    places: Vec<(usize, Option<usize>)>,
    ordered: Vec<(usize, Register)>,
    holds: Register,
    /// How many operations that were answered are not ordered.
    left: usize,
    done: Box<[u64]>,
    tried: HashSet<(Box<[u64]>, Register)>,
    deepest: Option<Violation>,
}

impl Search {
    fn new(operations: Vec<Operation>) -> Search {
        let mut times: Vec<(u64, bool, usize)> = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            times.push((operation.invoked, false, index));
            // Of two things at one time, nobody can tell which came first: the beginnings, so that they count as concurrent.
            times.extend(operation.returned().map(|at| (at, true, index)));
        }
        times.sort_unstable();
        let rim = Event {
            operation: usize::MAX,
            is_end: false,
            previous: times.len(),
            next: usize::from(!times.is_empty()),
        };
        let mut events = vec![rim];
        let mut places = vec![(RIM, None); operations.len()];
        for &(_, is_end, operation) in &times {
            let at = events.len();
            let next = if at == times.len() { RIM } else { at + 1 };
            events.push(Event { operation, is_end, previous: at - 1, next });
            if is_end {
                places[operation].1 = Some(at);
            } else {
                places[operation].0 = at;
            }
        }
        let left = operations.iter().filter(|operation| operation.answer.is_some()).count();
        let done = vec![0; operations.len().div_ceil(64)].into();
        let (ordered, tried) = (Vec::new(), HashSet::new());
        Search {
            operations,
            events,
            places,
            ordered,
            holds: Register::default(),
            left,
            done,
            tried,
            deepest: None,
        }
    }

    fn run(mut self) -> Verdict {
        let mut at = self.events[RIM].next;
        for _ in 0..STEPS_MAX {
            if self.left == 0 {
                return Verdict::Linearizable;
            }
            let Event { operation, is_end, next, .. } = self.events[at];
            at = if is_end {
                // It has to come before anything that begins after this.
                self.remember_deepest(operation);
                match self.step_back() {
                    Some(at) => at,
                    None => return self.violation(),
                }
            } else if self.try_next(operation) {
                self.events[RIM].next
            } else {
                next
            };
        }
        Verdict::Undecided
    }

    fn violation(self) -> Verdict {
        Verdict::Violation(self.deepest.expect("something was stuck before all was taken back"))
    }

    /// Has an operation come next, if it can and that was not tried.
    fn try_next(&mut self, operation: usize) -> bool {
        let Some(holds) = self.holds.after(&self.operations[operation]) else { return false };
        self.done[operation / 64] ^= 1 << (operation % 64);
        if !self.tried.insert((self.done.clone(), holds)) {
            self.done[operation / 64] ^= 1 << (operation % 64);
            return false;
        }
        self.ordered.push((operation, self.holds));
        self.holds = holds;
        self.left -= usize::from(self.operations[operation].answer.is_some());
        let (begin, end) = self.places[operation];
        self.take_out(begin);
        end.into_iter().for_each(|end| self.take_out(end));
        true
    }

    /// Takes the last one back. Answers where to go on.
    fn step_back(&mut self) -> Option<usize> {
        let (operation, held) = self.ordered.pop()?;
        self.holds = held;
        self.done[operation / 64] ^= 1 << (operation % 64);
        self.left += usize::from(self.operations[operation].answer.is_some());
        let (begin, end) = self.places[operation];
        end.into_iter().for_each(|end| self.put_back(end));
        self.put_back(begin);
        Some(self.events[begin].next)
    }

    fn take_out(&mut self, at: usize) {
        let Event { previous, next, .. } = self.events[at];
        self.events[previous].next = next;
        self.events[next].previous = previous;
    }

    /// The last one that was taken out.
    fn put_back(&mut self, at: usize) {
        let Event { previous, next, .. } = self.events[at];
        self.events[previous].next = at;
        self.events[next].previous = at;
    }

    fn remember_deepest(&mut self, stuck: usize) {
        if self.deepest.as_ref().is_none_or(|deepest| deepest.ordered.len() < self.ordered.len()) {
            let ordered = self.ordered.iter().map(|&(index, _)| self.operations[index]).collect();
            self.deepest = Some(Violation { ordered, holds: self.holds.0, stuck: self.operations[stuck] });
        }
    }
}
