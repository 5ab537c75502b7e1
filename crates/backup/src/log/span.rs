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
        Ok(self.logs_of(backup)?.span())
    }

    /// The log behind each node of a backup.
    pub(crate) fn logs_of<'b>(&self, backup: &'b Backup) -> Result<BackupLogs<'b>, Error> {
        let mut nodes = Vec::with_capacity(backup.nodes.len());
        for node in &backup.nodes {
            let chain = match node.log {
                Some(position) => {
                    self.chain(position.chain)?.filter(|chain| chain.has_all_from(position.sequence))
                }
                None => None,
            };
            nodes.push((node, chain));
        }
        Ok(BackupLogs { backup, nodes })
    }
}

/// A backup, and the log behind each of its nodes.
pub(crate) struct BackupLogs<'b> {
    pub(crate) backup: &'b Backup,
    /// With no log if there is none that begins where the files end.
    pub(crate) nodes: Vec<(&'b NodeBackup, Option<Chain>)>,
}

impl BackupLogs<'_> {
    /// Every write that `ack` nodes acknowledged is in the log of one of those that reach a time, if fewer than `ack` do not.
    pub(crate) fn span(&self) -> Option<Span> {
        let all = self.backup.cluster.len().max(1);
        let mut reaches_ms: Vec<u64> =
            self.nodes.iter().filter_map(|(_, chain)| Some(chain.as_ref()?.reaches_ms)).collect();
        reaches_ms.sort_unstable_by(|one, other| other.cmp(one));
        let until_ms = *reaches_ms.get(all.checked_sub(self.backup.ack as usize)?)?;
        // Values that had expired by the time of a checkpoint are not in it any more, whenever they were written. Of what was written
        // again, it does not have what was there before.
        let from_ms = |node: &NodeBackup| node.taken_ms.max(HybridClock::wall_ms(node.tables.newest()));
        let from_ms = self.nodes.iter().map(|(node, _)| from_ms(node)).max()?;
        (from_ms <= until_ms).then_some(Span { from_ms, until_ms })
    }

    /// Which nodes of a cluster have no log up to a time, and why; empty if all have, or it is a node on its own.
    pub(crate) fn missing_at(&self, at_ms: u64) -> Vec<String> {
        if self.backup.cluster.is_empty() {
            return Vec::new();
        }
        let missing = self.backup.missing.iter().map(|node| format!("{} is not in the backup", node.url));
        let behind = self.nodes.iter().filter_map(|(node, chain)| match chain {
            None => Some(format!("there is no log of {} behind it", node.url)),
            Some(chain) if chain.reaches_ms < at_ms => {
                Some(format!("the log of {} ends at {}", node.url, text_of_ms(chain.reaches_ms)))
            }
            Some(_) => None,
        });
        missing.chain(behind).collect()
    }
}
