use ladoga_model::Version;

/// What cells have to pass before they are written. Those that an update decides on do not: see
/// [`update`](super::LocalStore::update).
///
/// It is asked in the same turn in which groups are written and updates are decided: what an update changes about the gate holds
/// for every cell that is written after it, on whichever event loop.
pub trait CellGate: Send + Sync {
    /// Whether every cell with this timestamp, or a later one, passes as it is. Asked for each group, so it is one look.
    fn is_open_to(&self, timestamp: u64) -> bool;

    /// What becomes of a cell.
    fn pass(&self, key_hash: u64, version: Version) -> Passage;
}

/// A gate that has cells written in the order of their versions, from when it is asked to.
///
/// Asked in the same turn as [`CellGate`].
pub trait CellOrder: Send + Sync {
    /// Cells with this timestamp or an earlier one get a new version from now on.
    fn close_up_to(&self, timestamp: u64);

    /// The same for all versions that were given until now. Answers a timestamp that is later than all of them, and earlier than
    /// those to come.
    fn close_all(&self) -> u64;
}

/// What becomes of a cell at a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// It is written.
    Open,
    /// It is written with this version: nobody has seen the one that it came with.
    Renewed(Version),
    /// It is not written, because of a promise with this version: see [`Fenced`](super::StoreError::Fenced).
    Fenced(Version),
}
