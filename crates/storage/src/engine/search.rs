use std::sync::Arc;

use crate::error::Error;
use crate::levels::{Levels, Place};
use crate::record::{BlobPointer, Kind};
use crate::table::{Access, MissingBlock, Table, TableGet};

use super::found::Found;

/// Tables that are found before the first of them is asked, so that the processor fetches what all of them are asked
/// for at the same time. Rarely can more have an answer.
const AHEAD: usize = 8;

/// The search for the newest cell of a key through the tables: what it has found so far, and how far it has come. It
/// asks each table at most once.
#[derive(Debug)]
pub(crate) struct Search {
    pub(super) found: Found,
    place: Place,
}

/// Why a search stops: it needs what memory does not have.
pub(crate) struct NeededTable {
    pub(super) table: Arc<Table>,
    pub(super) lack: MissingBlock,
}

impl Search {
    /// Begins with what is known from memory.
    pub(crate) fn new(found: Found) -> Search {
        Search { found, place: Place::default() }
    }

    /// Asks the tables that can have a better answer, newest first; stops at the first that needs what `access` keeps
    /// it from. That table is behind it then.
    #[inline]
    pub(super) fn go_on(
        &mut self,
        levels: &Levels,
        hash: u64,
        key: &[u8],
        access: Access,
    ) -> Result<Option<NeededTable>, Error> {
        loop {
            let candidates = self.candidates(levels, key);
            if candidates[0].is_none() {
                return Ok(None);
            }
            // Each step needs what the one before it has fetched. Most keys are in the last of the tables.
            candidates.iter().flatten().for_each(|(table, _)| table.prefetch());
            let last = candidates.iter().flatten().count() - 1;
            for (index, (table, _)) in candidates.iter().flatten().enumerate() {
                table.prefetch_lines(hash, index == last);
            }
            for &(table, behind) in candidates.iter().flatten() {
                self.place = behind;
                if self.found.version() >= table.meta().newest {
                    continue;
                }
                match table.get(hash, key, access)? {
                    TableGet::Lacks(lack) => return Ok(Some(NeededTable { table: Arc::clone(table), lack })),
                    answer => self.take(table, answer),
                }
            }
        }
    }

    /// The next tables to ask, and for each the place behind it.
    #[inline]
    fn candidates<'a>(&self, levels: &'a Levels, key: &[u8]) -> [Option<(&'a Arc<Table>, Place)>; AHEAD] {
        let mut place = self.place;
        let mut candidates = [None; AHEAD];
        for candidate in &mut candidates {
            let Some(table) = levels.next_for(key, self.found.version(), &mut place) else { break };
            *candidate = Some((table, place));
        }
        candidates
    }

    /// Takes the answer of a table if it is newer than what is known.
    #[inline]
    pub(super) fn take(&mut self, table: &Table, answer: TableGet) {
        let TableGet::Found { stamp, kind, value } = answer else { return };
        if stamp.version > self.found.version() {
            let pointer = if kind == Kind::Blob { BlobPointer::decode(&value) } else { None };
            let blob = pointer.and_then(|blob| table.blob_ref(blob.file));
            self.found = Found::Cell { stamp, kind, value, blob };
        }
    }
}
