use ladoga_cluster::{Had, Origin, WriteAnswer};
use ladoga_local::store::{LocalStore, Store};
use ladoga_model::Version;
use xxhash_rust::xxh3::xxh3_64;

use super::OwnReplica;
use crate::stability::Met;

/// A cell that arrives at this replica, until it is durable: then it is known what it met.
pub(crate) struct Arrival {
    version: Version,
    origin: Origin,
    /// Whether it may have arrived before.
    is_again: bool,
    /// Whether nothing here was newer at a moment since it was given its version.
    was_newest: bool,
}

impl Arrival {
    /// One from a peer, or from who repairs. Before it is admitted, which moves the clock; and so before it is written.
    ///
    /// The clock is after all that is here, since each cell moves it before it is written. So a version that is after the
    /// clock meets nothing newer, and whatever comes between this and its commit comes later.
    pub(crate) fn of<S: Store>(
        replica: &OwnReplica<S>,
        key: &[u8],
        version: Version,
        (origin, is_again): (Origin, bool),
    ) -> Arrival {
        let cluster = &replica.cluster;
        if origin != Origin::Client {
            cluster.stability().past.comes(xxh3_64(key), version);
        }
        let was_newest = cluster.versions.is_after_all(version.timestamp);
        Arrival { version, origin, is_again, was_newest }
    }

    /// A client's write that this node gave its version: then, nothing here was newer.
    pub(crate) const fn stamped_here(version: Version) -> Arrival {
        Arrival { version, origin: Origin::Client, is_again: false, was_newest: true }
    }

    /// It is durable. What the replica says to that.
    pub(crate) async fn answer<S: Store>(self, replica: &OwnReplica<S>, key: &[u8]) -> WriteAnswer {
        let Arrival { version, origin, is_again, was_newest } = self;
        let past = &replica.cluster.stability().past;
        let met = if was_newest || !past.may_have_met_newer(version) {
            Met::Nothing
        } else {
            past.met(xxh3_64(key), version)
        };
        match met {
            Met::Nothing => {
                if origin != Origin::Client {
                    past.was_newest(xxh3_64(key), version);
                }
                WriteAnswer::Applied
            }
            Met::Newer(newest) => {
                let had = past.had(xxh3_64(key), version);
                let had = if is_again && had == Had::Never { Had::Unknown } else { had };
                WriteAnswer::Superseded { newest, had }
            }
            Met::Forgotten => match newer(&*replica.store, key, version).await {
                Some(newest) => WriteAnswer::Superseded { newest, had: Had::Unknown },
                None => WriteAnswer::Applied,
            },
        }
    }
}

/// The newest version of a key, if it is over `version`.
async fn newer<S: LocalStore>(store: &S, key: &[u8], version: Version) -> Option<Version> {
    let found = store.get_cell(key).wait().await;
    // If it cannot be read, it is not known to be newer; the read that needs it will report the error.
    found.ok().flatten().map(|cell| cell.stamp.version).filter(|newest| *newest > version)
}
