//! What a replica sends to a read.

use ladoga_model::{Cell, Stamp, Version};

/// A replica's newest cell of a key, as far as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SentCell<B, L> {
    /// The cell.
    Whole(Cell<B, L>),
    /// It has a value, which was not sent: the version stands for it, since no two writes share a version.
    Digest(Stamp),
}

impl<B, L> SentCell<B, L> {
    /// The stamp of the cell.
    pub const fn stamp(&self) -> Stamp {
        match self {
            SentCell::Whole(cell) => cell.stamp,
            SentCell::Digest(stamp) => *stamp,
        }
    }
}

/// What a replica says to a read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReadAnswer<B, L> {
    /// The newest cell that it has.
    pub cell: Option<SentCell<B, L>>,
    /// Whether it has all that it should. One that lost its data and does not have it back yet cannot vouch for what it
    /// lacks, so its answer does not count; the cell that it has does.
    pub is_whole: bool,
}

impl<B, L> ReadAnswer<B, L> {
    pub(crate) const fn is_digest(&self) -> bool {
        matches!(self.cell, Some(SentCell::Digest(_)))
    }

    pub(crate) fn version(&self) -> Option<Version> {
        self.cell.as_ref().map(|cell| cell.stamp().version)
    }
}
