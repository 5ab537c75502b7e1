use ladoga_service::{BackupAnswer, ClusterCut, LogMember};

use crate::cluster::Cluster;
use crate::stability::Stability;

/// What a node of a cluster knew before it made a checkpoint, or sealed its log.
pub(super) struct Before {
    /// What it had synced by then is in it.
    synced_before: u64,
    /// A process before this one may have dropped older deletions.
    dropped_before: u64,
    /// If it becomes whole later, what that took may not be in it.
    was_whole: bool,
}

impl Before {
    pub(super) fn of(stability: &Stability) -> Before {
        let dropped_before = stability.droppable_before();
        Before { synced_before: stability.synced_before(), dropped_before, was_whole: stability.has_all() }
    }

    /// Says what the checkpoint, or the log, is to those of the other nodes.
    pub(super) fn add_to(&self, answer: &mut BackupAnswer, cluster: &Cluster) {
        match answer {
            BackupAnswer::Begun(begun) => {
                // By the same time, and no earlier than any value has expired by it.
                begun.taken_ms = cluster.versions.expiry_time_ms();
                begun.cut = Some(self.cut(begun.dropped_before, cluster));
            }
            BackupAnswer::Log(log) => log.member = Some(self.member(cluster)),
            BackupAnswer::Bytes(_) | BackupAnswer::Ended => {}
        }
    }

    /// Behind the listing of the log: a node that has lost what was in it may know that by now.
    fn member(&self, cluster: &Cluster) -> LogMember {
        LogMember {
            nodes: names(cluster),
            own: cluster.own.index(),
            is_whole: self.is_whole(cluster),
            incarnation: own_incarnation(cluster),
        }
    }

    /// Of a checkpoint from which this process may have dropped older deletions. What may go by now does not count: links and listings
    /// take minutes, in which it moves on at every node.
    fn cut(&self, dropped_before: u64, cluster: &Cluster) -> ClusterCut {
        ClusterCut {
            nodes: names(cluster),
            own: cluster.own.index(),
            is_whole: self.is_whole(cluster),
            synced_before: self.synced_before,
            dropped_before: self.dropped_before.max(dropped_before),
            incarnation: own_incarnation(cluster),
        }
    }

    fn is_whole(&self, cluster: &Cluster) -> bool {
        self.was_whole && cluster.stability().has_all()
    }
}

fn names(cluster: &Cluster) -> Vec<String> {
    cluster.nodes.iter().map(|(id, _)| cluster.nodes.name(id).to_owned()).collect()
}

fn own_incarnation(cluster: &Cluster) -> u64 {
    let incarnations = cluster.stability().incarnations(&[cluster.own]);
    incarnations.first().map_or(0, |incarnation| incarnation.0)
}
