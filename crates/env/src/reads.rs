use crate::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Bytes of a file that are to be read.
#[derive(Clone)]
pub struct FilePart {
    /// The file; open until the read has ended.
    pub file: Arc<dyn File>,
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub len: usize,
}

/// A read that has ended.
#[derive(Debug)]
pub struct EndedRead {
    /// What it was pushed with.
    pub token: u64,
    /// All of its bytes; `UnexpectedEof` where the file ends before that.
    pub bytes: io::Result<Vec<u8>>,
}

/// Reads that are under way while whoever asked for them does something else. It belongs to one thread.
///
/// Protocol: `(push* turn)*`; after a push, and whenever [`ReadRing::descriptor`] becomes readable, a turn. A ring that
/// is dropped waits for the reads under way, because the system still writes to their buffers; nobody learns how
/// they ended.
pub trait ReadRing {
    /// Takes a read for the next turn.
    ///
    /// # Panics
    /// Where as many as the ring was made for have not ended.
    fn push(&mut self, token: u64, part: FilePart);

    /// Sends off what was pushed, and appends to `ended` what has ended, in any order. Does not wait. An error is of
    /// the system's refusal to take reads now: none is lost, a later turn tries again.
    fn turn(&mut self, ended: &mut Vec<EndedRead>) -> io::Result<()>;

    /// What becomes readable when a read has ended that no turn has told of. `None` where each ends in the turn that
    /// sends it off.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}
