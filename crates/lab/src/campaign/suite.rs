//! The published load tests that this project started from: their settings and their results, as data in `published.json`.
//! Every row is repeated with the same workload, store, answers, connections and server threads.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::options::{Rate, RunOptions, SuiteName};
use super::stage::{Stage, chosen, title};
use crate::page::count;
use crate::record::{Conditions, Published, Unit};
use crate::workload::Name;

const PUBLISHED: &str = include_str!("published.json");
/// By how much the stores of `--quick` are smaller.
const QUICK: u64 = 1_000;
/// What is shown of every constant rate, whether it was published or not.
const PERCENTILES: [&str; 6] = ["p50", "p90", "p99", "p99.9", "p99.99", "max"];
const ANSWERED: &str = "answered/s";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Publications {
    /// How the figures are known.
    source: String,
    /// What each publication was.
    sources: BTreeMap<String, String>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    source: String,
    workload: String,
    /// Requests a second; none for a closed loop.
    rate: Option<u64>,
    connections: u64,
    /// Event loops of the server, if the publication compares them.
    server_threads: Option<u64>,
    /// In the store before the run.
    records: u64,
    value_bytes: Option<u64>,
    answers: ReadsFind,
    figures: Vec<PublishedFigure>,
    notes: Vec<String>,
}

/// What reads find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ReadsFind {
    Hits,
    Misses,
    /// Nothing is read.
    None,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedFigure {
    figure: String,
    unit: Unit,
    before: Option<f64>,
    after: Option<f64>,
}

/// Every stage of a command line, in the order in which they run: those of a suite, or the chosen one.
pub(super) fn stages(options: &RunOptions) -> Vec<Stage> {
    let all = match options.suite {
        Some(SuiteName::Reports) => reports(options),
        None => chosen(options),
    };
    let Some(text) = &options.only else { return all };
    // A whole name is that stage alone, although others may contain it.
    let has_name = all.iter().any(|stage| stage.name == *text);
    let is_wanted = |stage: &Stage| if has_name { stage.name == *text } else { stage.name.contains(text) };
    all.into_iter().filter(is_wanted).collect()
}

/// What a reader of the suite has to know.
pub(super) fn remarks(options: &RunOptions) -> Vec<String> {
    if options.suite.is_none() {
        return Vec::new();
    }
    let publications = publications();
    let mut remarks = Vec::new();
    // First, for it stands above everything.
    if options.quick {
        remarks.push(format!(
            "--quick: the stores are {QUICK} times smaller than the published ones, and figures mean nothing."
        ));
    }
    remarks.push(format!("The published figures: {}", publications.source));
    remarks.extend(publications.sources.iter().map(|(name, what)| format!("{name}: {what}")));
    remarks
}

fn publications() -> Publications {
    match serde_json::from_str(PUBLISHED) {
        Ok(publications) => publications,
        Err(error) => unreachable!("published.json is read by a test: {error}"),
    }
}

fn reports(options: &RunOptions) -> Vec<Stage> {
    let mut stages = vec![ceiling(options)];
    let mut stores = Stores::default();
    for row in publications().rows {
        let store = stores.of(&row);
        stages.push(stage(options, &row, store));
    }
    stages
}

/// Which rows share a store: once written to, a store is not shared further.
#[derive(Default)]
struct Stores {
    /// The size of the last one, and the threads of its server.
    last: Option<(u64, Option<u64>, Option<u64>)>,
    number: u32,
    is_written: bool,
}

impl Stores {
    fn of(&mut self, row: &Row) -> u32 {
        let wanted = (row.records, row.value_bytes, row.server_threads);
        if self.last != Some(wanted) || self.is_written {
            self.number += 1;
            self.is_written = false;
        }
        self.last = Some(wanted);
        self.is_written |= !matches!(row.workload.as_str(), "status" | "get" | "get-hot");
        self.number
    }
}

