//! Whether some of the nodes can answer for all keys.

use crate::nodes::NodeId;
use crate::placement::{Partition, Placement};
use ladoga_model::Replicas;

/// Whether of the first `from` nodes of every partition, at least `ack` are `present`: then each key that lives on `from`
/// nodes is with as many of these as a read with the same numbers would ask for.
pub fn covers(placement: &Placement, replicas: Replicas, present: impl Fn(NodeId) -> bool) -> bool {
    let Replicas { ack, from } = replicas;
    let is_covered = |partition| {
        let nodes = &placement.preference_list(partition)[..from as usize];
        nodes.iter().filter(|&&node| present(node)).count() >= ack as usize
    };
    let all = placement.preference_list(Partition(0));
    if from as usize == all.len() {
        // Every partition has the same nodes, in whatever order.
        return is_covered(Partition(0));
    }
    all.iter().all(|&node| present(node)) || Partition::all().all(is_covered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::NodeList;

    fn placement(nodes: usize) -> Placement {
        Placement::of(&NodeList::first((0..nodes).map(|n| format!("http://node-{n}"))).expect("a list"))
    }

    /// For every cluster of up to five nodes, all replicas, and every set of nodes: exactly if each partition has enough.
    #[test]
    fn a_set_of_nodes_covers_what_has_enough_of_them_everywhere() {
        for nodes in 1..=5_usize {
            let placement = placement(nodes);
            for from in 1..=nodes {
                for ack in 1..=from {
                    let replicas = Replicas { ack: ack as u32, from: from as u32 };
                    for set in 0..1_u32 << nodes {
                        let present = |node: NodeId| set & (1 << node.0) != 0;
                        let worst = Partition::all().map(|partition| {
                            let list = &placement.preference_list(partition)[..from];
                            list.iter().filter(|&&node| present(node)).count()
                        });
                        let expected = worst.min() >= Some(ack);
                        assert_eq!(covers(&placement, replicas, present), expected, "{replicas:?} {set:b}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_majority_covers_what_lives_on_all_nodes() {
        let placement = placement(3);
        let without = |down: u16| move |node: NodeId| node.0 != down;
        for down in 0..3 {
            assert!(covers(&placement, Replicas::majority_of(3), without(down)));
            assert!(covers(&placement, Replicas { ack: 1, from: 2 }, without(down)));
            assert!(
                !covers(&placement, Replicas { ack: 1, from: 1 }, without(down)),
                "it has keys of its own"
            );
            assert!(!covers(&placement, Replicas { ack: 3, from: 3 }, without(down)));
        }
    }
}
