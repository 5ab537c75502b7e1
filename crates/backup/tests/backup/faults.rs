use std::collections::BTreeSet;
use std::path::Path;

use ladoga_backup::{Error, Listing, PIECE_BYTES_MAX, Source, restore_files};
use ladoga_env::sim::{Fault, Operation};
use ladoga_storage::StoreFile;
use proptest::prelude::*;

use crate::support::{FromDisk, Machine, Node, REPOSITORY, expect_sound, found, repository, take, take_one};

fn filled(seed: u64) -> Node {
    let mut node = Node::new(seed);
    for number in 0..60 {
        node.put(number, (number + 1) << 16, &vec![number as u8; 300]);
    }
    node.put(99, 500 << 16, &vec![7; 600_000]);
    node.work();
    node
}

#[test]
fn a_repository_without_room_says_so_and_keeps_what_it_has() {
    let (mut node, machine) = (filled(1), Machine::new(2));
    let env = machine.env();
    let (first, _) = take_one(&env, &node).expect("a backup");
    let model = node.model.clone();
    node.put(99, 900 << 16, &vec![8; 600_000]);
    let used: u64 = machine.disk.paths().iter().filter_map(|path| machine.disk.file_len(path).ok()).sum();
    for room in [0, 1, 100, 5_000, 50_000, 300_000, 599_000] {
        machine.disk.set_capacity(used + room);
        let error = take_one(&env, &node).expect_err("no room");
        assert!(error.is_disk_full() && error.to_string().contains(REPOSITORY), "{error}");
        assert_eq!(repository(&env).ids().expect("names"), std::slice::from_ref(&first.id));
    }
    machine.disk.set_capacity(None);
    expect_sound(&env, "after a full disk");
    take_one(&env, &node).expect("room again");
    restore_files(&env, &repository(&env), &first.nodes[0], Path::new("/r"), &mut |_| {}).expect("a restore");
    assert!(found(&env, Path::new("/r")).expect("a store") == model);
}

/// Changes what a node sends.
struct Lying<F> {
    from: FromDisk,
    change: F,
}

impl<F: FnMut(StoreFile, u64, Vec<u8>) -> Vec<u8>> Source for Lying<F> {
    fn read(&mut self, file: StoreFile, offset: u64, bytes_max: usize) -> Result<Vec<u8>, Error> {
        assert!(bytes_max <= PIECE_BYTES_MAX);
        let bytes = self.from.read(file, offset, bytes_max)?;
        Ok((self.change)(file, offset, bytes))
    }
}

fn take_lying(
    node: &Node,
    machine: &Machine,
    change: impl FnMut(StoreFile, u64, Vec<u8>) -> Vec<u8>,
) -> Result<(), Error> {
    let (listing, from) = node.checkpoint();
    let mut source = Lying { from, change };
    take(&machine.env(), &mut [(node.name().to_owned(), listing, &mut source)]).map(drop)
}

#[test]
fn what_a_node_sends_is_verified_before_it_counts() {
    let (node, machine) = (filled(3), Machine::new(4));
    // A bit of each piece of each file, once.
    let (listing, _) = node.checkpoint();
    for listed in &listing.files {
        for at in [0, 1, listed.bytes / 3, listed.bytes / 2, listed.bytes - 1] {
            let error = take_lying(&node, &machine, |file, offset, mut bytes| {
                if file == listed.file && (offset..offset + bytes.len() as u64).contains(&at) {
                    bytes[(at - offset) as usize] ^= 4;
                }
                bytes
            });
            let error = error.expect_err("a flipped bit").to_string();
            let name = listed.file.path().display().to_string();
            assert!(error.contains("not sound") && error.contains(&name), "byte {at} of {name}: {error}");
            assert_eq!(repository(&machine.env()).ids().expect("names"), [] as [String; 0]);
        }
    }
    let short = take_lying(&node, &machine, |_, _, _| Vec::new()).expect_err("nothing comes");
    assert!(short.to_string().contains("ends after 0 of"), "{short}");
    let long = take_lying(&node, &machine, |_, _, _| vec![0; PIECE_BYTES_MAX + 1]).expect_err("too much");
    assert!(long.to_string().contains("were sent for"), "{long}");
    // Nothing of it is left, but what was sound.
    take_one(&machine.env(), &node).expect("the same node, telling the truth");
    expect_sound(&machine.env(), "at the end");
}

