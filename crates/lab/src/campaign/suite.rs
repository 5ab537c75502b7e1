//! The published load tests that this project started from: what they did, and what they found.

use std::fmt::Write as _;

use super::options::{Rate, RunOptions, SuiteName};
use super::stage::{Stage, chosen, title};
use crate::record::{Published, Unit};
use crate::workload::Name;

const RECORDS: u64 = 1_000_000;
const RECORDS_SOME: u64 = 400_000;
/// Of the stores that are told by their size.
const VALUE_BYTES: u64 = 100;
const MB: u64 = 1_000_000;

/// Stages share a store where it is the same one.
const STORE_OPEN_PUT: u32 = 100;
const STORE_OPEN_GET: u32 = 110;
const STORE_EMPTY: u32 = 200;
const STORE_SOME: u32 = 300;
const STORE_SIZED: u32 = 400;

/// Every stage of a command line, in the order in which they run: those of a suite, or what was chosen.
pub(super) fn stages(options: &RunOptions) -> Vec<Stage> {
    let all = match options.suite {
        Some(SuiteName::Reports) => reports(options),
        None => chosen(options),
    };
    let is_wanted = |stage: &Stage| options.only.as_ref().is_none_or(|text| stage.name.contains(text));
    all.into_iter().filter(is_wanted).collect()
}

fn reports(options: &RunOptions) -> Vec<Stage> {
    let mut stages = vec![ceiling(options)];
    stages.extend(constant_rates(options));
    stages.extend(closed_loops(options));
    stages.extend(sized_stores(options));
    stages
}

fn stage(options: &RunOptions, workload: Name, rate: Rate, connections: u64) -> Stage {
    Stage {
        name: title(workload, rate, connections),
        store: STORE_OPEN_GET,
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
        published: Vec::new(),
        notes: Vec::new(),
    }
}

/// What one connection can carry here at all, without pipelining: a higher rate measures the loopback.
fn ceiling(options: &RunOptions) -> Stage {
    let mut ceiling = stage(options, Name::Status, Rate::Closed, 1);
    ceiling.store = STORE_OPEN_PUT;
    ceiling.notes.push(
        "The ceiling of one connection on this machine: one request after the other, nothing stored. A run on one \
         connection that is asked for more falls behind its schedule whatever the server does, and its latency is the \
         length of that queue."
            .to_owned(),
    );
    ceiling
}

fn constant_rates(options: &RunOptions) -> Vec<Stage> {
    let put = [
        (2_000, vec![("p99", 18_700.0), ("max", 68_000.0)]),
        (10_000, vec![("p99", 1_350_000.0)]),
        (20_000, vec![("p99", 6_400.0), ("max", 20_500.0)]),
        (30_000, vec![("p99", 31_000.0), ("max", 88_000.0)]),
    ];
    let get = [(10_000, vec![]), (80_000, vec![("p99", 15_000.0)]), (90_000, vec![("p99", 132_000.0)])];
    let one = |workload, (rate, figures): (u64, Vec<(&str, f64)>)| {
        let mut stage = stage(options, workload, Rate::Open(rate), 1);
        let micros = |(figure, theirs): (&str, f64)| published(figure, theirs, Unit::Micros);
        stage.published = figures.into_iter().map(micros).collect();
        stage
    };
    let mut stages: Vec<Stage> = Vec::new();
    for what in put {
        stages.push(Stage { store: STORE_OPEN_PUT, ..one(Name::Put, what) });
    }
    for what in get {
        let get = one(Name::Get, what);
        let name = format!("{}, 1,000,000 keys", get.name);
        stages.push(Stage { name, filled: Some(RECORDS), keys: Some(RECORDS), ..get });
    }
    stages
}

fn closed_loops(options: &RunOptions) -> Vec<Stage> {
    let tests = [
        (Name::Status, 11_952.0),
        (Name::Put, 2_524.0),
        (Name::PutOverwrite, 3_581.0),
        (Name::Get, 3_345.0),
        (Name::GetHot, 7_392.0),
        (Name::PutGet, 2_849.0),
    ];
    let mut stages = Vec::new();
    for (index, (workload, theirs)) in tests.iter().enumerate() {
        let mut empty = stage(options, *workload, Rate::Closed, 4);
        empty.name.push_str(", empty store");
        empty.store = STORE_EMPTY + index as u32;
        empty.published = vec![published("answered/s", *theirs, Unit::PerSecond)];
        if matches!(workload, Name::Get | Name::GetHot) {
            empty.notes.push("Nothing is in the store: every answer is a 404.".to_owned());
        }
        stages.push(empty);
    }
    // What reads comes before what writes.
    let order = [Name::Status, Name::Get, Name::GetHot, Name::PutOverwrite, Name::PutGet, Name::Put];
    for workload in order {
        let theirs = tests.iter().find(|(name, _)| *name == workload).map(|(_, theirs)| *theirs);
        let mut some = stage(options, workload, Rate::Closed, 4);
        some.name.push_str(", 400,000 keys");
        some.store = STORE_SOME;
        some.filled = Some(RECORDS_SOME);
        some.keys = some.keys.map(|keys| keys.min(RECORDS_SOME));
        some.published =
            theirs.map(|theirs| published("answered/s", theirs, Unit::PerSecond)).into_iter().collect();
        stages.push(some);
    }
    stages
}

fn sized_stores(options: &RunOptions) -> Vec<Stage> {
    let mut stages = Vec::new();
    for (index, megabytes) in [25, 100].into_iter().enumerate() {
        let keys = megabytes * MB / VALUE_BYTES;
        for (workload, connections) in [(Name::Get, 1), (Name::Get, 4), (Name::Delete, 1), (Name::Delete, 4)]
        {
            let mut sized = stage(options, workload, Rate::Closed, connections);
            let _ = write!(sized.name, ", {megabytes} MB");
            sized.store = STORE_SIZED + index as u32;
            sized.filled = Some(keys);
            sized.keys = Some(keys);
            sized.value = Some(VALUE_BYTES);
            stages.push(sized);
        }
    }
    stages
}

fn published(figure: &str, theirs: f64, unit: Unit) -> Published {
    Published { figure: figure.to_owned(), theirs, ours: None, unit }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::options::tests::parsed;
    use super::*;

    #[test]
    fn some_of_the_stages_can_be_chosen() {
        let stages = stages(&parsed("--workloads put,get --only get").unwrap());
        assert!(stages.len() == 2 && stages.iter().all(|stage| stage.workload == Name::Get));
    }

    #[test]
    fn the_suite_has_every_published_test() {
        let stages = reports(&parsed("--suite reports").unwrap());
        assert_eq!(stages.len(), 1 + 4 + 3 + 6 + 6 + 8);
        let names: BTreeSet<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(names.len(), stages.len(), "every stage has a name of its own");
        let figures = stages.iter().map(|stage| stage.published.len()).sum::<usize>();
        assert_eq!(figures, 7 + 2 + 12);
        let at = |name: &str| stages.iter().find(|stage| stage.name == name).unwrap();
        let get = at("get at 80,000/s, 1 connection, 1,000,000 keys");
        assert_eq!((get.filled, get.connections, get.published[0].theirs), (Some(RECORDS), 1, 15_000.0));
        assert_eq!(at("delete closed loop, 4 connections, 25 MB").filled, Some(250_000));
    }
}
