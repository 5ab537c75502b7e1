//! Samples of a profile, as the node's heat map has them: a tree of names, and for every sample its cell of time, its
//! thread, its node in the tree and its weight.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
struct Data {
    tree: Tree,
    samples: Vec<u64>,
}

#[derive(Debug, Deserialize)]
struct Tree {
    names: Vec<String>,
    /// The node's caller; -1 for the root.
    parent: Vec<i64>,
    /// The node's name.
    name: Vec<usize>,
}

/// Weights by stack, the root first, the thread before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NamedStacks(BTreeMap<Vec<String>, u64>);

impl NamedStacks {
    /// None where the data is not what a node writes.
    pub(crate) fn of_samples(data: &Value) -> Option<Self> {
        let Data { tree, samples } = Data::deserialize(data).ok()?;
        let mut stacks = BTreeMap::new();
        for sample in samples.chunks_exact(4) {
            *stacks.entry(tree.stack(usize::try_from(sample[2]).ok()?)?).or_insert(0) += sample[3];
        }
        Some(Self(stacks))
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (stack, weight) in &other.0 {
            *self.0.entry(stack.clone()).or_insert(0) += weight;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Both in one tree, as the page's script takes a difference.
    pub(crate) fn difference(&self, after: &Self) -> Value {
        let mut forest = Forest::default();
        let mut values = [Vec::new(), Vec::new()];
        for (side, stacks) in [self, after].into_iter().enumerate() {
            for (stack, weight) in &stacks.0 {
                let leaf = forest.leaf(stack);
                values.iter_mut().for_each(|values| values.resize(forest.parents.len(), 0_u64));
                values[side][leaf] += weight;
            }
        }
        let [before, after] = values;
        let tree = json!({ "names": forest.names, "parent": forest.parents, "name": forest.node_names });
        json!({ "tree": tree, "before": before, "after": after })
    }
}

impl Tree {
    /// None where a number points to nothing, or in a circle.
    fn stack(&self, leaf: usize) -> Option<Vec<String>> {
        let (mut names, mut node) = (Vec::new(), leaf as i64);
        while node >= 0 {
            let index = usize::try_from(node).ok()?;
            names.push(self.names.get(*self.name.get(index)?)?.clone());
            let parent = *self.parent.get(index)?;
            if parent >= node {
                return None;
            }
            node = parent;
        }
        names.reverse();
        Some(names)
    }
}

#[derive(Default)]
struct Forest<'a> {
    names: Vec<&'a str>,
    name_ids: BTreeMap<&'a str, usize>,
    parents: Vec<i64>,
    node_names: Vec<usize>,
    children: BTreeMap<(i64, usize), usize>,
}

impl<'a> Forest<'a> {
    fn leaf(&mut self, stack: &'a [String]) -> usize {
        let mut node = -1;
        for name in stack {
            let next = self.names.len();
            let id = *self.name_ids.entry(name).or_insert(next);
            if id == next {
                self.names.push(name);
            }
            let fresh = self.parents.len();
            let child = *self.children.entry((node, id)).or_insert(fresh);
            if child == fresh {
                self.parents.push(node);
                self.node_names.push(id);
            }
            node = child as i64;
        }
        node.max(0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data() -> Value {
        json!({
            "tree": { "names": ["loop", "main", "read"], "parent": [-1, 0, 1], "name": [0, 1, 2] },
            "samples": [0, 0, 2, 5, 1, 0, 2, 5, 3, 0, 1, 7],
        })
    }

    #[test]
    fn samples_become_stacks() {
        let stacks = NamedStacks::of_samples(&data()).unwrap();
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(stacks.0[&named(&["loop", "main", "read"])], 10);
        assert_eq!(stacks.0[&named(&["loop", "main"])], 7);
    }

    #[test]
    fn a_difference_has_both_sides_in_one_tree() {
        let before = NamedStacks::of_samples(&data()).unwrap();
        let mut other = data();
        other["tree"]["names"][2] = json!("write");
        let difference = before.difference(&NamedStacks::of_samples(&other).unwrap());
        assert_eq!(difference["tree"]["names"], json!(["loop", "main", "read", "write"]));
        assert_eq!(difference["tree"]["parent"], json!([-1, 0, 1, 1]));
        assert_eq!(
            (&difference["before"], &difference["after"]),
            (&json!([0, 7, 10, 0]), &json!([0, 7, 0, 10]))
        );
    }

    #[test]
    fn data_that_makes_no_sense_is_none() {
        for (path, value) in
            [("parent", json!([-1, 5, 1])), ("name", json!([0, 1, 9])), ("parent", json!([0, 1, 2]))]
        {
            let mut bad = data();
            bad["tree"][path] = value;
            assert_eq!(NamedStacks::of_samples(&bad), None);
        }
        assert_eq!(NamedStacks::of_samples(&json!({})), None);
    }
}
