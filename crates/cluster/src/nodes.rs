use std::fmt;

/// The most nodes of a cluster: the replicas of a request fit into one word.
pub const NODES_MAX: usize = 64;

/// A node, by its place in the list of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// Its place in the list.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// Why some names are no list of nodes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodesError {
    /// There are none, or too many.
    #[error("the cluster has {nodes} nodes, expected 1 to {NODES_MAX}")]
    Count {
        /// How many there are.
        nodes: usize,
    },
    /// One is there twice.
    #[error("the cluster names {name} more than once, expected once")]
    Repeated {
        /// Which one.
        name: String,
    },
}

/// A node as the list has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its URL, as it is the same everywhere.
    pub name: String,
    /// How much of the data it gets, in proportion to the others.
    pub weight: u16,
}

/// All nodes of the cluster: the same on every node, whatever order they were given in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeList {
    epoch: u64,
    nodes: Vec<Node>,
    fingerprint: u64,
}

impl NodeList {
    /// The list of the first epoch, from the nodes' URLs in any order; all have the same weight.
    pub fn first<N: Into<String>>(names: impl IntoIterator<Item = N>) -> Result<NodeList, NodesError> {
        let mut nodes: Vec<Node> =
            names.into_iter().map(|name| Node { name: name.into(), weight: 1 }).collect();
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        NodeList::at(1, nodes)
    }

    /// The list of an epoch. A node's id is its index, so it must keep its place from one epoch to the next.
    pub fn at(epoch: u64, nodes: Vec<Node>) -> Result<NodeList, NodesError> {
        if nodes.is_empty() || nodes.len() > NODES_MAX {
            return Err(NodesError::Count { nodes: nodes.len() });
        }
        for (index, node) in nodes.iter().enumerate() {
            if nodes[..index].iter().any(|other| other.name == node.name) {
                return Err(NodesError::Repeated { name: node.name.clone() });
            }
        }
        let fingerprint = fingerprint(epoch, &nodes);
        Ok(NodeList { epoch, nodes, fingerprint })
    }

    /// Counts the lists that there have been.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many nodes there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId(index as u16), node))
    }

    /// The node with this name.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.iter().find(|(_, node)| node.name == name).map(|(id, _)| id)
    }

    /// The name of a node.
    ///
    /// # Panics
    /// If there is no such node: ids come from this list.
    pub fn name(&self, id: NodeId) -> &str {
        &self.nodes[id.index()].name
    }

    /// What tells the names of the nodes apart on the disk, whatever places they have; in the order of their ids.
    pub fn name_hashes(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| xxhash_rust::xxh3::xxh3_64(node.name.as_bytes())).collect()
    }

    /// The same for the same list, and another for every other: what peers compare first.
    pub const fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// How another list differs from this one, in a line for the operator; `None` if it does not.
    pub fn difference(&self, theirs: &NodeList) -> Option<Difference> {
        let missing = |from: &NodeList, of: &NodeList| -> Vec<String> {
            of.nodes
                .iter()
                .filter(|node| from.find(&node.name).is_none())
                .map(|node| node.name.clone())
                .collect()
        };
        (self != theirs).then(|| Difference {
            only_here: missing(theirs, self),
            only_there: missing(self, theirs),
            epoch_here: self.epoch,
            epoch_there: theirs.epoch,
        })
    }
}

fn fingerprint(epoch: u64, nodes: &[Node]) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(&epoch.to_le_bytes());
    for node in nodes {
        hasher.update(&(node.name.len() as u64).to_le_bytes());
        hasher.update(node.name.as_bytes());
        hasher.update(&node.weight.to_le_bytes());
    }
    hasher.digest()
}

/// How two lists of nodes differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Nodes that the other list lacks.
    pub only_here: Vec<String>,
    /// Nodes that this list lacks.
    pub only_there: Vec<String>,
    /// The epoch of this list.
    pub epoch_here: u64,
    /// The epoch of the other one.
    pub epoch_there: u64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.only_here.is_empty() {
            parts.push(format!("it lacks {}", self.only_here.join(", ")));
        }
        if !self.only_there.is_empty() {
            parts.push(format!("it has {} in addition", self.only_there.join(", ")));
        }
        if self.epoch_here != self.epoch_there {
            parts.push(format!("it is of epoch {}, expected {}", self.epoch_there, self.epoch_here));
        }
        if parts.is_empty() {
            parts.push("the order or the weights are others".to_owned());
        }
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> NodeList {
        NodeList::first(names.iter().copied()).expect("a list")
    }

    #[test]
    fn the_order_in_which_nodes_are_given_does_not_matter() {
        let (one, other) = (list(&["http://b", "http://a"]), list(&["http://a", "http://b"]));
        assert_eq!(one, other);
        assert_eq!(one.find("http://b"), Some(NodeId(1)));
        assert_eq!(one.name(NodeId(0)), "http://a");
        assert_eq!(one.difference(&other), None);
    }

    #[test]
    fn lists_that_differ_have_other_fingerprints() {
        let base = list(&["http://a", "http://b"]);
        let weighted =
            vec![Node { name: "http://a".into(), weight: 2 }, Node { name: "http://b".into(), weight: 1 }];
        let others = [
            list(&["http://a"]),
            list(&["http://a", "http://c"]),
            list(&["http://ab"]),
            NodeList::at(2, base.nodes.clone()).expect("a list"),
            NodeList::at(1, weighted).expect("a list"),
        ];
        for other in &others {
            assert_ne!(base.fingerprint(), other.fingerprint());
            assert!(base.difference(other).is_some());
        }
    }

    #[test]
    fn a_difference_is_named() {
        let difference = list(&["http://a", "http://b"]).difference(&list(&["http://a", "http://c"]));
        let text = difference.expect("they differ").to_string();
        assert_eq!(text, "it lacks http://b; it has http://c in addition");
    }

    #[test]
    fn what_is_no_list_is_refused() {
        assert_eq!(NodeList::first([""; 0]), Err(NodesError::Count { nodes: 0 }));
        let many = (0..=NODES_MAX).map(|n| n.to_string());
        assert_eq!(NodeList::first(many), Err(NodesError::Count { nodes: 65 }));
        let repeated = NodeList::first(["a", "b", "a"]).expect_err("twice").to_string();
        assert_eq!(repeated, "the cluster names a more than once, expected once");
    }
}
