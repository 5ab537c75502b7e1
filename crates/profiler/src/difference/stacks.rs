//! Samples by names, as the pages of profiles have them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Kind;
use crate::profile::role;

/// The samples of a page follow this, as JSON.
const DATA_BEGIN: &str = "<script id=\"data\" type=\"application/json\">";
const DATA_END: &str = "</script>";
/// A profile is divided into at most so many parts, none of them shorter than the next constant.
const SLICES_MAX: u64 = 10;
const SLICE_MS_MIN: u64 = 500;
/// Ten times as many frames as a stack of a node has, with all that is inlined.
const FRAMES_MAX: usize = 1024;

/// What samples of one stack add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Weight {
    pub(super) sum: u64,
    /// The sum of the squares of the samples: how far chance can move the sum.
    pub(super) squares: f64,
}

/// Weights by stack, the root first, the role of its thread before it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NamedStacks(BTreeMap<Vec<String>, Weight>);

/// Pages of earlier versions do not say it.
const UNKNOWN_ORIGIN: &str = "not said by the page";

/// A profile that was read back from its page.
#[derive(Debug)]
pub struct Recorded {
    /// What was measured.
    pub kind: Kind,
    /// When it was taken, and of which program and process.
    pub origin: String,
    /// Whether the page is a heat map, which has the time of each sample.
    pub is_heat_map: bool,
    pub(super) stacks: NamedStacks,
    /// The same by parts of its time; none if the page does not say when a sample was taken.
    pub(super) slices: Vec<NamedStacks>,
}

/// Why a page is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadProfile {
    /// Nothing of a profile is in it.
    #[error(
        "it holds no samples: expected a page that `ladoga profile -o X.html` or `-o X.heatmap.html` wrote"
    )]
    NoData,
    /// What is there makes no sense.
    #[error("its samples make no sense: {0} is missing or wrong; take the profile again with this program")]
    Nonsense(&'static str),
}

