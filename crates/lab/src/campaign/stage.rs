//! The runs that a command line asks for. Pure.

use std::fmt::Write as _;

use clap::ValueEnum;

use super::options::{Rate, RunOptions};
use crate::engine::{Ending, Plan};
use crate::page::count;
use crate::record::{Conditions, Published};
use crate::units::counted;
use crate::workload::Knobs;
use crate::workload::{Distribution, Name};

/// Where `ladoga serve` listens.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";
/// That of `ladoga bench`.
const TIMEOUT_MS_DEFAULT: u64 = 2_000;

/// The store of a node of our own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Store {
    /// That of its stages.
    pub(super) number: u32,
    /// Whether a run has written to it; what it was filled with does not count.
    pub(super) is_changed: bool,
}

/// One run, before it is made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stage {
    pub(super) name: String,
    /// Stages with the same number share a store, in their order. Another number begins with an empty store, if the node is our
    /// own.
    pub(super) store: u32,
    /// Event loops of a node of our own.
    pub(super) node_threads: Option<u64>,
    /// So many keys have to be in the store.
    pub(super) filled: Option<u64>,
    pub(super) workload: Name,
    pub(super) rate: Rate,
    pub(super) connections: u64,
    pub(super) threads: u64,
    pub(super) duration_ms: u64,
    pub(super) timeout_ms: u64,
    pub(super) keys: Option<u64>,
    pub(super) value: Option<u64>,
    pub(super) distribution: Option<Distribution>,
    pub(super) seed: u64,
    /// The store is empty, and reads of missing keys are what is measured.
    pub(super) expects_misses: bool,
    pub(super) conditions: Option<Conditions>,
    pub(super) published: Vec<Published>,
    pub(super) notes: Vec<String>,
}

/// Each chosen workload at each rate.
pub(super) fn chosen(options: &RunOptions) -> Vec<Stage> {
    let mut stages = Vec::new();
    for workload in &options.workloads {
        for rate in &options.rates {
            stages.push(of_workload(options, *workload, *rate));
        }
    }
    stages
}

fn of_workload(options: &RunOptions, workload: Name, rate: Rate) -> Stage {
    let keys = match workload {
        // New keys have no end, and the hot ones are a few of those that are there.
        Name::Put | Name::PutOverwrite | Name::GetHot => workload.default_keys(),
        _ => Some(options.keys),
    };
    let keys = keys.map(|keys| keys.min(options.keys));
    let mut name = title(workload, rate, options.connections);
    if needs_keys(workload) {
        let _ = write!(name, ", {} keys", count(options.keys as f64));
    }
    if let Some(value) = options.value {
        let _ = write!(name, ", values of {value} B");
    }
    Stage {
        name,
        store: 0,
        node_threads: options.node.node_threads,
        filled: needs_keys(workload).then_some(options.keys),
        workload,
        rate,
        connections: options.connections,
        threads: options.threads,
        duration_ms: options.duration_ms,
        timeout_ms: options.timeout_ms,
        keys,
        value: options.value,
        distribution: options.distribution,
        seed: options.seed,
        expects_misses: false,
        conditions: None,
        published: Vec::new(),
        notes: Vec::new(),
    }
}

/// Reads and deletes need something in the store.
fn needs_keys(workload: Name) -> bool {
    !matches!(workload, Name::Status | Name::Put | Name::PutOverwrite | Name::PutGet)
}

pub(super) fn title(workload: Name, rate: Rate, connections: u64) -> String {
    let rate = match rate {
        Rate::Closed => "closed loop".to_owned(),
        Rate::Open(rate) => format!("at {}/s", count(rate as f64)),
    };
    format!("{} {rate}, {}", name_of(&workload), counted(connections, "connection"))
}

