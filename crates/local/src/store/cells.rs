use ladoga_model::{Cell, CellMark, Version};

/// How a cell of a range is written: of a large value there is its length.
pub type CellFormat = fn(out: &mut Vec<u8>, key: &[u8], cell: Cell<&[u8], u64>);

/// A cell that took the place of another, or of none.
#[derive(Debug, Clone, Copy)]
pub struct CellChange {
    /// The xxh3 of its key.
    pub key_hash: u64,
    /// What was the newest cell of the key.
    pub old: Option<CellMark>,
    /// What is.
    pub new: CellMark,
}

/// A cell that was written when there was a newer one already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupersededCell {
    /// The xxh3 of its key.
    pub key_hash: u64,
    /// Its version.
    pub version: Version,
    /// The newest one of the key.
    pub newest: Version,
}

/// Is notified of every cell that is written: before the next group is written, and before the writer is answered.
///
/// Protocol: `(begins replaced* scan_completed?)*`, and `replaced` and `superseded` at any time after the first `begins`.
pub trait CellObserver: Send + Sync {
    /// Forget everything. Every cell that is stored at this moment will be reported as one that replaced nothing, and so will
    /// be every cell that is written from now on.
    fn begins(&self);

    /// These took the place of others.
    fn replaced(&self, changes: &[CellChange]);

    /// These did not: there was something newer.
    fn superseded(&self, cells: &[SupersededCell]);

    /// Every cell that was stored at `begins` has been reported.
    fn scan_completed(&self);
}
