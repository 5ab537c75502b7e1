//! Where keys live, and how many copies they have. If nobody says how many, the first door decides: keys with another number of copies are
//! in other keyspaces, so doors that come later go by what is there.

use std::collections::BTreeMap;

use scylla::client::session::Session;
use scylla::statement::unprepared::Statement;

use crate::settings::Settings;
use crate::start_error::StartError;

/// How many copies a key has if nothing is said, and nothing is there yet.
const REPLICAS_DEFAULT: u32 = 3;

/// Where keys live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// What the names of the keyspaces begin with.
    pub(crate) keyspace: String,
    pub(crate) datacenter: String,
    /// How many copies a key has at most, and if nothing is said.
    pub(crate) replicas_max: u32,
}

impl Place {
    /// Finds it out: of several datacenters, one has to be named.
    pub(crate) async fn find(session: &Session, settings: &Settings) -> Result<Place, StartError> {
        let mut nodes_in: BTreeMap<String, u32> = BTreeMap::new();
        for node in session.get_cluster_state().get_nodes_info() {
            *nodes_in.entry(node.datacenter.clone().unwrap_or_default()).or_default() += 1;
        }
        let (datacenter, nodes) = datacenter(&nodes_in, settings.datacenter.as_deref())?;
        let mut place = Place { keyspace: settings.keyspace.clone(), datacenter, replicas_max: 0 };
        let existing = match settings.replicas {
            Some(_) => Vec::new(),
            None => place.existing(session).await?,
        };
        place.replicas_max = place.choose(nodes, settings.replicas, &existing)?;
        if settings.replicas.is_none() && existing.is_empty() && nodes < REPLICAS_DEFAULT {
            tracing::warn!(
                copies = place.replicas_max,
                nodes,
                "the store is new, and its keys have as many copies as there are nodes; this number is kept when nodes are added, \
                 unless --cassandra-replicas gives another one, which is another store"
            );
        }
        Ok(place)
    }

    /// The keyspace of keys with so many copies.
    pub(crate) fn keyspace_of(&self, from: u32) -> String {
        format!("{}_rf{from}", self.keyspace)
    }

    /// The same backwards.
    fn copies_in(&self, keyspace: &str) -> Option<u32> {
        let copies = keyspace.strip_prefix(&self.keyspace)?.strip_prefix("_rf")?.parse().ok()?;
        (copies > 0 && self.keyspace_of(copies) == keyspace).then_some(copies)
    }

    /// How many copies the keys have of each keyspace that is there, as far as a node knows.
    pub(crate) async fn existing(&self, session: &Session) -> Result<Vec<u32>, StartError> {
        let not_now = |error: &dyn std::fmt::Display| StartError::NotNow {
            keyspace: format!("{}_rf…", self.keyspace),
            reason: error.to_string(),
        };
        let mut statement = Statement::new("SELECT keyspace_name FROM system_schema.keyspaces");
        statement.set_is_idempotent(true);
        let found = session.query_unpaged(statement, &[]).await.map_err(|error| not_now(&error))?;
        let rows = found.into_rows_result().map_err(|error| not_now(&error))?;
        let names = rows.rows::<(String,)>().map_err(|error| not_now(&error))?;
        let names: Vec<(String,)> = names.collect::<Result<_, _>>().map_err(|error| not_now(&error))?;
        Ok(names.iter().filter_map(|(name,)| self.copies_in(name)).collect())
    }

    /// How many copies a key has: as was asked for, or else as until now. Each door makes the keyspace of its own number, and requests
    /// may ask for fewer copies but not for more. So the largest number that is there is that of a door.
    fn choose(&self, nodes: u32, asked: Option<u32>, existing: &[u32]) -> Result<u32, StartError> {
        let (datacenter, kept) = (self.datacenter.clone(), existing.iter().copied().max());
        match (asked, kept) {
            (Some(replicas), _) if replicas > nodes => {
                Err(StartError::TooFewNodes { replicas, datacenter, nodes })
            }
            (None, Some(replicas)) if replicas > nodes => {
                let keyspace = self.keyspace_of(replicas);
                Err(StartError::TooFewNodesLeft { keyspace, replicas, datacenter, nodes })
            }
            (asked, kept) => Ok(asked.or(kept).unwrap_or_else(|| nodes.min(REPLICAS_DEFAULT))),
        }
    }
}

