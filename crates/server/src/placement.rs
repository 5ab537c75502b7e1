/// Which event loops serve connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// All, as many connections each.
    AllLoops,
    /// As many as the load asks for, beginning with one.
    AsLoadAsks,
    /// All, and every connection moves every few milliseconds. For tests of what moving does to them.
    Restless,
}