/// As it is typed.
pub(super) fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl Stage {
    pub(super) const fn is_deleting(&self) -> bool {
        matches!(self.workload, Name::Delete)
    }

    /// Whether it is made on this store, and not on an empty one. A published store is as large as it says: in another round, a run of the
    /// round before may have written to it.
    pub(super) fn can_use(&self, store: Store) -> bool {
        store.number == self.store && !(store.is_changed && self.conditions.is_some())
    }

    /// What the load generator has to do.
    pub(super) fn plan(&self) -> Plan {
        Plan {
            threads: self.threads as usize,
            connections: self.connections as usize,
            pipeline: 1,
            duration_ns: self.duration_ms * 1_000_000,
            warmup_ns: 0,
            timeout_ns: self.timeout_ms * 1_000_000,
            rate: match self.rate {
                Rate::Closed => None,
                Rate::Open(rate) => Some(rate as f64),
            },
            ending: Ending::Cut,
            is_batch_latency: false,
            misses_are_good: self.expects_misses,
        }
    }

    pub(super) fn knobs(&self) -> Knobs {
        Knobs { keys: self.keys, value: self.value, distribution: self.distribution, seed: self.seed }
    }

    /// The line of `ladoga bench` that does the same. `url` is the address of a node that is not our own: the port of our own one means
    /// nothing later.
    pub(super) fn command(&self, options: &RunOptions, url: Option<&str>) -> String {
        let mut line = format!("ladoga bench -t{} -c{}", self.threads, self.connections);
        let mut add = |words: String| {
            line.push(' ');
            line.push_str(&words);
        };
        let ms = self.duration_ms;
        add(if ms.is_multiple_of(1000) { format!("-d {}s", ms / 1000) } else { format!("-d {ms}ms") });
        if let Rate::Open(rate) = self.rate {
            add(format!("-R {rate} -L"));
        }
        if self.timeout_ms != TIMEOUT_MS_DEFAULT {
            add(format!("-T {}ms", self.timeout_ms));
        }
        add(format!("--workload {}", name_of(&self.workload)));
        if let Some(keys) = self.keys {
            add(format!("--keys {keys}"));
        }
        // There may be more than it asks for.
        if needs_keys(self.workload) && self.keys.is_some() && self.keys <= self.filled {
            add("--fill".to_owned());
        }
        if let Some(value) = self.value {
            add(format!("--value {value}"));
        }
        if let Some(distribution) = self.distribution {
            add(format!("--distribution {}", name_of(&distribution)));
        }
        if self.seed != 1 {
            add(format!("--seed {}", self.seed));
        }
        options.token_words(url).into_iter().for_each(&mut add);
        add(url.unwrap_or(DEFAULT_URL).to_owned());
        line
    }

    /// The line of `ladoga lab run` that repeats it: the node with its settings, the store, the run. `url` is the address of a
    /// node that is not our own.
    pub(super) fn repeat(&self, options: &RunOptions, url: Option<&str>) -> String {
        let mut words = vec!["ladoga lab run".to_owned()];
        if options.suite.is_some() {
            words.push(format!("--suite reports --only '{}'", self.name));
            words.extend(options.quick.then(|| "--quick".to_owned()));
        } else {
            words.push(format!("--workloads {} --rates {}", name_of(&self.workload), self.rate));
            words.push(format!("-c {} -t {} --keys {}", self.connections, self.threads, options.keys));
            words.extend(self.value.map(|bytes| format!("--value {bytes}")));
            words.extend(self.distribution.map(|name| format!("--distribution {}", name_of(&name))));
        }
        words.push(format!(
            "-d {}ms -T {}ms --seed {} --rounds 1",
            self.duration_ms, self.timeout_ms, self.seed
        ));
        match url {
            Some(url) => {
                words.push(format!("--url {url}"));
                words.extend(options.token_words(Some(url)));
                words.extend(options.pid_of(url).map(|pid| format!("--pid {pid}")));
            }
            None => words.extend(options.node.words()),
        }
        words.push(options.profile_words());
        words.push("-o report.html".to_owned());
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::parsed;
    use super::*;

    #[test]
    fn every_workload_runs_at_every_rate() {
        let stages =
            chosen(&parsed("--workloads put,get-hot --rates closed,2k --keys 500 --value 10 -c1").unwrap());
        let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "put closed loop, 1 connection, values of 10 B",
                "put at 2,000/s, 1 connection, values of 10 B",
                "get-hot closed loop, 1 connection, 500 keys, values of 10 B",
                "get-hot at 2,000/s, 1 connection, 500 keys, values of 10 B",
            ]
        );
        assert_eq!((stages[0].filled, stages[2].filled, stages[2].keys), (None, Some(500), Some(500)));
        let line = stages[3].command(&parsed("").unwrap(), None);
        assert_eq!(
            line,
            "ladoga bench -t1 -c1 -d 10s -R 2000 -L --workload get-hot --keys 500 --fill --value 10 http://127.0.0.1:8080"
        );
    }

    /// It waited for another time, read an empty store, and was let in nowhere.
    #[test]
    fn the_line_of_the_load_generator_does_the_same() {
        let line = "--workloads put,get-hot --rates closed -c1 -t1 --url http://a --token-file t --peer http://b --peer-pid 7";
        let options = parsed(&format!("{line} -T 500ms --pid 5")).unwrap();
        let [put, get] = &chosen(&options)[..] else { panic!("two stages") };
        let command = |stage: &Stage, url| stage.command(&options, Some(url));
        assert_eq!(
            command(put, "http://a"),
            "ladoga bench -t1 -c1 -d 10s -T 500ms --workload put --token-file 't' http://a"
        );
        assert_eq!(
            command(get, "http://b"),
            "ladoga bench -t1 -c1 -d 10s -T 500ms --workload get-hot --keys 1000 --fill http://b"
        );
        let repeat = |url| put.repeat(&options, Some(url));
        assert!(
            repeat("http://a").contains(" --url http://a --token-file 't' --pid 5 "),
            "{}",
            repeat("http://a")
        );
        assert!(repeat("http://b").contains(" --url http://b --pid 7 "), "{}", repeat("http://b"));
        assert_eq!(parsed("").unwrap().timeout_ms, TIMEOUT_MS_DEFAULT);
    }
}
