//! How the list of nodes changes in a run.

use std::collections::VecDeque;

use ladoga_env::Rng;
use ladoga_env::sim::SimRng;

/// How many machines there are, most of which are nodes at a time. Their order is that of their URLs.
pub(crate) const MACHINES: usize = 6;

/// How many nodes there are first, and how many leave and come in each change: what `docs/cluster.md` permits. So never as many come as
/// there are.
const KINDS: [(usize, &[(usize, usize)]); 12] = [
    (3, &[(0, 1)]),
    (3, &[(0, 2)]),
    (4, &[(0, 1)]),
    (4, &[(1, 0)]),
    (5, &[(1, 0)]),
    (3, &[(1, 1)]),
    (4, &[(1, 1)]),
    (3, &[(0, 1), (0, 1)]),
    (3, &[(0, 1), (1, 0)]),
    (4, &[(1, 0), (0, 1)]),
    (5, &[(1, 0), (1, 0)]),
    (3, &[(1, 1), (1, 1)]),
];

/// The next list of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// All machines in it, in order.
    pub(crate) members: Vec<usize>,
    pub(crate) removed: Vec<usize>,
    pub(crate) added: Vec<usize>,
}

/// The lists of a run.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) first: Vec<usize>,
    pub(crate) changes: VecDeque<Change>,
    /// Whether each key has to be on all nodes. If nodes leave, what is on fewer is not moved to others, so it has to be written again
    /// before the next change.
    pub(crate) are_all_on_all: bool,
}

impl Lists {
    /// One list that stays.
    pub(crate) fn fixed(nodes: usize) -> Lists {
        Lists { first: (0..nodes).collect(), changes: VecDeque::new(), are_all_on_all: false }
    }

    /// Lists that follow each other.
    pub(crate) fn draw(rng: &SimRng) -> Lists {
        let (nodes, kinds) = KINDS[rng.below(KINDS.len() as u64) as usize];
        let mut members = Vec::new();
        draw(rng, nodes, &mut (0..MACHINES).collect(), &mut members);
        let (first, mut changes) = (members.clone(), VecDeque::new());
        for &(leave, come) in kinds {
            // One that left before may come back.
            let mut others = (0..MACHINES).filter(|machine| !members.contains(machine)).collect();
            let (mut removed, mut added) = (Vec::new(), Vec::new());
            draw(rng, leave, &mut members, &mut removed);
            draw(rng, come, &mut others, &mut added);
            members.extend(&added);
            members.sort_unstable();
            changes.push_back(Change { members: members.clone(), removed, added });
        }
        let are_all_on_all = kinds.iter().rev().skip(1).any(|&(leave, _)| leave > 0);
        Lists { first, changes, are_all_on_all }
    }
}

/// Moves so many from one to the other, any of them, in order.
fn draw(rng: &SimRng, count: usize, from: &mut Vec<usize>, to: &mut Vec<usize>) {
    to.extend((0..count).map(|_| from.swap_remove(rng.below(from.len() as u64) as usize)));
    to.sort_unstable();
    from.sort_unstable();
}
