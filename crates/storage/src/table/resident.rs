use std::ops::Deref;
use std::sync::Arc;

use super::{Filter, Index, Table};

/// The parts of a table that every read needs.
pub(crate) struct Resident {
    pub index: Index,
    pub filter: Filter,
}

impl Resident {
    pub(crate) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.filter.memory_bytes()
    }
}

/// A table's index and filter, for as long as they are in use.
#[derive(Clone)]
pub(crate) enum Loaded {
    Pinned(Arc<Table>),
    Cached(Arc<Resident>),
}

impl Deref for Loaded {
    type Target = Resident;

    fn deref(&self) -> &Resident {
        match self {
            Loaded::Pinned(table) => table.pinned.get().expect("it was pinned, and stays"),
            Loaded::Cached(resident) => resident,
        }
    }
}
