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
