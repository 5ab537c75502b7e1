use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::stacks::{NamedStacks, Weight};

/// The nodes at which the stacks of a round end.
pub(super) type Leaves = Vec<(usize, Weight)>;

/// Where a tree begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// With the threads.
    FromBase,
    /// With the functions in which the time went.
    Reversed,
}

/// The stacks of all rounds in one tree. A parent stands before its children.
#[derive(Debug, Default)]
pub(super) struct Forest {
    names: Vec<String>,
    name_ids: BTreeMap<String, usize>,
    /// -1 for the root.
    parents: Vec<i64>,
    node_names: Vec<usize>,
    children: BTreeMap<(i64, usize), usize>,
}

impl Forest {
    /// Adds the stacks of a round; answers the nodes at which they end.
    pub(super) fn leaves(&mut self, round: &NamedStacks, order: Order) -> Leaves {
        let leaf = |(stack, weight): (&Vec<String>, &Weight)| {
            let end = match order {
                Order::FromBase => self.end(stack.iter()),
                Order::Reversed => self.end(stack.iter().rev()),
            };
            Some((end?, *weight))
        };
        round.iter().filter_map(leaf).collect()
    }

    /// None for a stack of no frames.
    fn end<'a>(&mut self, stack: impl Iterator<Item = &'a String>) -> Option<usize> {
        let mut node = -1;
        for name in stack {
            let next = self.names.len();
            let id = match self.name_ids.get(name) {
                Some(id) => *id,
                None => {
                    self.names.push(name.clone());
                    self.name_ids.insert(name.clone(), next);
                    next
                }
            };
            let fresh = self.parents.len();
            let child = *self.children.entry((node, id)).or_insert(fresh);
            if child == fresh {
                self.parents.push(node);
                self.node_names.push(id);
            }
            node = child as i64;
        }
        usize::try_from(node).ok()
    }

    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }

    pub(super) fn parent(&self, node: usize) -> Option<usize> {
        usize::try_from(self.parents[node]).ok()
    }

    pub(super) fn name(&self, node: usize) -> &str {
        &self.names[self.node_names[node]]
    }

    /// Adds to every caller what its callees have.
    pub(super) fn add_up(&self, values: &mut [f64]) {
        for node in (0..self.len()).rev() {
            if let Some(parent) = self.parent(node) {
                values[parent] += values[node];
            }
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "names": self.names, "parent": self.parents, "name": self.node_names })
    }
}
