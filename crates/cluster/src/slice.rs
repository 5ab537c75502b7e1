use ladoga_model::CellMark;

/// Which cells two nodes compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsOf {
    /// Only versions before this timestamp; `u64::MAX` for all.
    pub before: u64,
    /// Nothing that was deleted before this timestamp, be it by a tombstone or because its time was over: everyone has it, so
    /// some may have dropped it.
    pub dropped_before: u64,
}

impl AsOf {
    /// Whether a cell belongs to it.
    pub const fn has(&self, cell: CellMark) -> bool {
        let is_left_out = match cell.deleted_at() {
            Some(deleted_at) => deleted_at < self.dropped_before,
            None => false,
        };
        cell.stamp.version.timestamp < self.before && !is_left_out
    }
}
