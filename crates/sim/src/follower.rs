use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes};
use ladoga_model::{Stamp, Version};
use ladoga_service::{ChangeFormat, ChangedTo, Since};

use crate::Summary;

/// Keys, and the newest versions of them that are known.
pub(crate) type Told = BTreeMap<Vec<u8>, Version>;

/// What a client knows that follows changes.
pub(crate) struct Follower {
    pub(crate) since: Since,
    told: Told,
    /// Counts its connections: only the last one counts.
    pub(crate) connection: u64,
    /// How many changes it was told.
    pub(crate) changes: u64,
    /// What it is to be told in the end.
    pub(crate) expected: Told,
    /// Those of it that may go: deletions, and what expires. Who begins anew need not be told of them any more.
    pub(crate) passing: BTreeSet<Vec<u8>>,
}

impl Default for Follower {
    fn default() -> Follower {
        let (told, expected, passing) = (Told::new(), Told::new(), BTreeSet::new());
        Follower { since: Since::Beginning, told, connection: 0, changes: 0, expected, passing }
    }
}

impl Follower {
    /// It goes to another node. Answers the number of the connection.
    pub(crate) const fn connect(&mut self) -> u64 {
        self.connection += 1;
        self.connection
    }

    /// Its token is not good any more: what it knew does not count.
    pub(crate) fn begin_anew(&mut self) {
        (self.since, self.told) = (Since::Beginning, Told::new());
        self.expected.retain(|key, _| !self.passing.contains(key));
    }

    /// Takes a change.
    pub(crate) fn take(&mut self, key: Vec<u8>, version: Version) {
        self.changes += 1;
        let newest = self.told.entry(key).or_insert(version);
        *newest = version.max(*newest);
    }

    /// Something that it was not told in the end, if it was there at all.
    pub(crate) fn untold(&self) -> Option<String> {
        if self.connection == 0 {
            return None;
        }
        let untold = self.expected.iter().find(|&(key, version)| self.told.get(key) < Some(version));
        untold.map(|(key, version)| {
            let (told, key) = (self.told.get(key), key.escape_ascii());
            let Follower { changes, connection, .. } = self;
            format!(
                "who follows was told {told:?} of {key}, expected {version:?}, after {changes} changes over {connection} \
                 connections"
            )
        })
    }
}

/// Whether a token may be void after what has happened: a token is good for a day at each node, unless the list of nodes is changed, a
/// node has another directory, or a clock shows that the day is over.
pub(crate) const fn may_begin_anew(happened: &Summary) -> bool {
    let Summary { disks_lost, backups_restored, clocks_wrong, lists_changed, .. } = *happened;
    disks_lost + backups_restored + clocks_wrong + lists_changed > 0
}

/// Tells keys and versions.
pub(crate) struct Versions;

impl ChangeFormat for Versions {
    fn change(&mut self, out: &mut Vec<u8>, key: &[u8], stamp: Stamp, _: ChangedTo<'_>) {
        out.put_u16(key.len() as u16);
        out.put_slice(key);
        out.put_u64(stamp.version.timestamp);
        out.put_u16(stamp.version.node);
    }
}

/// What was told in that format.
pub(crate) fn parse(bytes: Vec<u8>) -> Vec<(Vec<u8>, Version)> {
    let (mut rest, mut found) = (Bytes::from(bytes), Vec::new());
    while rest.has_remaining() {
        let length = usize::from(rest.get_u16());
        let key = rest.split_to(length).to_vec();
        found.push((key, Version { timestamp: rest.get_u64(), node: rest.get_u16() }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_a_disk_a_list_or_a_clock_is_another_one() {
        let nothing = Summary { faults: 20, failed: 100, succeeded: 100, ..Summary::default() };
        assert!(!may_begin_anew(&nothing));
        for happened in [
            Summary { disks_lost: 1, ..nothing },
            Summary { backups_restored: 1, ..nothing },
            Summary { clocks_wrong: 1, ..nothing },
            Summary { lists_changed: 1, ..nothing },
        ] {
            assert!(may_begin_anew(&happened), "{happened:?}");
        }
    }
}
