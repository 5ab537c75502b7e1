//! Which nodes a key lives on.
//!
//! ```text
//! partition(key)         = xxh3_64(key) >> 48
//! score(node, partition) = weight / -ln(uniform(xxh3_64(partition u32, seed: xxh3_64(name))))
//! preference list        = all nodes, the highest score first
//! ```
//!
//! None of this may change: it determines where the data is. Source of the score: Wang and Ravishankar's rendezvous hashing,
//! with the weights of Schindelhauer and Schomaker, "Weighted Distributed Hash Tables", 2005.

use std::cmp::Ordering;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use ladoga_model::CellMark;

use crate::nodes::{NodeId, NodeList};

const PARTITION_BITS: u32 = 16;

/// How many partitions there are, in every cluster and for ever.
///
/// A node's share of the partitions is a sum of independent draws: with `n` nodes it deviates by about
/// `sqrt((n - 1) / PARTITIONS)` of itself, which is 0.8 % for five nodes. A tenth of these partitions would not keep
/// each node within 5 % of its share. More would cost memory in the hash trees, which have a leaf for each.
pub const PARTITIONS: usize = 1 << PARTITION_BITS;

/// A partition: a part of all keys that lives on the same nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub u16);

impl Partition {
    /// The partition of a key.
    #[inline]
    pub fn of(key: &[u8]) -> Partition {
        Partition::of_hash(xxh3_64(key))
    }

    /// The partition of a key with this xxh3.
    #[inline]
    pub const fn of_hash(hash: u64) -> Partition {
        Partition((hash >> (64 - PARTITION_BITS)) as u16)
    }

    /// Its number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All partitions.
    pub fn all() -> impl Iterator<Item = Partition> {
        (0..=u16::MAX).map(Partition)
    }
}

const _: () = assert!(PARTITIONS == u16::MAX as usize + 1, "a partition's number fills its type");

/// The preference list of every partition.
#[derive(Debug, Clone)]
pub struct Placement {
    nodes: usize,
    /// The lists, one after another.
    lists: Vec<NodeId>,
}

impl Placement {
    /// Computes the lists.
    pub fn of(nodes: &NodeList) -> Placement {
        let seeds: Vec<(NodeId, u64, f64)> = nodes
            .iter()
            .map(|(id, node)| (id, xxh3_64(node.name.as_bytes()), f64::from(node.weight)))
            .collect();
        let mut lists = Vec::with_capacity(PARTITIONS * seeds.len());
        let mut scores = Vec::with_capacity(seeds.len());
        for partition in Partition::all() {
            scores.clear();
            scores.extend(seeds.iter().map(|&(id, seed, weight)| (score(seed, weight, partition), id)));
            scores.sort_by(|(one, id), (other, other_id)| {
                other.partial_cmp(one).unwrap_or(Ordering::Equal).then(id.cmp(other_id))
            });
            lists.extend(scores.iter().map(|&(_, id)| id));
        }
        Placement { nodes: seeds.len(), lists }
    }

    /// All nodes, in the order in which they take the partition: a key that lives on `from` nodes lives on the first
    /// `from` of them.
    #[inline]
    pub fn preference_list(&self, partition: Partition) -> &[NodeId] {
        &self.lists[partition.index() * self.nodes..][..self.nodes]
    }

    /// The nodes of a key that lives on `from` of them.
    ///
    /// # Panics
    /// If there are fewer nodes: requests are checked before.
    #[inline]
    pub fn replicas(&self, key: &[u8], from: usize) -> &[NodeId] {
        &self.preference_list(Partition::of(key))[..from]
    }

    /// Whether a node holds a cell of this partition, if it has what it should.
    pub fn holds(&self, partition: Partition, node: NodeId, cell: CellMark) -> bool {
        cell.belongs_on(self.position(partition, node))
    }

    /// Whether both nodes do: what a peer lists for another.
    pub fn both_hold(&self, partition: Partition, nodes: [NodeId; 2], cell: CellMark) -> bool {
        let last = nodes.map(|node| self.position(partition, node)).into_iter().max().unwrap_or(0);
        cell.belongs_on(last)
    }

    /// The position of a node in the preference list of a partition.
    ///
    /// # Panics
    /// If there is no such node.
    pub fn position(&self, partition: Partition, node: NodeId) -> usize {
        let list = self.preference_list(partition);
        list.iter().position(|&other| other == node).expect("every list has every node")
    }
}

