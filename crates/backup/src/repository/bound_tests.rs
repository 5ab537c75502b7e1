//! What could not be read again is not written; in tests of this crate, that is more than 64 KiB.

use std::path::Path;

use ladoga_env::sim::{self, SimDisk};
use ladoga_storage::StoreFile;

use super::*;
use crate::listing::{Listed, Listing, Tag};
use crate::log_position::ChainName;
use crate::take::Source;
use crate::test_tables::{TABLE_BYTES, table_list};
use crate::{Chain, StoredSegment};

const DIR: &str = "/backups";

fn repository() -> (Repository, Writing, SimDisk) {
    let (env, disk, _clock) = sim::env(1);
    let (repository, writing) = Repository::create(&env.disk, Path::new(DIR)).expect("a new one");
    (repository, writing, disk)
}

/// Of a node with this many large values.
fn listing(larges: u64) -> Listing {
    let larges: Vec<u64> = (100..100 + larges).collect();
    let tables = table_list(&[(7, &larges)]);
    let of = |(tag, (file, _)): (u128, (StoreFile, _))| {
        let bytes = if let StoreFile::Table(_) = file { TABLE_BYTES } else { 300_000 };
        Listed { file, bytes, tag: Tag(tag) }
    };
    let files = (0..).zip(tables.files()).map(of).collect();
    Listing { store: Some(9), tables, files }
}

#[track_caller]
fn expect_too_long<T>(refused: Result<T, Error>, expected: [&str; 2]) {
    let refused = refused.err().expect("it could not be read again").to_string();
    for expected in ["no more than 65536 can be read", expected[0], expected[1]] {
        assert!(refused.contains(expected), "{refused}");
    }
}

/// Nothing is asked of it.
struct NoSource;

impl Source for NoSource {
    fn read(&mut self, file: StoreFile, _: u64, _: usize) -> Result<Vec<u8>, Error> {
        panic!("{file:?} is fetched for nothing")
    }
}

/// The backup was named, and no command could read it, nor any other one: prune refused as well.
#[test]
fn a_backup_that_could_not_be_read_is_not_there() {
    let (repository, writing, disk) = repository();
    let node = |listing: &Listing| {
        let stored = |listed: &Listed| StoredFile {
            file: listed.file,
            bytes: listed.bytes,
            stored: StoredName { tag: listed.tag, hash: 3 },
        };
        let files = listing.files.iter().map(stored).collect();
        let (url, tables) = ("http://a".to_owned(), listing.tables.clone());
        NodeBackup { url, store: listing.store, taken_ms: 3, tables, files, log: None }
    };
    let backup = |listing: &Listing| {
        let (id, nodes) = ("2026-11-23T12-00-05Z".to_owned(), vec![node(listing)]);
        Backup { id, begun_ms: 1, ended_ms: 2, cluster: Vec::new(), ack: 1, missing: Vec::new(), nodes }
    };
    let told = ["/backups/backups", "too many files for one backup"];
    let too_many = listing(600);
    let before = disk.paths();
    expect_too_long(repository.publish(&writing, &backup(&too_many)), told);
    expect_too_long(repository.take(&writing, ("http://a", 3), &too_many, &mut NoSource, &mut |_| {}), told);
    assert_eq!(disk.paths(), before);
    let most = backup(&listing(300));
    repository.publish(&writing, &most).expect("it can be read");
    assert_eq!(repository.backup(&most.id).expect("it is there"), most);
}

/// The nodes were looked at one by one: all files of each were fetched, and then the backup could not be written.
#[test]
fn a_list_that_is_too_long_of_all_nodes_is_refused_before_anything_is_fetched() {
    let (repository, _writing, _disk) = repository();
    let listing = listing(300);
    let parts = ["http://a", "http://b"].map(|url| ((url, 3), &listing));
    repository.expect_room_for([parts[0]]).expect("one can be read");
    expect_too_long(repository.expect_room_for(parts), ["/backups/backups", "too many files for one backup"]);
}

/// It took the place of one that could.
#[test]
fn a_list_of_a_log_that_could_not_be_read_leaves_what_was_there() {
    let (repository, writing, _disk) = repository();
    let chain = |segments: u64| {
        let segment = |number: u64| StoredSegment {
            number,
            first_sequence: number,
            end_sequence: number + 1,
            bytes: 90,
            hash: u128::from(number),
            oldest: 1,
            larges: Vec::new(),
        };
        let (name, url) = (ChainName { store: 9, generation: 0 }, "http://a".to_owned());
        let segments = (1..=segments).map(segment).collect();
        Chain { name, url, incarnation: None, first_sequence: 1, reaches_ms: 5, segments }
    };
    repository.disk().create_dir_all(&repository.log_dir()).expect("room");
    let known = chain(300);
    repository.publish_chain(&writing, &known).expect("it can be read");
    expect_too_long(
        repository.publish_chain(&writing, &chain(900)),
        ["/backups/log/", "ladoga backup prune"],
    );
    assert_eq!(repository.chain(known.name).expect("as before"), Some(known));
}