/// What one connection can carry here at all, without pipelining: a higher rate measures the loopback.
fn ceiling(options: &RunOptions) -> Stage {
    let note = "The ceiling of one connection on this machine: one request after the other, nothing stored. A run on one \
         connection that is asked for more falls behind its schedule whatever the server does, and its latency is the \
         length of that queue.";
    Stage { notes: vec![note.to_owned()], ..plain(options, Name::Status, Rate::Closed, 1) }
}

fn plain(options: &RunOptions, workload: Name, rate: Rate, connections: u64) -> Stage {
    Stage {
        name: title(workload, rate, connections),
        store: 0,
        node_threads: options.node.node_threads,
        filled: None,
        workload,
        rate,
        connections,
        threads: 1,
        duration_ms: options.duration_ms,
        timeout_ms: options.timeout_ms,
        keys: workload.default_keys(),
        value: None,
        distribution: None,
        seed: options.seed,
        expects_misses: false,
        conditions: None,
        published: Vec::new(),
        notes: Vec::new(),
    }
}

fn stage(options: &RunOptions, row: &Row, store: u32) -> Stage {
    let Ok(workload) = <Name as clap::ValueEnum>::from_str(&row.workload, false) else {
        unreachable!("published.json is read by a test")
    };
    let rate = row.rate.map_or(Rate::Closed, Rate::Open);
    let records = if options.quick { row.records.div_ceil(QUICK) } else { row.records };
    let plain = plain(options, workload, rate, row.connections);
    let store_words = store_words(records, row.value_bytes);
    let server = row
        .server_threads
        .map(|threads| format!(", {threads} server thread{}", if threads == 1 { "" } else { "s" }));
    let keys = match workload {
        // Every record that there is; writers of new keys have no end.
        Name::Get | Name::Delete if records > 0 => Some(records),
        Name::Put => None,
        _ => plain.keys.map(|keys| if records > 0 { keys.min(records) } else { keys }),
    };
    Stage {
        name: format!("{}, {store_words}{}", plain.name, server.unwrap_or_default()),
        store,
        node_threads: row.server_threads.or(plain.node_threads),
        filled: (records > 0).then_some(records),
        keys,
        value: row.value_bytes,
        expects_misses: row.answers == ReadsFind::Misses,
        conditions: Some(Conditions {
            source: row.source.clone(),
            load: row.rate.map_or_else(
                || "closed loop".to_owned(),
                |rate| format!("open loop, {}/s", count(rate as f64)),
            ),
            store: store_words,
            answers: match row.answers {
                ReadsFind::Hits => "hits",
                ReadsFind::Misses => "misses: 404",
                ReadsFind::None => "no reads",
            }
            .to_owned(),
            connections: row.connections,
            server_threads: row.server_threads,
        }),
        published: figures(row),
        notes: row.notes.clone(),
        ..plain
    }
}

fn store_words(records: u64, value_bytes: Option<u64>) -> String {
    let records_words = format!("{} records", count(records as f64));
    match value_bytes {
        _ if records == 0 => "empty store".to_owned(),
        None => records_words,
        Some(bytes) => {
            let megabytes = (records * bytes) as f64 / 1e6;
            format!("{megabytes} MB ({records_words} of {bytes} B)")
        }
    }
}

/// What was published, and what a reader wants to see beside it.
fn figures(row: &Row) -> Vec<Published> {
    let mut wanted = vec![(ANSWERED, Unit::PerSecond)];
    if row.rate.is_some() {
        wanted.extend(PERCENTILES.map(|figure| (figure, Unit::Micros)));
    }
    let figure = |(figure, unit): (&str, Unit)| {
        let theirs = row.figures.iter().find(|known| known.figure == figure && known.unit == unit);
        Published {
            figure: figure.to_owned(),
            before: theirs.and_then(|figure| figure.before),
            theirs: theirs.and_then(|figure| figure.after),
            ours: None,
            unit,
        }
    };
    wanted.into_iter().map(figure).collect()
}

#[cfg(test)]
#[path = "suite_tests.rs"]
mod tests;