/// Greater means earlier in the list. Floating point, but only IEEE basic operations and one logarithm of our own, so
/// that the answer is the same on every machine.
fn score(seed: u64, weight: f64, partition: Partition) -> f64 {
    let hash = xxh3_64_with_seed(&u32::from(partition.0).to_le_bytes(), seed);
    // The upper 52 bits as a number between 0 and 1, exactly, so it is neither.
    let uniform = ((hash >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
    weight / -natural_logarithm(uniform)
}

/// `ln` of a number over 0 and under 1. The system's library may round differently on another machine, and two nodes that
/// disagree in the last bit would disagree about where a key lives.
fn natural_logarithm(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        // Near one the two terms of the sum would cancel each other.
        (mantissa, exponent) = (mantissa / 2.0, exponent + 1);
    }
    // ln(m) = 2 artanh((m - 1) / (m + 1)), and (m - 1) / (m + 1) is at most 0.172 from zero.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let mut sum = 0.0;
    for n in (0..20_u32).rev() {
        sum = sum * square + 1.0 / f64::from(2 * n + 1);
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * z * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Node;
    use proptest::prelude::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("http://node-{n}:8080")).collect()
    }

    fn placement(names: &[String]) -> (NodeList, Placement) {
        let nodes = NodeList::first(names.iter().cloned()).expect("a list");
        let placement = Placement::of(&nodes);
        (nodes, placement)
    }

    #[test]
    fn the_logarithm_is_one() {
        for x in [1e-16, 1e-9, 0.001, 0.1, 0.25, 0.5, 0.7, 0.75, 0.999, 1.0 - 1e-9, 1.0 - f64::EPSILON] {
            let expected = f64::ln(x);
            let found = natural_logarithm(x);
            assert!((found - expected).abs() <= expected.abs() * 1e-15, "{x}: {found}, {expected}");
        }
    }

    /// Where data is must not change from one release to the next.
    #[test]
    fn the_lists_are_what_they_always_were() {
        let (_, placement) = placement(&names(5));
        let lists: Vec<Vec<u16>> = [b"a".as_slice(), b"key0", b"lake"]
            .map(|key| placement.replicas(key, 5).iter().map(|id| id.0).collect())
            .into();
        assert_eq!(lists, PINNED);
        assert_eq!(Partition::of(b"lake"), Partition(PINNED_PARTITION));
    }

    const PINNED: [[u16; 5]; 3] = [[3, 2, 0, 4, 1], [1, 3, 0, 4, 2], [2, 4, 3, 0, 1]];
    const PINNED_PARTITION: u16 = 37_843;

    /// For two to ten nodes and every `from`, with a million keys.
    #[test]
    fn each_node_is_within_five_percent_of_its_share() {
        const KEYS: usize = 1_000_000;
        let mut keys_in = vec![0_usize; PARTITIONS];
        for n in 0..KEYS {
            keys_in[Partition::of(format!("key{n}").as_bytes()).index()] += 1;
        }
        for count in 2..=10 {
            let (_, placement) = placement(&names(count));
            for from in 1..=count {
                let mut held = vec![0_usize; count];
                for partition in Partition::all() {
                    for node in &placement.preference_list(partition)[..from] {
                        held[node.index()] += keys_in[partition.index()];
                    }
                }
                let share = (KEYS * from) as f64 / count as f64;
                for held in held {
                    let off = (held as f64 - share).abs() / share;
                    assert!(off < 0.05, "{from} of {count} nodes: {held} keys, {:.1} % off", off * 100.0);
                }
            }
        }
    }

    #[test]
    fn a_node_of_twice_the_weight_gets_twice_the_keys() {
        let node = |name: &str, weight| Node { name: name.into(), weight };
        let nodes = NodeList::at(1, vec![node("a", 1), node("b", 2), node("c", 1)]).expect("a list");
        let placement = Placement::of(&nodes);
        let firsts = |id| {
            Partition::all().filter(|&p| placement.preference_list(p)[0] == NodeId(id)).count() as f64
                / PARTITIONS as f64
        };
        assert!((firsts(1) - 0.5).abs() < 0.025, "{}", firsts(1));
        assert!((firsts(0) - 0.25).abs() < 0.0125, "{}", firsts(0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Without the new node, the lists are the old ones: only what it takes over moves.
        #[test]
        fn a_new_node_moves_only_what_it_takes(count in 1_usize..8, salt: u32) {
            let all: Vec<String> = (0..=count).map(|n| format!("http://{salt}-{n}")).collect();
            let (old_nodes, old) = placement(&all[..count]);
            let (new_nodes, new) = placement(&all);
            for partition in Partition::all() {
                let old_list = old.preference_list(partition).iter().map(|&id| old_nodes.name(id));
                let new_list = new.preference_list(partition).iter().map(|&id| new_nodes.name(id));
                prop_assert!(old_list.eq(new_list.filter(|name| *name != all[count])));
            }
        }

        #[test]
        fn every_list_has_every_node_once(count in 1_usize..9, salt: u32) {
            let all: Vec<String> = (0..count).map(|n| format!("http://{salt}-{n}")).collect();
            let (_, placement) = placement(&all);
            for partition in Partition::all() {
                let mut list = placement.preference_list(partition).to_vec();
                prop_assert_eq!(placement.position(partition, list[0]), 0);
                list.sort_unstable();
                prop_assert!(list.iter().enumerate().all(|(index, id)| id.index() == index));
            }
        }
    }
}
