//! What a pull has its driver do, and how it ends.

use ladoga_model::{Cell, CellMark};

use super::messages::PullRequest;
use crate::failure::Refusal;
use crate::placement::Partition;

/// What the driver has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullStep<B> {
    /// Ask the peer; its answer goes to [`crate::SyncSession::answered`], with this number.
    Ask(u64, PullRequest<B>),
    /// Look at a part of the tree: [`crate::SyncSession::compare`]. Other things may be done before.
    Compare,
    /// Look which version of this key is here; the answer goes to [`crate::SyncSession::found`].
    Look(B),
    /// Make this cell durable, as [`crate::Origin::Exchange`]; the answer goes to [`crate::SyncSession::applied`], or to
    /// [`crate::SyncSession::gone`].
    Apply(B, Cell<B, u64>),
    /// Delete what the peer does not have and should: [`Prune`]. Whether that worked out goes to [`crate::SyncSession::pruned`].
    Prune(Prune<B>),
    /// Everything is here. The last step.
    Done,
    /// It did not work out. The last step.
    Failed(PullFailure),
}

/// Why a pull does not work out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PullFailure {
    /// This node cannot compare as of that time any more.
    #[error("it is too late to compare as of this time")]
    TooLate,
    /// This node does not tell tombstones before this from later ones: its tree has to be filled anew, see
    /// [`crate::MerkleTree::emptied`].
    #[error(
        "deletions before and after this time are not told apart here any more: the tree has to be filled anew"
    )]
    NotToldApart {
        /// Which timestamp.
        at: u64,
    },
    /// The peer cannot, or will not.
    #[error("the peer refused: {0}")]
    Refused(Refusal),
    /// The peer's answer is not one to what it was asked.
    #[error("the peer's answer does not fit what it was asked")]
    Malformed,
    /// What it sent could not be written here.
    #[error("this node could not write a cell: {0}")]
    NotWritten(Refusal),
    /// Everything is here but cells that were left out: see [`crate::SyncSession::left_out`]; and nothing that was to be deleted but
    /// cells that [`crate::SyncSession::pruned`] tells of.
    #[error("{}", incomplete(*.missing, *.undeleted))]
    Incomplete {
        /// How many are not here.
        missing: u64,
        /// How many are still here.
        undeleted: u64,
    },
}

fn incomplete(missing: u64, undeleted: u64) -> String {
    match (missing, undeleted) {
        (missing, 0) => format!("cells that are still missing: {missing}"),
        (0, undeleted) => format!("cells that are still to be deleted: {undeleted}"),
        _ => format!("cells that are still missing: {missing}, still to be deleted: {undeleted}"),
    }
}

/// Cells of this node that were deleted while its directory was not in use. Possibly no node knows of those deletions any more.
/// The peer is complete before a time: it has every older cell that exists, or something newer. So what it should hold and does
/// not list was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prune<B> {
    /// In these partitions; none named means all.
    pub partitions: Vec<Partition>,
    /// Only keys behind this one.
    pub after: Option<B>,
    /// And up to this one.
    pub until: Option<B>,
    /// Only values before this timestamp.
    pub before: u64,
    /// What the peer has in there, in the order of the keys.
    pub listed: Vec<B>,
}

impl<B: AsRef<[u8]>> Prune<B> {
    /// Whether a cell that is here, and that both nodes should hold, is to be deleted.
    pub fn takes(&self, key: &[u8], cell: CellMark) -> bool {
        let is_named =
            self.partitions.is_empty() || self.partitions.binary_search(&Partition::of(key)).is_ok();
        let is_missing = || self.listed.binary_search_by(|listed| listed.as_ref().cmp(key)).is_err();
        !cell.is_tombstone && cell.stamp.version.timestamp < self.before && is_named && is_missing()
    }
}

/// Progress of a pull, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PullProgress {
    /// Partitions that differ.
    pub partitions: usize,
    /// Keys that were compared.
    pub compared: u64,
    /// Cells that were taken over.
    pub applied: u64,
}
