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
//! - `script_data`: what the page's script tells noise by
//! - `page`: a difference to look at

mod forest;
mod noise;
mod page;
mod permuted;
mod script_data;
mod stacks;

pub use noise::Basis;
pub use stacks::{BadProfile, NamedStacks, Recorded};

use std::fmt;

use serde_json::{Value, json};

use forest::{Forest, Leaves, Order};
use noise::Sides;

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
    leaves: [Vec<Leaves>; 2],
    sides: Sides,
    /// By so many deviations chance alone makes a frame differ: from the base, and reversed.
    deviations: [Option<f64>; 2],
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
        let [all_before, all_after] = [before, after].map(|side| std::slice::from_ref(&side.stacks));
        if let Some(basis) = Basis::of_samples([before, after].map(|side| side.stacks.samples())) {
            return Difference::new(all_before, all_after, basis);
        }
        match Basis::of_slices(counts) {
            Some(basis) => Difference::new(slices[0], slices[1], basis),
            None => Difference::new(all_before, all_after, Basis::Sampling),
        }
    }

    fn new(before: &[NamedStacks], after: &[NamedStacks], basis: Basis) -> Difference {
        let (forest, leaves) = measured([before, after], Order::FromBase);
        let sides = Sides::new(&forest, &leaves);
        let from_base = sides.deviations(&forest, &basis);
        let reversed = {
            let (forest, leaves) = measured([before, after], Order::Reversed);
            Sides::new(&forest, &leaves).deviations(&forest, &basis)
        };
        let noise = sides.noise(&forest, &basis, from_base);
        Difference { forest, leaves, sides, deviations: [from_base, reversed], noise, basis }
    }

    /// How noise was estimated.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// As the script of flame graphs takes a difference.
    pub fn to_json(&self) -> Value {
        let [before, after] = self.leaves.each_ref().map(|side| own_values(&self.forest, side));
        let is_sampling = self.basis == Basis::Sampling;
        json!({
            "tree": self.forest.to_json(),
            "before": before,
            "after": after,
            "noise": script_data::noise(&self.leaves, self.deviations, is_sampling),
        })
    }

    /// How many frames differ by more than noise, callers included, and how many are wide enough to be seen at all.
    pub fn coloured(&self) -> (usize, usize) {
        let seen = self.sides.seen(&self.forest);
        (seen.iter().filter(|node| self.change(**node).is_some()).count(), seen.len())
    }

    /// By how much the share of a node has changed; none if that is noise.
    fn change(&self, node: usize) -> Option<f64> {
        let [before, after] = self.sides.shares(node);
        Some(after - before).filter(|by| by.abs() > self.noise[node])
    }

    /// Frames that differ by more than noise, those that differ most first; without those that only call one of them.
    pub fn changes(&self) -> Vec<Changed> {
        let mut is_explained = vec![false; self.noise.len()];
        for node in 0..self.noise.len() {
            if let (Some(own), Some(parent)) = (self.change(node), self.forest.parent(node)) {
                is_explained[parent] |= self.change(parent).is_some_and(|whole| {
                    own.signum() == whole.signum() && own.abs() >= EXPLAINED * whole.abs()
                });
            }
        }
        let changed = |node: usize| {
            self.change(node).filter(|_| !is_explained[node])?;
            let [before, after] = self.sides.shares(node);
            Some(Changed { name: self.forest.name(node).to_owned(), before, after })
        };
        let mut changes: Vec<Changed> = (0..self.noise.len()).filter_map(changed).collect();
        let by = |changed: &Changed| (changed.after - changed.before).abs();
        changes.sort_by(|a, b| by(b).total_cmp(&by(a)));
        changes
    }

    /// The page of a difference between two profiles of a kind: their names, and their origins.
    pub fn page(&self, kind: crate::Kind, names: [&str; 2], origins: [&str; 2]) -> String {
        page::render(self, kind, names, origins)
    }
}

/// All rounds of both sides in one tree.
fn measured(sides: [&[NamedStacks]; 2], order: Order) -> (Forest, [Vec<Leaves>; 2]) {
    let mut forest = Forest::default();
    let leaves = sides.map(|side| side.iter().map(|round| forest.leaves(round, order)).collect());
    (forest, leaves)
}

/// The sum of all rounds at each node.
fn own_values(forest: &Forest, rounds: &[Leaves]) -> Vec<u64> {
    let mut values = vec![0_u64; forest.len()];
    for (leaf, weight) in rounds.iter().flatten() {
        values[*leaf] = values[*leaf].saturating_add(weight.sum);
    }
    values
}

#[cfg(test)]
mod tests;