/// The datacenter, and how many nodes it has.
fn datacenter(nodes_in: &BTreeMap<String, u32>, named: Option<&str>) -> Result<(String, u32), StartError> {
    let found = match (named, nodes_in.len()) {
        (Some(named), _) => nodes_in.get_key_value(named),
        (None, 1) => nodes_in.first_key_value(),
        (None, _) => None,
    };
    let Some((datacenter, &nodes)) = found else {
        let known: Vec<&str> = nodes_in.keys().map(String::as_str).collect();
        let found = named.map_or("not given".to_owned(), |named| format!("'{named}'"));
        return Err(StartError::Datacenter { found, known: known.join(", ") });
    };
    Ok((datacenter.clone(), nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place { keyspace: "ladoga".to_owned(), datacenter: "a".to_owned(), replicas_max: 0 }
    }

    fn chosen(nodes: u32, asked: Option<u32>, existing: &[u32]) -> Result<u32, String> {
        place().choose(nodes, asked, existing).map_err(|error| error.to_string())
    }

    #[test]
    fn one_datacenter_needs_no_name_and_more_do() {
        let found = |nodes_in: &[(&str, u32)], named| {
            let nodes_in = nodes_in.iter().map(|(name, nodes)| ((*name).to_owned(), *nodes)).collect();
            datacenter(&nodes_in, named).map_err(|error| error.to_string())
        };
        assert_eq!(found(&[("a", 1)], None), Ok(("a".to_owned(), 1)));
        assert_eq!(found(&[("a", 9), ("b", 2)], Some("b")), Ok(("b".to_owned(), 2)));
        let error = found(&[("a", 9), ("b", 2)], None).expect_err("which one?");
        assert_eq!(error, "--cassandra-datacenter is not given, expected one of a, b");
        let error = found(&[("a", 9)], Some("c")).expect_err("no such one");
        assert_eq!(error, "--cassandra-datacenter is 'c', expected one of a");
    }

    #[test]
    fn there_are_as_many_nodes_as_copies() {
        assert_eq!(chosen(5, Some(5), &[]), Ok(5));
        let error = chosen(2, Some(3), &[3]).expect_err("too few");
        assert!(error.starts_with("--cassandra-replicas is 3, but datacenter a has 2 nodes"), "{error}");
        let error = chosen(2, None, &[1, 3]).expect_err("too few are left");
        assert!(error.starts_with("the keyspace ladoga_rf3 says that keys have 3 copies"), "{error}");
        assert!(error.contains("datacenter a has 2 nodes"), "{error}");
        assert!(error.contains("--cassandra-replicas"), "{error}");
    }

    /// A door that was started when there were more nodes, or fewer, had another store: what the others had stored was not found.
    #[test]
    fn the_number_of_copies_stays_however_many_nodes_there_are() {
        for (nodes, expected) in [(1, 1), (2, 2), (3, 3), (9, 3)] {
            assert_eq!(chosen(nodes, None, &[]), Ok(expected), "a new store of {nodes} nodes");
        }
        for nodes in 1..=9 {
            assert_eq!(chosen(nodes, None, &[1]), Ok(1), "{nodes} nodes");
        }
        assert_eq!(chosen(9, None, &[1, 5, 2]), Ok(5), "the smaller ones are of requests");
        assert_eq!(chosen(3, Some(3), &[1]), Ok(3), "who asks for another store gets it");
    }

    #[test]
    fn a_keyspace_is_known_by_its_name() {
        assert_eq!(place().copies_in(&place().keyspace_of(12)), Some(12));
        for other in [
            "ladoga",
            "ladoga_rf",
            "ladoga_rf0",
            "ladoga_rf03",
            "ladoga_rf+3",
            "ladoga_rf3_rf1",
            "x_ladoga_rf3",
        ] {
            assert_eq!(place().copies_in(other), None, "{other}");
        }
    }
}
