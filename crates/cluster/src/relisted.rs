//! What becomes of what a node kept on its disk if it is started with another list of nodes.

use crate::durable::{Durable, KeptState, Relisting};
use crate::incarnation::Incarnation;
use crate::reach::Memory;
use crate::statement::Acquaintance;

impl KeptState {
    /// Whether it was kept by place, for a list of so many nodes: that is taken for the same list.
    pub fn is_by_place(&self, nodes: usize) -> bool {
        self.names.is_none() && self.durable.met.len() == nodes
    }

    /// Whether the node has run on its own since it was in a list.
    pub fn is_alone(&self) -> bool {
        // (A copy of another node's directory was about no node.)
        self.names.as_ref().is_some_and(Vec::is_empty) && !self.durable.departed.is_none()
    }

    /// The state of the same node in no list: all others have left it. If they come back, they are new.
    #[must_use]
    pub fn in_no_list(self) -> KeptState {
        let durable = self.durable;
        let met = durable.met.iter().map(|met| met.incarnation);
        let departed = met.fold(durable.departed.later(durable.incarnation), Incarnation::later);
        let durable =
            Durable { departed, met: Vec::new(), remembered: Vec::new(), joining: Vec::new(), ..durable };
        KeptState { durable, names: Some(Vec::new()) }
    }

    /// The state of the same node in the list with these names.
    ///
    /// What is known of a node stays with its name. A node that was not in the list before is taken for one that had another
    /// directory, whatever it has: what was acknowledged by the old list is not there, or was deleted meanwhile. So it is
    /// rebuilt before its answers count, as a node that lost its disk. All incarnations that the old list knew come before the
    /// one that it is expected to have had, also that of its own if it has left the list and comes back.
    #[must_use]
    pub fn in_list(self, names: &[u64]) -> Durable {
        let (is_by_place, is_alone) = (self.is_by_place(names.len()), self.is_alone());
        let KeptState { durable, names: before } = self;
        let before = before.filter(|before| is_alone || !before.is_empty());
        let Some(before) = before else {
            let has_places = !is_by_place && !durable.met.is_empty();
            // What is known by the places of another list is known of nobody.
            let of_nobody = || Durable {
                met: Vec::new(),
                remembered: Vec::new(),
                joining: Vec::new(),
                ..durable.clone()
            };
            return if has_places { of_nobody() } else { durable };
        };
        if before == names {
            return durable;
        }
        let latest =
            |of: &mut dyn Iterator<Item = Incarnation>| of.fold(Incarnation::NONE, Incarnation::later);
        let gone = before.iter().zip(&durable.met).filter(|(name, _)| !names.contains(name));
        let departed = durable.departed.later(latest(&mut gone.map(|(_, met)| met.incarnation)));
        let known = latest(&mut durable.met.iter().map(|met| met.incarnation)).later(departed);
        let expected = known.later(durable.incarnation).next(random_of_list(names)).joined();
        let mut next =
            Durable { met: Vec::new(), remembered: Vec::new(), joining: Vec::new(), ..durable.clone() };
        for name in names {
            let Some(place) = before.iter().position(|other| other == name) else {
                next.met.push(Acquaintance { incarnation: expected, is_replacement: true });
                next.remembered.push(Memory::default());
                next.joining.push(true);
                next.relisting = next.relisting.and_pulls();
                continue;
            };
            next.met.push(durable.met.get(place).copied().unwrap_or_default());
            next.remembered.push(durable.remembered.get(place).copied().unwrap_or_default());
            next.joining.push(durable.joining.get(place).copied().unwrap_or_default());
        }
        if next.relisting != Relisting::Done {
            // A list has 64 at most; a node on its own is all of them.
            let copies_of_all = before.len().max(1) as u8;
            next.copies_of_all = match next.copies_of_all {
                0 => copies_of_all,
                earlier => earlier.min(copies_of_all),
            };
        }
        Durable { departed, ..next }
    }
}