impl NamedStacks {
    /// From the data of a heat map; none if it is not what a node writes.
    pub fn of_samples(data: &Value) -> Option<NamedStacks> {
        let tree = Tree::of(data)?;
        sliced(data, &tree, 1).ok()?.pop()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many samples there are; of unequal ones, how many equal ones would tell as much.
    pub(super) fn samples(&self) -> usize {
        let (mut sum, mut squares) = (0.0, 0.0);
        for weight in self.0.values() {
            sum += weight.sum as f64;
            squares += weight.squares;
        }
        if squares > 0.0 { (sum * sum / squares).round() as usize } else { 0 }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Vec<String>, &Weight)> {
        self.0.iter()
    }

    fn of_weights(tree: &Tree<'_>, weights: &[Weight]) -> Result<NamedStacks, BadProfile> {
        let mut stacks: BTreeMap<Vec<String>, Weight> = BTreeMap::new();
        for (leaf, weight) in weights.iter().enumerate().filter(|(_, weight)| weight.sum > 0) {
            let all = stacks.entry(tree.stack(leaf).ok_or(BadProfile::Nonsense("`tree`"))?).or_default();
            all.sum = all.sum.saturating_add(weight.sum);
            all.squares += weight.squares;
        }
        Ok(NamedStacks(stacks))
    }
}

impl Recorded {
    /// Reads a flame graph's or a heat map's page.
    pub fn of_page(page: &str) -> Result<Recorded, BadProfile> {
        let data = page.split_once(DATA_BEGIN).and_then(|(_, rest)| rest.split_once(DATA_END));
        let (data, _) = data.ok_or(BadProfile::NoData)?;
        let data: Value = serde_json::from_str(data).map_err(|_| BadProfile::Nonsense("the JSON"))?;
        let kind = data["kind"].as_str().and_then(|kind| kind.parse().ok());
        let kind = kind.ok_or(BadProfile::Nonsense("`kind`"))?;
        let origin = data["origin"].as_str().unwrap_or(UNKNOWN_ORIGIN).to_owned();
        let tree = Tree::of(&data).ok_or(BadProfile::Nonsense("`tree`"))?;
        if data["samples"].is_array() {
            let slices = slices_of(&data).ok_or(BadProfile::Nonsense("`cells`"))?;
            let mut all = sliced(&data, &tree, 1)?;
            let stacks = all.pop().ok_or(BadProfile::Nonsense("`samples`"))?;
            let slices = sliced(&data, &tree, slices)?;
            return Ok(Recorded { kind, origin, is_heat_map: true, stacks, slices });
        }
        let sums = numbers(&data["values"]).ok_or(BadProfile::Nonsense("`values`"))?;
        let squares = numbers(&data["squares"]).ok_or(BadProfile::Nonsense("`squares`"))?;
        if sums.len() != tree.parents.len() || squares.len() != sums.len() {
            return Err(BadProfile::Nonsense("one of `values` and `squares` for each node of `tree`"));
        }
        let weight = |(sum, squares): (f64, f64)| Weight { sum: sum as u64, squares };
        let weights: Vec<Weight> = sums.into_iter().zip(squares).map(weight).collect();
        let stacks = NamedStacks::of_weights(&tree, &weights)?;
        Ok(Recorded { kind, origin, is_heat_map: false, stacks, slices: Vec::new() })
    }
}

fn slices_of(data: &Value) -> Option<u64> {
    let ms = data["cells"].as_u64()?.checked_mul(data["cellMs"].as_u64()?)?;
    Some((ms / SLICE_MS_MIN).clamp(1, SLICES_MAX))
}

fn numbers(values: &Value) -> Option<Vec<f64>> {
    values.as_array()?.iter().map(Value::as_f64).collect()
}

/// The samples of a heat map, in so many parts of the same length.
fn sliced(data: &Value, tree: &Tree<'_>, parts: u64) -> Result<Vec<NamedStacks>, BadProfile> {
    let bad = || BadProfile::Nonsense("`samples`");
    let rows = data["samples"].as_array().ok_or_else(bad)?;
    let cells = data["cells"].as_u64().unwrap_or(1).max(1);
    let mut weights = vec![vec![Weight::default(); tree.parents.len()]; parts as usize];
    let mut cell = 0_u64;
    let (rows, []) = rows.as_chunks::<4>() else { return Err(bad()) };
    for row in rows {
        let number = |at: usize| row[at].as_u64().ok_or_else(bad);
        cell = cell.saturating_add(number(0)?);
        let part = (u128::from(cell.min(cells - 1)) * u128::from(parts) / u128::from(cells)) as usize;
        let (leaf, sample) = (number(2)? as usize, number(3)?);
        let weight = weights[part].get_mut(leaf).ok_or_else(bad)?;
        weight.sum = weight.sum.saturating_add(sample);
        weight.squares += (sample as f64).powi(2);
    }
    weights.iter().map(|weights| NamedStacks::of_weights(tree, weights)).collect()
}

/// A tree of names, as in the data of a page.
struct Tree<'a> {
    names: Vec<&'a str>,
    /// The node's caller; -1 for the root.
    parents: Vec<i64>,
    /// The node's name.
    node_names: Vec<u64>,
}

