use crate::Stamp;

/// What the tree needs to know of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellMark {
    /// Its version, and for how many nodes it is.
    pub stamp: Stamp,
    /// Whether it is a deletion.
    pub is_tombstone: bool,
}
