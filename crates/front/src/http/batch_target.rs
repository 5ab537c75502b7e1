use ladoga_model::{Durability, Replicas};

use super::query::parameters;
use super::range_target::flag;
use super::target::{TargetError, durability};

/// What a batch asks for beside its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchTarget {
    /// How many nodes each key lives on, and how many have to answer.
    pub(crate) replicas: Replicas,
    /// Whether all of its operations are to happen, or none.
    pub(crate) is_atomic: bool,
    /// How durable each write has to be before it is answered; none if as durable as the node makes it.
    pub(crate) durability: Option<Durability>,
}

impl BatchTarget {
    /// Reads a query, for a cluster of `nodes`.
    pub(crate) fn parse(query: &[u8], nodes: u32) -> Result<BatchTarget, TargetError> {
        let names = ["atomic", "replicas", "ack", "from", "fsync"];
        let [atomic, replicas, ack, from, fsync] = parameters(query, names)?;
        Ok(BatchTarget {
            replicas: Replicas::parse(replicas.as_deref(), ack.as_deref(), from.as_deref(), nodes)?,
            is_atomic: flag("atomic", atomic.as_deref())?.unwrap_or(false),
            durability: fsync.map(|fsync| durability(&fsync)).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str) -> Result<BatchTarget, String> {
        BatchTarget::parse(query.trim_start_matches('?').as_bytes(), 3).map_err(|error| error.to_string())
    }

    #[test]
    fn a_batch_may_be_atomic_and_has_replicas() {
        let target = |query| parse(query).map(|target| (target.is_atomic, target.replicas));
        let majority = Replicas { ack: 2, from: 3 };
        assert_eq!(target(""), Ok((false, majority)));
        assert_eq!(target("?atomic=false"), Ok((false, majority)));
        assert_eq!(target("?atomic=true&replicas=1/2"), Ok((true, Replicas { ack: 1, from: 2 })));
        let durability = |query| parse(query).map(|target| target.durability);
        assert_eq!((durability(""), durability("?fsync=always")), (Ok(None), Ok(Some(Durability::Always))));
        for query in [
            "?fsync=1",
            "?atomic=1",
            "?atomic",
            "?atomic=true&atomic=true",
            "?replicas=4/4",
            "?ack=0",
            "?x=%",
        ] {
            assert!(parse(query).is_err(), "{query}");
        }
    }
}
