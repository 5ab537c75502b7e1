use std::fmt;

use ladoga_model::HybridClock;

use super::chain::Chain;
use crate::error::Error;
use crate::moment::text_of_ms;
use crate::repository::{Backup, NodeBackup, Repository};

/// Points in time to which one can restore, in milliseconds since 1970, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// From when on: the backup has nothing later than this.
    pub from_ms: u64,
    /// Until when: the log has everything up to this.
    pub until_ms: u64,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {}", text_of_ms(self.from_ms), text_of_ms(self.until_ms))
    }
}

impl Repository {
    /// To which points in time one can restore from this backup and the log behind it; `None` if there is no log, or it does not
    /// begin where the backup ends.
    pub fn span(&self, backup: &Backup) -> Result<Option<Span>, Error> {
        Ok(self.log_of(backup)?.and_then(|(node, chain)| span_of(node, &chain)))
    }

    /// The node of a backup that has a log behind it, and that log.
    pub(crate) fn log_of<'b>(&self, backup: &'b Backup) -> Result<Option<(&'b NodeBackup, Chain)>, Error> {
        let [node] = &backup.nodes[..] else { return Ok(None) };
        let Some(position) = node.log.filter(|_| backup.cluster.is_empty()) else { return Ok(None) };
        let chain = self.chain(position.chain)?.filter(|chain| chain.has_all_from(position.sequence));
        Ok(chain.map(|chain| (node, chain)))
    }
}

pub(crate) fn span_of(node: &NodeBackup, chain: &Chain) -> Option<Span> {
    // Values that had expired by the time of the checkpoint are not in it any more, whenever they were written.
    let from_ms = node.taken_ms.max(HybridClock::wall_ms(node.tables.newest()));
    (from_ms <= chain.reaches_ms).then_some(Span { from_ms, until_ms: chain.reaches_ms })
}
