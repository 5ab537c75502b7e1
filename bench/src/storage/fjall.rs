use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{MEMORY_BYTES, Store, Sync};
use crate::stop::{OrFail, Outcome};

struct Fjall {
    database: Database,
    keyspace: Keyspace,
    sync: Sync,
}

pub(super) fn open(folder: &Path, sync: Sync) -> Outcome<Box<dyn Store>> {
    let doing = || "cannot open fjall".to_owned();
    let database = Database::builder(folder).cache_size(MEMORY_BYTES).open().or_fail(doing)?;
    let keyspace = database.keyspace("records", KeyspaceCreateOptions::default).or_fail(doing)?;
    Ok(Box::new(Fjall { database, keyspace, sync }))
}

impl Store for Fjall {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome {
        let doing = || "fjall cannot write".to_owned();
        self.keyspace.insert(key, value).or_fail(doing)?;
        match self.sync {
            Sync::Never => Ok(()),
            Sync::Always => self.database.persist(PersistMode::SyncData).or_fail(doing),
        }
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<usize>> {
        let value = self.keyspace.get(key).or_fail(|| "fjall cannot read".to_owned())?;
        Ok(value.map(|value| value.len()))
    }

    fn close(self: Box<Self>) -> Outcome {
        self.keyspace.rotate_memtable_and_wait().or_fail(|| "cannot close fjall".to_owned())
    }
}
