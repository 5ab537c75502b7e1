//! What two sets of profiles of one kind differ by, and how much of that is noise. Pure.
//!
//! ```text
//! NamedStacks::of_page(page) -> Recorded -> Difference::of_recorded
//! NamedStacks of every round              -> Difference::of_rounds   -> to_json, changes, basis
//! ```
//!
//! - `stacks`: samples by names, as pages of profiles have them
//! - `forest`: all of them in one tree
//! - `noise`: how far a frame's share may move if nothing has changed
//! - `permuted`: what chance alone makes of the same rounds
//! - `page`: a difference to look at

mod forest;
mod noise;
mod page;
mod permuted;
mod stacks;

pub use noise::Basis;
pub use stacks::{BadProfile, NamedStacks, Recorded};

use std::fmt;

use serde_json::{Value, json};

use forest::Forest;
use noise::{Round, Sides};

/// A frame that has another share than before, and by more than noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// The function.
    pub name: String,
    /// Its share of all samples, including its callees, before.
    pub before: f64,
    /// The same after.
    pub after: f64,
}

impl fmt::Display for Changed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = [self.before, self.after].map(|share| share * 100.0);
        write!(formatter, "{:+6.1} points  {before:5.1} % to {after:5.1} %  {}", after - before, self.name)
    }
}

/// Both sides in one tree, and the noise of each frame.
#[derive(Debug)]
pub struct Difference {
    forest: Forest,
    before: Vec<u64>,
    after: Vec<u64>,
    sides: Sides,
    /// By node: a share that moved by no more than this is noise.
    noise: Vec<f64>,
    basis: Basis,
}

/// A callee with this part of its caller's change explains it.
const EXPLAINED: f64 = 0.8;

impl Difference {
    /// Of rounds, each of which is a measurement of its own.
    pub fn of_rounds(before: &[NamedStacks], after: &[NamedStacks]) -> Difference {
        let counts = [before, after].map(|side| side.iter().filter(|round| !round.is_empty()).count());
        Difference::new(before, after, Basis::of_rounds(counts))
    }

    /// Compares two profiles without rounds: noise is estimated from their own samples.
    pub fn of_recorded(before: &Recorded, after: &Recorded) -> Difference {
        let slices = [&before.slices, &after.slices];
        let counts = slices.map(|side| side.iter().filter(|slice| !slice.is_empty()).count());
        match Basis::of_slices(counts) {
            Some(basis) => Difference::new(slices[0], slices[1], basis),
            None => {
                let [before, after] = [before, after].map(|side| std::slice::from_ref(&side.stacks));
                Difference::new(before, after, Basis::Sampling)
            }
        }
    }

    fn new(before: &[NamedStacks], after: &[NamedStacks], basis: Basis) -> Difference {
        let mut forest = Forest::default();
        let leaves =
            [before, after].map(|side| side.iter().map(|round| forest.leaves(round)).collect::<Vec<_>>());
        let [before, after] = leaves.each_ref().map(|side| own_values(&forest, side));
        let rounds = leaves.each_ref().map(|side| {
            side.iter().map(|round| Round::new(&forest, round)).filter(|round| !round.is_empty()).collect()
        });
        let sides = Sides::new(rounds);
        let noise = sides.noise(&forest, &basis);
        Difference { forest, before, after, sides, noise, basis }
    }

    /// How noise was estimated.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// As the script of flame graphs takes a difference.
    pub fn to_json(&self) -> Value {
        let noise: Vec<f64> = self.noise.iter().map(|noise| (noise * 1e5).ceil() / 1e5).collect();
        json!({
            "tree": self.forest.to_json(),
            "before": self.before,
            "after": self.after,
            "noise": noise,
        })
    }

    /// Frames that differ by more than noise, those that differ most first; without those that only call one of them.
    pub fn changes(&self) -> Vec<Changed> {
        let by = |node: usize| {
            let [before, after] = self.sides.shares(node);
            Some(after - before).filter(|by| by.abs() > self.noise[node])
        };
        let mut is_explained = vec![false; self.noise.len()];
        for node in 0..self.noise.len() {
            if let (Some(own), Some(parent)) = (by(node), self.forest.parent(node)) {
                is_explained[parent] |= by(parent).is_some_and(|whole| {
                    own.signum() == whole.signum() && own.abs() >= EXPLAINED * whole.abs()
                });
            }
        }
        let changed = |node: usize| {
            by(node).filter(|_| !is_explained[node])?;
            let [before, after] = self.sides.shares(node);
            Some(Changed { name: self.forest.name(node).to_owned(), before, after })
        };
        let mut changes: Vec<Changed> = (0..self.noise.len()).filter_map(changed).collect();
        let by = |changed: &Changed| (changed.after - changed.before).abs();
        changes.sort_by(|a, b| by(b).total_cmp(&by(a)));
        changes
    }

    /// The page of a difference between two profiles of a kind.
    pub fn page(&self, kind: crate::Kind, names: [&str; 2]) -> String {
        page::render(self, kind, names)
    }
}

/// The sum of all rounds at each node.
fn own_values(forest: &Forest, rounds: &[Vec<(usize, stacks::Weight)>]) -> Vec<u64> {
    let mut values = vec![0_u64; forest.len()];
    for (leaf, weight) in rounds.iter().flatten() {
        values[*leaf] = values[*leaf].saturating_add(weight.sum);
    }
    values
}

#[cfg(test)]
mod tests;
