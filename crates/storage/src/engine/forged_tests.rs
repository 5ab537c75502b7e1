//! Manifests whose checksums fit, and which say what cannot be.

use std::path::Path;

use ladoga_env::Env;
use ladoga_model::Version;

use crate::frame::LogId;
use crate::levels::{Edit, Manifest};
use crate::table::TableMeta;
use crate::{Background, CheckProgress, Durability, Engine, Error, Options, check, paths};

const DIR: &str = "/data";

fn table(number: u64, file_bytes: u64, blob_bytes: u64, records: u64) -> (usize, TableMeta) {
    let key: Box<[u8]> = number.to_be_bytes().into();
    let meta = TableMeta {
        number,
        file_bytes,
        records,
        tombstones: 0,
        blob_bytes,
        newest: Version { timestamp: 2, node: 1 },
        oldest: Version { timestamp: 1, node: 1 },
        smallest: key.clone(),
        largest: key,
        blobs: Vec::new(),
    };
    (1, meta)
}

/// A directory with this manifest and nothing else.
fn store_of(edit: &Edit) -> Env {
    let (env, disk, _) = ladoga_env::sim::env(1);
    let dir = Path::new(DIR);
    for dir in [paths::wal_dir(dir), paths::tables_dir(dir), paths::blobs_dir(dir)] {
        ladoga_env::Disk::create_dir_all(&disk, &dir).expect("an empty disk");
    }
    Manifest::create(&disk, dir, LogId { number: 1, secret: Some(7) }, edit)
        .map(drop)
        .expect("an empty disk");
    env
}

fn open(env: &Env) -> Error {
    let options = Options { background: Background::Manual, ..Options::new(16 << 20, Durability::Always) };
    Engine::open(env.clone(), Path::new(DIR), options).map(drop).expect_err("a forged manifest")
}

#[test]
fn tables_that_say_that_they_hold_more_than_there_can_be_are_refused_with_the_sum() {
    let forged = [
        (vec![table(2, u64::MAX, 1, 1)], "bytes of all tables"),
        (vec![table(2, 1 << 63, 0, 1), table(3, 0, 1 << 63, 1)], "bytes of all tables"),
        (vec![table(2, 1, 1, u64::MAX), table(3, 1, 1, 1)], "records of all tables"),
    ];
    for (added, what) in forged {
        let first = Some(1);
        let env = store_of(&Edit {
            next_file: Some(9),
            first_wal: first,
            first_sequence: first,
            added,
            ..Edit::default()
        });
        let expected = format!("{DIR}/manifest-000001 is corrupt at offset 0: {what}: expected at most");
        let error = open(&env).to_string();
        assert!(error.starts_with(&expected), "{error}");
        let mut last = None;
        let report = check(&env, Path::new(DIR), &mut |progress: CheckProgress| last = Some(progress));
        let errors = report.expect("it goes on behind it").errors;
        assert!(errors.iter().any(|error| error.to_string().starts_with(&expected)), "{errors:?}");
        let progress = last.expect("tables were looked for");
        assert_eq!(progress.done_bytes, progress.total_bytes);
    }
}

#[test]
fn a_manifest_that_does_not_say_where_the_log_begins_is_refused() {
    for first_sequence in [None, Some(0), Some(u64::MAX)] {
        let env =
            store_of(&Edit { next_file: Some(9), first_wal: Some(1), first_sequence, ..Edit::default() });
        let error = open(&env);
        assert!(error.is_corruption() && error.to_string().contains("manifest edit"), "{error}");
    }
}
