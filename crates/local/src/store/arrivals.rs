/// What a replica knows of the cells that may still arrive: they come in no order of their versions. A feed of changes tells them
/// in the order in which they arrive.
pub trait Arrivals: Send + Sync {
    /// Which cluster it is: its nodes understand each other's tokens.
    fn cluster(&self) -> u64;

    /// Which data directory it is. Another one is in its place once it has lost cells that it had.
    fn directory(&self) -> u64;

    /// Every cell with an earlier version than this that any node had is here, or something newer; and none arrives any more. Never
    /// moves back.
    fn settled_before(&self) -> u64;

    /// No cell that is here has a later version.
    fn newest(&self) -> u64;

    /// What time it is for values that expire.
    fn time_ms(&self) -> u64;
}
