use ladoga_model::CellMark;

/// Which cells two nodes compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsOf {
    /// Only versions before this timestamp; `u64::MAX` for all.
    pub before: u64,
    /// No tombstones before this timestamp: everyone has them, so some may have dropped them.
    pub dropped_before: u64,
}

impl AsOf {
    /// Whether a cell belongs to it.
    pub const fn has(&self, cell: CellMark) -> bool {
        let timestamp = cell.stamp.version.timestamp;
        timestamp < self.before && !(cell.is_tombstone && timestamp < self.dropped_before)
    }
}
