//! Built-in workloads: requests against the store's own HTTP API, made without a script.
//!
//! | name | requests | keys by default |
//! | --- | --- | --- |
//! | `status` | the node's state | |
//! | `put` | new keys, one after the other; with `--keys` it starts over after so many | no end |
//! | `put-overwrite` | a limited set of keys | 1,000 |
//! | `get` | all keys of a filled store | 1,000,000 |
//! | `get-hot` | a limited set | 1,000 |
//! | `put-get` | a key is written and then read, on the same connection | 1,000,000 |
//! | `delete` | one key after the other | 1,000,000 |
//! | `range` | all keys with one prefix, about a hundred | 1,000,000 |
//! | `ycsb-a` … `ycsb-f` | YCSB's core workloads (Cooper et al., 2010) | 1,000,000 |

mod chooser;
mod knobs;
mod random;
mod render;
mod requests;
mod zipfian;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use chooser::Distribution;
pub(crate) use knobs::Knobs;
pub(crate) use render::Renderer;
pub(crate) use requests::WorkloadRequests;

/// The name of a built-in workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Name {
    Status,
    Put,
    PutOverwrite,
    Get,
    GetHot,
    PutGet,
    Delete,
    Range,
    /// Half reads, half updates
    #[value(alias = "a")]
    YcsbA,
    /// 95 % reads, 5 % updates
    #[value(alias = "b")]
    YcsbB,
    /// Reads only
    #[value(alias = "c")]
    YcsbC,
    /// 95 % reads of the latest, 5 % inserts
    #[value(alias = "d")]
    YcsbD,
    /// 95 % short ranges, 5 % inserts
    #[value(alias = "e")]
    YcsbE,
    /// Half reads, half read-modify-writes
    #[value(alias = "f")]
    YcsbF,
}

const KEYS_ALL: u64 = 1_000_000;
const KEYS_FEW: u64 = 1_000;

impl Name {
    /// The number of keys by default; none for no end.
    pub(crate) const fn default_keys(self) -> Option<u64> {
        match self {
            Self::Put => None,
            Self::PutOverwrite | Self::GetHot => Some(KEYS_FEW),
            _ => Some(KEYS_ALL),
        }
    }

    /// Whether it leaves the store as it was.
    pub(crate) const fn is_reading(self) -> bool {
        matches!(self, Self::Status | Self::Get | Self::GetHot | Self::Range | Self::YcsbC)
    }

    /// YCSB's workloads have theirs; the others ask for all keys alike.
    pub(crate) const fn default_distribution(self) -> Distribution {
        match self {
            Self::YcsbA | Self::YcsbB | Self::YcsbC | Self::YcsbE | Self::YcsbF => Distribution::Zipfian,
            Self::YcsbD => Distribution::Latest,
            _ => Distribution::Uniform,
        }
    }
}

/// A workload with all that was chosen for it.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    pub(crate) name: Name,
    pub(crate) keys: Option<u64>,
    pub(crate) distribution: Distribution,
    pub(crate) seed: u64,
    /// Of all threads: at most so many inserts are in flight.
    pub(crate) connections: u64,
    /// The number of the next new key, for all threads.
    pub(crate) next_key: Arc<AtomicU64>,
}

impl Workload {
    pub(crate) fn new(name: Name, knobs: &Knobs, connections: u64) -> Self {
        let keys = knobs.keys.or(name.default_keys());
        let first_new = match name {
            Name::YcsbD | Name::YcsbE => keys.unwrap_or(0),
            _ => 0,
        };
        Self {
            name,
            keys,
            distribution: knobs.distribution.unwrap_or(name.default_distribution()),
            seed: knobs.seed,
            connections,
            next_key: Arc::new(AtomicU64::new(first_new)),
        }
    }

    /// New keys come after these as well, for workloads that write new ones without end.
    pub(crate) fn starting_at(self, first: u64) -> Self {
        if self.keys.is_none() || matches!(self.name, Name::YcsbD | Name::YcsbE) {
            self.next_key.fetch_max(first, Ordering::Relaxed);
        }
        self
    }

    /// The number of the next key that was not written; 0 if the workload writes no new ones.
    pub(crate) fn key_after(&self) -> u64 {
        let writes_new = matches!(self.name, Name::Put | Name::YcsbD | Name::YcsbE);
        if writes_new { self.next_key.load(Ordering::Relaxed) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each run of YCSB's workloads that insert began at the same key, and overwrote what the one before it had inserted.
    #[test]
    fn what_a_run_inserts_is_new_after_another_one() {
        let after = |name, keys, first| {
            let knobs = Knobs { keys, value: None, distribution: None, seed: 1 };
            Workload::new(name, &knobs, 4).starting_at(first).next_key.load(Ordering::Relaxed)
        };
        for name in [Name::YcsbD, Name::YcsbE] {
            assert_eq!([0, 300, 777].map(|first| after(name, Some(300), first)), [300, 300, 777], "{name:?}");
        }
        assert_eq!(after(Name::Put, None, 777), 777);
        assert_eq!(after(Name::Put, Some(300), 777), 0, "it starts over after so many");
    }
}
