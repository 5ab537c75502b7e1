use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::error::Error;
use crate::table::Table;

/// After this many failed reads of one table in a row compactions leave it alone: the disk may have lost its bytes.
const READ_FAILURES_MAX: u32 = 3;

/// Tables that compactions leave alone, because they met bytes there that are corrupt, or that cannot be read.
#[derive(Default)]
pub(crate) struct Damage {
    tables: Mutex<BTreeSet<u64>>,
    count: AtomicUsize,
    /// The table that could not be read last, and how many times in a row.
    unread: Mutex<(PathBuf, u32)>,
}

impl Damage {
    /// How many tables it is; all of them are in level 0, or about to be.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Their numbers.
    pub(super) fn tables(&self) -> BTreeSet<u64> {
        self.tables.lock().clone()
    }

    /// Which of the inputs an error of a compaction is about; it is left alone from now on.
    pub(super) fn mark<'a>(
        &self,
        inputs: &'a [(usize, Arc<Table>)],
        error: &Error,
    ) -> Option<&'a (usize, Arc<Table>)> {
        let path = match error {
            Error::Corruption { path, .. }
            | Error::Missing { path, .. }
            | Error::NewerFormat { path, .. } => path,
            Error::Io { operation: "open" | "measure" | "read", path, .. }
                if !error.may_pass() && self.is_unreadable(path) =>
            {
                path
            }
            _ => return None,
        };
        let broken = inputs.iter().find(|(_, table)| table.path() == path)?;
        let mut tables = self.tables.lock();
        tables.insert(broken.1.meta().number);
        self.count.store(tables.len(), Ordering::Relaxed);
        drop(tables);
        tracing::error!(%error, "a compaction found corrupt or unreadable data; the table is excluded from compaction");
        Some(broken)
    }

    /// Whether this one failed so often that it is not going to be read.
    fn is_unreadable(&self, path: &Path) -> bool {
        let mut unread = self.unread.lock();
        if unread.0 != path {
            *unread = (path.to_path_buf(), 0);
        }
        unread.1 += 1;
        unread.1 >= READ_FAILURES_MAX
    }
}