/// The random part of the incarnation that a node which is new in the list with these names is expected to have had: the same on all
/// nodes that are started with it, so that those which know the same expect the same.
pub fn random_of_list(names: &[u64]) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    names.iter().for_each(|name| hasher.update(&name.to_le_bytes()));
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 70;
    const B: u64 = 71;
    const C: u64 = 72;
    const D: u64 = 73;

    fn met(generation: u64) -> Acquaintance {
        let incarnation = (0..generation).fold(Incarnation::NONE, |last, _| last.next(generation));
        Acquaintance { incarnation, is_replacement: false }
    }

    fn memory(session: u64) -> Memory {
        Memory { session, ..Memory::default() }
    }

    /// Of the first of three nodes, of which the third one had the most directories.
    fn kept(names: Option<Vec<u64>>) -> KeptState {
        let durable = Durable {
            incarnation: met(1).incarnation,
            is_whole: true,
            synced_before: 7,
            met: vec![Acquaintance::default(), met(2), met(4)],
            remembered: vec![Memory::default(), memory(1), memory(2)],
            ..Durable::default()
        };
        KeptState { durable, names }
    }

    #[test]
    fn what_is_known_of_a_node_stays_with_its_name() {
        let state = kept(Some(vec![A, B, C]));
        assert_eq!(state.clone().in_list(&[A, B, C]), state.durable, "the same list");
        let without_b = state.clone().in_list(&[A, C]);
        assert_eq!(without_b.met, [Acquaintance::default(), met(4)]);
        assert_eq!(without_b.remembered, [Memory::default(), memory(2)]);
        assert!(without_b.is_whole && without_b.copies_of_all == 0 && without_b.synced_before == 7);
        assert_eq!(
            without_b.relisting,
            Relisting::Done,
            "whoever has something that another one should hold holds it, too"
        );
        let other_order = state.in_list(&[C, A, B]);
        assert_eq!(other_order.met, [met(4), Acquaintance::default(), met(2)]);
        assert_eq!(other_order.remembered, [memory(2), Memory::default(), memory(1)]);
    }

    #[test]
    fn a_node_that_is_new_in_the_list_is_one_that_lost_its_data() {
        let grown = kept(Some(vec![A, B, C])).in_list(&[A, B, C, D]);
        let Acquaintance { incarnation, is_replacement } = grown.met[3];
        assert!(is_replacement && incarnation.supersedes(met(4).incarnation));
        assert!(incarnation.supersedes(Incarnation::first(9)), "it is new");
        assert_eq!(grown.remembered[3], Memory::default());
        assert_eq!(grown.met[..3], kept(None).durable.met[..]);
        assert!(grown.relisting == Relisting::Pulls && grown.joining == [false, false, false, true]);
        let further = KeptState { durable: grown, names: Some(vec![A, B, C, D]) }.in_list(&[D, A, B]);
        assert!(further.relisting == Relisting::Pulls && further.joining == [true, false, false]);
        assert_eq!(further.copies_of_all, 3, "of the first list");
    }

    #[test]
    fn a_node_that_comes_back_into_the_list_is_one_that_lost_its_data() {
        let names = |names: &[u64]| Some(names.to_vec());
        let shrunk = kept(names(&[A, B, C])).in_list(&[A, B]);
        assert_eq!(shrunk.departed, met(4).incarnation);
        let again = KeptState { durable: shrunk, names: names(&[A, B]) }.in_list(&[A, B, C]);
        assert!(again.met[2].incarnation.supersedes(met(4).incarnation), "as it was when it left");
    }

    #[test]
    fn all_others_are_new_to_a_node_that_has_run_on_its_own() {
        let alone = kept(Some(vec![A, B, C])).in_no_list();
        assert!(alone.is_alone() && alone.durable.is_whole && alone.durable.departed == met(4).incarnation);
        let again = Durable::decode(&alone.durable.encode(&[])).expect("what was kept");
        assert_eq!(again, alone, "it is known once it is started again, too");
        let state = again.in_list(&[A, B, C]);
        assert!(state.is_whole && state.relisting == Relisting::Pulls && state.copies_of_all == 1);
        for other in 1..3 {
            assert!(state.joining[other] && state.met[other].incarnation.supersedes(met(4).incarnation));
        }
        let met_nobody = Durable { incarnation: met(1).incarnation, ..Durable::default() };
        let met_nobody = KeptState { durable: met_nobody, names: Some(vec![A]) };
        assert!(!met_nobody.is_alone() && met_nobody.in_no_list().is_alone());
    }

    #[test]
    fn what_was_kept_by_place_is_of_a_list_of_the_same_length_or_of_nobody() {
        assert_eq!(kept(None).in_list(&[A, B, C]), kept(None).durable);
        let grown = kept(None).in_list(&[A, B, C, D]);
        assert!(grown.met.is_empty() && grown.remembered.is_empty());
        let copied = Durable::of_a_copy(met(1).incarnation, None);
        let state = KeptState { durable: copied.clone(), names: Some(Vec::new()) };
        assert_eq!(state.in_list(&[A, B, C]), copied, "a copy is about nobody");
    }
}
