/// What a command of Redis does, as far as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandKind {
    /// It reads a few keys.
    Read,
    /// It writes a few keys.
    Write,
    /// It reads a range of keys.
    Range,
    /// It asks for nothing that is stored.
    Other,
}

/// Each of them, and what it is called.
pub(super) const COMMAND_KINDS: [(CommandKind, &str); 4] = [
    (CommandKind::Read, "read"),
    (CommandKind::Write, "write"),
    (CommandKind::Range, "range"),
    (CommandKind::Other, "other"),
];
/// How commands end: they do what they are told, or say why not.
pub(super) const COMMAND_RESULTS: [&str; 2] = ["ok", "error"];

/// What somebody slow had taken, and had to give back to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Room in memory for a value.
    Value,
    /// The place of a large value on its way in.
    Upload,
    /// The place of a range, or of a large value on its way out.
    Stream,
}

/// Each of them, and what it is called.
pub(super) const TAKEN: [(Taken, &str); 3] =
    [(Taken::Value, "value"), (Taken::Upload, "upload"), (Taken::Stream, "stream")];
