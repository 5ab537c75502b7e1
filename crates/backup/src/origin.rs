use crate::error::Error;
use crate::repository::{Backup, NodeBackup, Repository};

/// What tells whose a backup is: that of a node on its own, or of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    is_cluster: bool,
    /// By their URLs, and what their stores are called.
    nodes: Vec<(String, Option<u128>)>,
}

impl Identity {
    fn of(backup: &Backup) -> Identity {
        // Backups of an earlier release have the name of the store only with a log.
        let store = |node: &NodeBackup| node.store.or_else(|| node.log.map(|position| position.chain.store));
        let nodes = backup.nodes.iter().map(|node| (node.url.clone(), store(node)));
        let missing = backup.missing.iter().map(|node| (node.url.clone(), None));
        Identity { is_cluster: !backup.cluster.is_empty(), nodes: nodes.chain(missing).collect() }
    }

    /// A store keeps its name wherever it is, and clusters change by a node or two. A URL says little: two machines may both have
    /// backed up their `http://127.0.0.1:8080`, and a node that lost its disk has the URL of what is lost. So it counts only if nothing
    /// is known of the stores.
    fn is_same(&self, other: &Identity) -> bool {
        if self.is_cluster != other.is_cluster {
            return false;
        }
        if self.stores().any(|store| other.stores().any(|other| other == store)) {
            return true;
        }
        let mut is_unknown = false;
        for (url, store) in &self.nodes {
            for (_, other) in other.nodes.iter().filter(|(other, _)| other == url) {
                if store.is_some() && other.is_some() {
                    return false;
                }
                is_unknown = true;
            }
        }
        is_unknown
    }

    fn stores(&self) -> impl Iterator<Item = u128> {
        self.nodes.iter().filter_map(|(_, store)| *store)
    }
}

/// Backups by whose they are. They are added from the newest to the oldest.
#[derive(Default)]
pub(crate) struct Origins(Vec<Origin>);

struct Origin {
    /// The newest backup, and its nodes.
    newest: String,
    identities: Vec<Identity>,
    count: usize,
}

/// A backup in words: its name, and its nodes.
fn in_words(backup: &Backup) -> String {
    format!("{} of {}", backup.id, backup.urls())
}

impl Origins {
    /// Adds a backup. Answers which one of its origin it is, counted from the newest, 1. A cluster may have become two: what is of
    /// both counts for the one that has fewer.
    pub(crate) fn add(&mut self, backup: &Backup) -> usize {
        let identity = Identity::of(backup);
        let mut fewest = None;
        for origin in self.0.iter_mut().filter(|origin| origin.has(&identity)) {
            origin.count += 1;
            fewest = Some(fewest.map_or(origin.count, |fewest: usize| fewest.min(origin.count)));
            if !origin.identities.contains(&identity) {
                origin.identities.push(identity.clone());
            }
        }
        fewest.unwrap_or_else(|| {
            self.0.push(Origin { newest: in_words(backup), identities: vec![identity], count: 1 });
            1
        })
    }

    /// Whether a backup is of one that is known.
    pub(crate) fn have(&self, backup: &Backup) -> bool {
        let identity = Identity::of(backup);
        self.0.iter().any(|origin| origin.has(&identity))
    }

    /// Fails if there are several: nobody but who asks knows which is meant.
    pub(crate) fn expect_one(&self, repository: &Repository) -> Result<(), Error> {
        if self.0.len() <= 1 {
            return Ok(());
        }
        let newest = self.0.iter().map(|origin| origin.newest.clone()).collect();
        Err(Error::SeveralOrigins { path: repository.dir().to_path_buf(), newest })
    }
}

impl Origin {
    fn has(&self, identity: &Identity) -> bool {
        self.identities.iter().any(|known| known.is_same(identity))
    }
}

