use std::path::{Path, PathBuf};

use ladoga_backup::{Source, prune, restore_cells, restore_files};
use ladoga_model::{Stamp, Version};
use proptest::prelude::*;

use crate::support::{Machine, Model, Node, expect_sound, found, note, repository, take, take_one};

/// A write to a node of several, which it may get late or not at all.
#[derive(Debug, Clone)]
struct Write {
    key: u8,
    /// `None` deletes.
    value: Option<(u8, usize)>,
    copies: u8,
    expires: bool,
    /// Which nodes get it; bits.
    reaches: u8,
    works: bool,
}

fn write() -> impl Strategy<Value = Write> {
    let length = prop_oneof![8 => 0_usize..900, 1 => Just(270_000)];
    let value = proptest::option::weighted(0.8, (any::<u8>(), length));
    (0_u8..40, value, 0_u8..4, proptest::bool::weighted(0.1), 0_u8..8, any::<bool>()).prop_map(
        |(key, value, copies, expires, reaches, works)| Write { key, value, copies, expires, reaches, works },
    )
}

/// Carries them out in this order; versions are by number, shuffled a little, so that some arrive late.
fn carry_out(nodes: &mut [Node], writes: &[Write], from: u64) {
    for (number, write) in writes.iter().enumerate() {
        let timestamp = (from + (number as u64 ^ 5)) << 16;
        let expires_at_ms = if write.expires { u64::MAX >> 20 } else { 0 };
        let version = Version { timestamp, node: 1 };
        let stamp = Stamp { version, expires_at_ms, copies: write.copies };
        let value = write.value.map(|(byte, length)| vec![byte; length]);
        let stamp = if value.is_none() { Stamp::new(version) } else { stamp };
        for (place, node) in nodes.iter_mut().enumerate() {
            // The first one gets everything of its own, so that no key is lost.
            if write.reaches & 1 << place != 0 || place == 0 && write.reaches == 0 {
                node.write(&[b'k', write.key], stamp, value.as_deref());
                if write.works {
                    node.work();
                }
            }
        }
    }
}

/// The newest cells of all nodes; those that were for all nodes are for all of any number.
fn merged(nodes: &[Node]) -> Model {
    let mut model = Model::new();
    for (key, (stamp, value)) in nodes.iter().flat_map(|node| &node.model) {
        let copies = if usize::from(stamp.copies) >= nodes.len() { 0 } else { stamp.copies };
        note(&mut model, key, Stamp { copies, ..*stamp }, value.as_deref());
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_node_is_restored_to_what_it_had(
        first in proptest::collection::vec(write(), 0..60),
        second in proptest::collection::vec(write(), 0..30),
        third in proptest::collection::vec(write(), 0..30),
        seed in any::<u64>(),
    ) {
        let mut nodes = [Node::new(seed)];
        let machine = Machine::new(!seed);
        let env = machine.env();
        let mut backups = Vec::new();
        for (round, writes) in [first, second, third].iter().enumerate() {
            carry_out(&mut nodes, writes, 1_000 * (round as u64 + 1));
            let (backup, _) = take_one(&env, &nodes[0]).expect("a backup");
            backups.push((backup, nodes[0].model.clone()));
        }
        expect_sound(&env, "all of them");
        let repository = repository(&env);
        for (backup, model) in &backups {
            let target = PathBuf::from("/files").join(&backup.id);
            restore_files(&env, &repository, &backup.nodes[0], &target, &mut |_| {}).expect("a restore");
            prop_assert!(found(&env, &target).expect("a store") == *model, "{} by files", backup.id);
            let target = PathBuf::from("/cells").join(&backup.id);
            restore_cells(&env, &repository, backup, &target, &mut |_| {}).expect("a restore");
            // Of a node on its own each cell is for all.
            let mut all = model.clone();
            all.values_mut().for_each(|(stamp, _)| stamp.copies = 0);
            prop_assert!(found(&env, &target).expect("a store") == all, "{} by cells", backup.id);
        }
        // What only the old ones needed goes, and the newest stays.
        let writing = repository.lock().expect("nobody else");
        prune(&repository, &writing, 1).expect("a repository that is well");
        expect_sound(&env, "after prune");
        let (backup, model) = &backups[2];
        restore_files(&env, &repository, &backup.nodes[0], Path::new("/last"), &mut |_| {}).expect("a restore");
        prop_assert!(found(&env, Path::new("/last")).expect("a store") == *model);
    }

    #[test]
    fn of_several_nodes_the_newest_cells_are_restored(
        writes in proptest::collection::vec(write(), 0..90),
        seed in any::<u64>(),
    ) {
        let mut nodes = [0, 1, 2].map(|place| Node::new(seed.wrapping_add(place)));
        let machine = Machine::new(!seed);
        let env = machine.env();
        carry_out(&mut nodes, &writes, 1_000);
        let mut taken: Vec<_> = nodes.iter().map(|node| (node.name().to_owned(), node.checkpoint())).collect();
        let mut sources: Vec<_> = taken
            .iter_mut()
            .map(|(name, (listing, source))| (name.clone(), listing.clone(), source as &mut dyn Source))
            .collect();
        let (backup, _) = take(&env, &mut sources).expect("a backup");
        expect_sound(&env, "three nodes");
        let target = Path::new("/restored");
        restore_cells(&env, &repository(&env), &backup, target, &mut |_| {}).expect("a restore");
        prop_assert!(found(&env, target).expect("a store") == merged(&nodes));
    }
}
