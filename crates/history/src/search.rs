use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::register::{Input, Operation, Register, without_unseen};

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

/// Whether there is an order of `operations`, all on one key that holds nothing at first, in which each gets the answer that it
/// got, and comes after the operations that had been answered when it began.
pub fn check(operations: &[Operation]) -> Verdict {
    Search::new(without_unseen(operations)).run()
}

/// The beginning or the end of an operation, in a list from which ordered operations are removed.
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
    /// For each operation, the places of its beginning and its end.
    places: Vec<(usize, Option<usize>)>,
    /// For each operation with an unknown outcome, the one before it with the same input and an unknown outcome too.
    twins: Vec<Option<usize>>,
    ordered: Vec<(usize, Register)>,
    holds: Register,
    /// How many operations that were answered are not ordered.
    left: usize,
    done: Box<[u64]>,
    tried: HashSet<State>,
    deepest: Option<Violation>,
}

/// What the rest of the search depends on: which operations are ordered, what the key holds, and what it held before the last
/// operation if the outcome of that is unknown.
type State = (Box<[u64]>, Register, Option<Register>);

impl Search {
    fn new(operations: Vec<Operation>) -> Search {
        let mut times: Vec<(u64, bool, usize)> = Vec::new();
        for (index, operation) in operations.iter().enumerate() {
            times.push((operation.invoked, false, index));
            // Of two events at the same time, the beginnings come first, so that the operations count as concurrent.
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
        let begun = times.iter().filter(|&&(_, is_end, _)| !is_end).map(|&(.., operation)| operation);
        let twins = twins(&operations, begun);
        Search {
            operations,
            events,
            places,
            twins,
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
        if !self.may_matter(operation, holds) {
            return false;
        }
        self.done[operation / 64] ^= 1 << (operation % 64);
        let before = self.operations[operation].answer.is_none().then_some(self.holds);
        if !self.tried.insert((self.done.clone(), holds, before)) {
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

    /// Whether an operation that can come next has to be tried now. If there is an order at all, there is one in which every
    /// operation with an unknown outcome is left out, or comes as late as it can: right before an operation whose answer would
    /// be impossible without it. And of several with the same input, the first comes first. Without this, each of them doubles
    /// what is tried before a violation is certain.
    fn may_matter(&self, operation: usize, holds: Register) -> bool {
        let asked = &self.operations[operation];
        let is_known = asked.answer.is_some();
        if !is_known && (holds == self.holds || self.twins[operation].is_some_and(|twin| !self.is_done(twin)))
        {
            return false;
        }
        let last = self.ordered.last().filter(|&&(last, _)| self.operations[last].answer.is_none());
        match last {
            None => true,
            Some((_, held)) if is_known => held.after(asked).is_none(),
            // The effect of the last operation must be of use to this one, whose outcome is unknown too.
            Some(_) => matches!(asked.input, Input::CompareAndSet { .. } | Input::Increment),
        }
    }

    fn is_done(&self, operation: usize) -> bool {
        self.done[operation / 64] & (1 << (operation % 64)) != 0
    }

    /// Takes the last one back. Answers the event with which to go on.
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

/// See [`Search::twins`]; `begun` has the operations in the order in which they begin.
fn twins(operations: &[Operation], begun: impl Iterator<Item = usize>) -> Vec<Option<usize>> {
    let mut twins = vec![None; operations.len()];
    let mut last_of = HashMap::new();
    for index in begun.filter(|&index| operations[index].answer.is_none()) {
        twins[index] = last_of.insert(operations[index].input, index);
    }
    twins
}
