use ladoga_model::Stamp;

/// What a cell holds; `V` is however the driver holds a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content<V> {
    /// A value.
    Value(V),
    /// A value that was not sent: its version stands for it, since no two writes share one.
    Digest,
    /// A deletion.
    Tombstone,
}

/// The newest cell of a key, as a replica has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell<V> {
    /// Its version, expiry, and for how many nodes it is.
    pub stamp: Stamp,
    /// What it holds.
    pub content: Content<V>,
}

impl<V> Cell<V> {
    /// Whether it may be on the replica at this place of its key's preference list. A deletion may be anywhere: it is
    /// no copy of anything, and must reach every node that may have an older value.
    pub const fn belongs_on(&self, replica: usize) -> bool {
        matches!(self.content, Content::Tombstone) || belongs_on(self.stamp, replica)
    }
}

/// Whether a value with this stamp may be on the replica at this place of its key's preference list.
pub(crate) const fn belongs_on(stamp: Stamp, replica: usize) -> bool {
    stamp.copies == 0 || replica < stamp.copies as usize
}

/// Where a cell that is to be written comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client's write, from its coordinator.
    Client,
    /// A hint that was kept for this replica.
    Hint,
    /// A read that found this replica stale.
    Repair,
    /// Anti-entropy.
    Exchange,
}