impl Repository {
    /// The newest backup, if all are of one node or cluster, or all that have this node if one is given. Answers as well which older
    /// ones could not be read, so that nobody knows whose they are.
    pub fn newest(&self, node: Option<&str>) -> Result<(Backup, Vec<Error>), Error> {
        let (mut newest, mut found, mut origins) = (None, None, Origins::default());
        let mut unread = Vec::new();
        for id in self.ids()?.iter().rev() {
            let backup = match self.backup(id) {
                Err(error @ (Error::Damaged { .. } | Error::NewerFormat { .. })) if found.is_some() => {
                    unread.push(error);
                    continue;
                }
                backup => backup?,
            };
            if node.is_some_and(|node| !backup.is_of_node(node)) {
                newest.get_or_insert(backup);
                continue;
            }
            origins.add(&backup);
            found.get_or_insert(backup);
        }
        origins.expect_one(self)?;
        let none = || Error::NoBackups { path: self.dir().to_path_buf() };
        Ok((found.or(newest).ok_or_else(none)?, unread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tables::table_list;

    fn backup(is_cluster: bool, nodes: &[(&str, Option<u128>)]) -> Backup {
        let node = |&(url, store): &(&str, Option<u128>)| NodeBackup {
            url: url.to_owned(),
            store,
            taken_ms: 1,
            tables: table_list(&[]),
            files: Vec::new(),
            log: None,
        };
        let cluster =
            if is_cluster { nodes.iter().map(|(url, _)| (*url).to_owned()).collect() } else { Vec::new() };
        let (id, nodes) = ("2026-11-23T12-00-05Z".to_owned(), nodes.iter().map(node).collect());
        Backup { id, begun_ms: 1, ended_ms: 2, cluster, ack: 1, missing: Vec::new(), nodes }
    }

    /// Which of its origin each of these is, from the newest to the oldest.
    fn places(backups: &[Backup]) -> Vec<usize> {
        let mut origins = Origins::default();
        backups.iter().map(|backup| origins.add(backup)).collect()
    }

    #[test]
    fn a_store_is_the_same_wherever_it_is_and_another_one_at_its_place_is_not() {
        let here = |store| backup(false, &[("http://127.0.0.1:8080", store)]);
        let moved = backup(false, &[("http://b", Some(1))]);
        assert_eq!(places(&[moved, here(Some(1)), here(Some(2)), here(Some(1))]), [1, 2, 1, 3]);
        assert_eq!(places(&[here(None), here(None), here(Some(1))]), [1, 2, 3], "there is only the URL");
        let alone = backup(false, &[("http://a", Some(1))]);
        let cluster = backup(true, &[("http://a", Some(1)), ("http://b", Some(2))]);
        assert_eq!(places(&[alone, cluster]), [1, 1]);
    }

    #[test]
    fn a_cluster_is_the_same_if_other_nodes_are_missing() {
        let without = |missing: &str, nodes: &[(&str, Option<u128>)]| {
            let mut backup = backup(true, nodes);
            backup.cluster.push(missing.to_owned());
            backup.missing.push(crate::Missing { url: missing.to_owned(), why: "it is down".to_owned() });
            backup
        };
        let [a, b] =
            [without("http://b", &[("http://a", Some(1))]), without("http://a", &[("http://b", Some(2))])];
        let other = backup(true, &[("http://a", Some(8)), ("http://b", Some(9))]);
        assert_eq!(places(&[a.clone(), b, other, a]), [1, 2, 1, 3]);
    }

    #[test]
    fn a_cluster_changes_and_may_become_two() {
        let of = |stores: &[u128]| {
            let names: Vec<String> = stores.iter().map(|store| format!("http://{store}")).collect();
            let nodes: Vec<_> =
                names.iter().map(String::as_str).zip(stores.iter().map(|&it| Some(it))).collect();
            backup(true, &nodes)
        };
        assert_eq!(places(&[of(&[3, 4, 5]), of(&[2, 3]), of(&[1, 2])]), [1, 2, 3]);
        let halves = [of(&[1, 2]), of(&[3, 4]), of(&[1, 2]), of(&[1, 2, 3, 4]), of(&[1, 2])];
        assert_eq!(places(&halves), [1, 1, 2, 2, 3], "what is older than the whole is of both halves");
    }
}
