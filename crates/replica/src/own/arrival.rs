use std::time::Duration;

use ladoga_cluster::{Had, Origin, Refusal, WriteAnswer};
use ladoga_local::store::{LocalStore, NewestCell, Store, StoreError};
use ladoga_model::{Durability, HybridClock, Version};
use xxhash_rust::xxh3::xxh3_64;

use super::OwnReplica;
use super::refusal::refusal;
use crate::planted::{Bug, has, let_through};
use crate::stability::Met;

/// For how long a client's write that met something newer waits, one after the other, until it is known whether a conditional write that
/// was under way has seen it. Most are about to end; without that, nobody could say whether the write took effect.
const DECISION_WAITS_MS: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// A cell that arrives at this replica, until it is durable: then it is known what it met.
pub(crate) struct Arrival {
    version: Version,
    origin: Origin,
    /// Whether it may have arrived before.
    is_again: bool,
    /// Whether nothing here was newer at a moment since it was given its version. If something newer was promised since then,
    /// that does not say that the cell was here before it.
    was_newest: bool,
    /// How durable it was asked to be, if that was said.
    durability: Option<Durability>,
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
        durability: Option<Durability>,
    ) -> Arrival {
        let cluster = &replica.cluster;
        if may_be_one_of_many(origin, is_again) {
            cluster.stability().past.comes(xxh3_64(key), version);
        }
        if origin != Origin::Client && has(Bug::RepairThroughFence) {
            let_through(xxh3_64(key), version);
        }
        let was_newest = cluster.versions.is_after_all(version.timestamp);
        Arrival { version, origin, is_again, was_newest, durability }
    }

    /// A client's write that this node gave its version: then, nothing here was newer.
    pub(crate) const fn stamped_here(version: Version, durability: Option<Durability>) -> Arrival {
        Arrival { version, origin: Origin::Client, is_again: false, was_newest: true, durability }
    }

    /// The replica's answer, if it was the cell with this number of those that were applied together.
    pub(crate) async fn outcome<S: Store>(
        &self,
        replica: &OwnReplica<S>,
        key: &[u8],
        (applied, number): (&Result<Option<Version>, StoreError>, usize),
    ) -> Result<WriteAnswer, Refusal> {
        match applied {
            Ok(_) => Ok(self.answer(replica, key).await),
            Err(StoreError::Fenced(fenced)) => match fenced.iter().find(|fenced| fenced.cell == number) {
                Some(fenced) => Ok(self.fenced(replica, key, fenced.fence).await),
                None => Ok(self.answer(replica, key).await),
            },
            Err(error) => Err(refusal(error)),
        }
    }

    /// A promise kept it out. If it is here, or something newer, nobody has to wait for the end of that.
    async fn fenced<S: Store>(&self, replica: &OwnReplica<S>, key: &[u8], fence: Version) -> WriteAnswer {
        let version = self.version;
        let found = match self.durability {
            None => replica.store.get_cell(key).wait().await.map(|cell| cell.map(|cell| cell.stamp.version)),
            // What has come since this was kept out may be less durable.
            durability => {
                let newest = |newest: Option<NewestCell>| (None, newest.map(|newest| newest.stamp.version));
                replica.store_for(durability).update(key, 0, newest).await
            }
        };
        match found.ok().flatten() {
            Some(newest) if newest > version => {
                WriteAnswer::Superseded { newest, had: self.had(replica, xxh3_64(key)) }
            }
            Some(newest) if newest == version => WriteAnswer::Applied,
            _ => WriteAnswer::Fenced { fence },
        }
    }

    /// It is durable. What the replica says to that.
    async fn answer<S: Store>(&self, replica: &OwnReplica<S>, key: &[u8]) -> WriteAnswer {
        let Arrival { version, origin, is_again, was_newest, .. } = *self;
        let past = &replica.cluster.stability().past;
        let met = if !past.may_have_met_newer(version)
            || was_newest && !past.may_have_promised_over(xxh3_64(key), version)
        {
            Met::Nothing
        } else {
            past.met(xxh3_64(key), version)
        };
        match met {
            Met::Nothing => {
                if may_be_one_of_many(origin, is_again) {
                    past.was_newest(xxh3_64(key), version);
                }
                WriteAnswer::Applied
            }
            Met::Newer(newest) => WriteAnswer::Superseded { newest, had: self.had(replica, xxh3_64(key)) },
            Met::Forgotten => match newer(&*replica.store, key, version).await {
                Some(newest) => WriteAnswer::Superseded { newest, had: Had::Unknown },
                None => WriteAnswer::Applied,
            },
        }
    }

    /// Whether the version, which met something newer, was here before.
    fn had<S: Store>(&self, replica: &OwnReplica<S>, key_hash: u64) -> Had {
        match replica.cluster.stability().past.had(key_hash, self.version) {
            Had::Never | Had::Skipped if self.is_again => Had::Unknown,
            had => had,
        }
    }

    /// Whether an answer says that this is unknown, and more is heard of it soon: of a conditional write whose coordinator still waits.
    pub(crate) fn is_open<S: Store>(
        &self,
        replica: &OwnReplica<S>,
        key: &[u8],
        answer: &Result<WriteAnswer, Refusal>,
    ) -> bool {
        let cluster = &replica.cluster;
        let began_ms = cluster.versions.time_ms().saturating_sub(cluster.limits.quorum_timeout_ms);
        let since = HybridClock::at_wall_ms(began_ms);
        matches!(answer, Ok(WriteAnswer::Superseded { had: Had::Unknown, .. }))
            && self.origin == Origin::Client
            && !self.is_again
            && cluster.stability().past.is_open_over(xxh3_64(key), self.version, since)
    }

    /// The answer once it is known, or was waited for long enough.
    pub(crate) async fn once_known<S: Store>(
        self,
        replica: &OwnReplica<S>,
        key: &[u8],
        mut answer: Result<WriteAnswer, Refusal>,
    ) -> Result<WriteAnswer, Refusal> {
        for wait_ms in DECISION_WAITS_MS {
            if !self.is_open(replica, key, &answer) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            if let Ok(WriteAnswer::Superseded { had, .. }) = &mut answer {
                *had = self.had(replica, xxh3_64(key));
            }
        }
        answer
    }
}

/// Whether a version may be written here more often than once by arrivals of this kind: each of them is recorded.
fn may_be_one_of_many(origin: Origin, is_again: bool) -> bool {
    origin != Origin::Client || is_again
}

/// The newest version of a key, if it is over `version`.
async fn newer<S: LocalStore>(store: &S, key: &[u8], version: Version) -> Option<Version> {
    let found = store.get_cell(key).wait().await;
    // If it cannot be read, it is not known to be newer; the read that needs it will report the error.
    found.ok().flatten().map(|cell| cell.stamp.version).filter(|newest| *newest > version)
}