impl<'a> Tree<'a> {
    fn of(data: &'a Value) -> Option<Tree<'a>> {
        let array = |name: &str| data["tree"][name].as_array();
        Some(Tree {
            names: array("names")?.iter().map(Value::as_str).collect::<Option<_>>()?,
            parents: array("parent")?.iter().map(Value::as_i64).collect::<Option<_>>()?,
            node_names: array("name")?.iter().map(Value::as_u64).collect::<Option<_>>()?,
        })
    }

    /// None if a number points to nothing, or in a circle, or if there are more frames than a node sends.
    fn stack(&self, leaf: usize) -> Option<Vec<String>> {
        let (mut names, mut node) = (Vec::new(), leaf as i64);
        while node >= 0 {
            if names.len() == FRAMES_MAX {
                return None;
            }
            let index = usize::try_from(node).ok()?;
            names.push((*self.names.get(*self.node_names.get(index)? as usize)?).to_owned());
            let parent = *self.parents.get(index)?;
            if parent >= node {
                return None;
            }
            node = parent;
        }
        if let Some(thread) = names.last_mut() {
            *thread = role(thread).to_owned();
        }
        names.reverse();
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Difference;
    use super::*;

    fn data() -> Value {
        json!({
            "kind": "cpu", "cells": 100, "cellMs": 20,
            "tree": { "names": ["loop-0", "main", "read", "loop-1"], "parent": [-1, 0, 1, -1, 3, 4], "name": [0, 1, 2, 3, 1, 2] },
            "samples": [0, 0, 2, 5, 1, 0, 2, 5, 3, 0, 1, 7, 90, 1, 5, 5],
        })
    }

    fn page(data: &Value) -> String {
        format!("<p>x</p>{DATA_BEGIN}{data}{DATA_END}")
    }

    #[test]
    fn threads_of_one_role_are_one() {
        let stacks = NamedStacks::of_samples(&data()).unwrap();
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(stacks.0[&named(&["loop", "main", "read"])], Weight { sum: 15, squares: 75.0 });
        assert_eq!(stacks.0[&named(&["loop", "main"])], Weight { sum: 7, squares: 49.0 });
    }

    #[test]
    fn a_page_is_read_back_in_parts_of_its_time() {
        let recorded = Recorded::of_page(&page(&data())).unwrap();
        assert_eq!((recorded.kind, recorded.slices.len()), (Kind::Cpu, 4));
        let sum = |stacks: &NamedStacks| stacks.0.values().map(|weight| weight.sum).sum::<u64>();
        assert_eq!(recorded.slices.iter().map(sum).collect::<Vec<_>>(), [17, 0, 0, 5]);
        assert_eq!(sum(&recorded.stacks), 22);
    }

    #[test]
    fn numbers_as_large_as_there_are_are_compared() {
        let huge = u64::MAX;
        let mut data = data();
        data["cells"] = json!(huge);
        data["cellMs"] = json!(1);
        data["samples"] = json!([huge, 0, 2, huge, huge, 0, 5, huge, 1, 0, 2, 1]);
        let recorded = Recorded::of_page(&page(&data)).unwrap();
        assert_eq!(recorded.slices.len() as u64, SLICES_MAX);
        let told = Difference::of_recorded(&recorded, &recorded);
        assert_eq!(told.changes(), []);
    }

    #[test]
    fn a_stack_without_end_is_refused() {
        for (frames, is_read) in [(FRAMES_MAX, true), (FRAMES_MAX + 1, false)] {
            let parents: Vec<i64> = (-1..frames as i64 - 1).collect();
            let mut data = data();
            data["tree"] = json!({ "names": ["f"], "parent": parents, "name": vec![0; frames] });
            data["samples"] = json!([0, 0, frames - 1, 1]);
            assert_eq!(NamedStacks::of_samples(&data).is_some(), is_read, "{frames}");
        }
    }

    #[test]
    fn data_that_makes_no_sense_is_refused() {
        for (path, value) in
            [("parent", json!([-1, 5, 1])), ("name", json!([0, 1, 9])), ("parent", json!([0, 1, 2]))]
        {
            let mut bad = data();
            bad["tree"][path] = value;
            assert_eq!(NamedStacks::of_samples(&bad), None);
        }
        let mut cut = data();
        cut["samples"].as_array_mut().unwrap().pop();
        assert_eq!(NamedStacks::of_samples(&cut), None);
        let mut short =
            json!({ "kind": "cpu", "tree": data()["tree"], "values": [1, 2, 3], "squares": [1, 2, 3] });
        assert!(matches!(Recorded::of_page(&page(&short)), Err(BadProfile::Nonsense(_))));
        short["values"] = json!(vec![0; 6]);
        short["squares"] = json!(vec![0; 6]);
        assert!(Recorded::of_page(&page(&short)).is_ok());
        assert_eq!(NamedStacks::of_samples(&json!({})), None);
        assert_eq!(Recorded::of_page("hello").unwrap_err(), BadProfile::NoData);
        let mut bad = data();
        bad["kind"] = json!("heap");
        assert_eq!(Recorded::of_page(&page(&bad)).unwrap_err(), BadProfile::Nonsense("`kind`"));
    }
}
