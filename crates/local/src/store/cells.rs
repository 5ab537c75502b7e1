use ladoga_model::CellMark;
use ladoga_model::Stamp;

/// What a cell of a range holds, as far as a range goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellContent<'c> {
    /// A value in memory.
    Value(&'c [u8]),
    /// A large value: its length.
    Large(u64),
    /// Nothing: it was deleted, or has expired.
    Tombstone,
}

/// How a cell of a range is written.
pub type CellFormat = fn(out: &mut Vec<u8>, key: &[u8], stamp: Stamp, content: CellContent<'_>);

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

/// Who wants to know of every cell that is written.
///
/// Protocol: `(begins replaced* is_whole?)*`, and `replaced` at any time after the first `begins`.
pub trait CellObserver: Send + Sync {
    /// What was told before is void: every cell that is there at this moment is told of, as one that took the place of
    /// none, and every cell that is written from now on.
    fn begins(&self);

    /// These took the place of others.
    fn replaced(&self, changes: &[CellChange]);

    /// Every cell that was there in the beginning has been told of.
    fn scan_completed(&self);
}
