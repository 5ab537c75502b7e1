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