#[test]
fn what_is_there_is_not_read_again() {
    let (mut node, machine) = (filled(5), Machine::new(6));
    let (_, first) = take_one(&machine.env(), &node).expect("a backup");
    assert!(first.kept_files == 0 && first.new_bytes > 600_000, "{first:?}");
    let (listing, mut source) = node.checkpoint();
    let again = take(&machine.env(), &mut [("n".to_owned(), listing, &mut source)]).expect("another one").1;
    assert_eq!((again.new_files, again.new_bytes, source.bytes), (0, 0, 0));
    node.put(1, 5_000 << 16, b"new");
    let (_, third) = take_one(&machine.env(), &node).expect("a third one");
    assert!(third.new_files == 1 && third.new_bytes < 5_000, "{third:?}");
}

#[test]
fn large_values_that_were_fetched_before_a_break_are_not_fetched_again() {
    let (mut node, machine) = (Node::new(7), Machine::new(8));
    for number in 0..5 {
        node.put(number, (number + 1) << 16, &vec![number as u8; 300_000]);
    }
    node.work();
    let mut seen = BTreeSet::new();
    let broken = take_lying(&node, &machine, |file, _, bytes| {
        seen.insert(file);
        if seen.len() > 4 { Vec::new() } else { bytes }
    });
    assert!(broken.expect_err("a break").to_string().contains("ends after"));
    let names = machine.env().disk.list(&Path::new(REPOSITORY).join("files")).expect("names");
    assert_eq!(
        (names.len(), seen.len()),
        (3, 5),
        "three large values, but no table and nothing half: {names:?}"
    );
    let (_, taken) = take_one(&machine.env(), &node).expect("the same node");
    assert_eq!(taken.kept_files, 3, "{taken:?}");
    expect_sound(&machine.env(), "after a break");
}

proptest! {
    #[test]
    fn bytes_that_are_no_listing_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Listing::decode(&bytes);
    }

    #[test]
    fn a_listing_that_was_changed_is_refused_or_whole(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut node = Node::new(9);
        node.put(1, 7 << 16, b"value");
        let mut bytes = node.checkpoint().0.encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(listing) = Listing::decode(&bytes) {
            prop_assert_eq!(listing.files.len(), listing.tables.files().len());
        }
    }
}

/// Names sort by their moments. This one is none, and nothing comes after it.
#[test]
fn a_name_behind_which_there_is_no_other_is_refused() {
    let (node, machine) = (filled(1), Machine::new(2));
    let env = machine.env();
    take_one(&env, &node).expect("a backup");
    let last = Path::new(REPOSITORY).join("backups/9999-99-99T99-99-99Z.json");
    machine.disk.plant(&last, b"");
    let refused = repository(&env).new_id(&env).expect_err("there is no newer name").to_string();
    assert!(refused.contains("9999-99-99T99-99-99Z.json") && refused.contains("newer"), "{refused}");
}

/// The node was blamed, by a path that does not exist.
#[test]
fn a_repository_that_cannot_be_read_is_not_the_fault_of_the_node() {
    let (mut node, machine) = (filled(7), Machine::new(8));
    let env = machine.env();
    let (first, _) = take_one(&env, &node).expect("a backup");
    let stored = |is_wanted: fn(StoreFile) -> bool| {
        let file = first.nodes[0].files.iter().find(|stored| is_wanted(stored.file)).expect("there is one");
        repository(&env).file(file.stored)
    };
    let blob = stored(|file| matches!(file, StoreFile::Blob(_)));
    let broken = |path: &Path| {
        let fault = Fault::io().on(Operation::Read).on_path(&path.to_string_lossy()).sticky();
        machine.disk.fail_operation(0, fault);
    };
    // A new table names a large value that is there: its length is known.
    broken(&blob);
    node.put(98, 901 << 16, b"new");
    node.restamp(99, 902 << 16);
    let (_, taken) = take_one(&env, &node).expect("nothing of it is read");
    assert!(taken.new_bytes < 600_000, "{taken:?}");
    machine.disk.clear_faults();
    // A large value is missing, and the table that names it cannot be read.
    env.disk.remove(&blob).expect("it is there");
    let tables: Vec<_> =
        machine.disk.paths().into_iter().filter(|path| path.starts_with("/backups/files")).collect();
    tables.iter().for_each(|path| broken(path));
    let error = take_one(&env, &node).expect_err("a table cannot be read");
    assert!(matches!(error, Error::Store(_)) && error.to_string().contains("/backups/files"), "{error}");
}
