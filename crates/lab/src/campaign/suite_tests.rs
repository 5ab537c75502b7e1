use std::collections::BTreeSet;

use super::super::options::tests::parsed;
use super::super::stage::Store;
use super::*;

fn suite(words: &str) -> Vec<Stage> {
    stages(&parsed(&format!("--suite reports {words}")).unwrap())
}

fn at(stages: &[Stage], name: &str) -> Stage {
    stages.iter().find(|stage| stage.name == name).unwrap_or_else(|| panic!("no stage {name}")).clone()
}

/// What was published of a figure, before and after.
fn theirs(stage: &Stage, figure: &str) -> (Option<f64>, Option<f64>) {
    let found = stage.published.iter().find(|known| known.figure == figure).expect("a figure");
    (found.before, found.theirs)
}

#[test]
fn some_of_the_stages_can_be_chosen() {
    let stages = stages(&parsed("--workloads put,get --only get").unwrap());
    assert!(stages.len() == 2 && stages.iter().all(|stage| stage.workload == Name::Get));
    // One name may be in another one.
    assert_eq!(
        suite("").iter().filter(|stage| stage.name.starts_with("status closed loop, 1 conn")).count(),
        1
    );
    assert_eq!(
        suite("--only put").len(),
        suite("").iter().filter(|stage| stage.name.contains("put")).count()
    );
}

#[test]
fn the_file_of_published_figures_is_whole() {
    let publications = publications();
    for row in &publications.rows {
        assert!(publications.sources.contains_key(&row.source), "{row:?}");
        assert!(<Name as clap::ValueEnum>::from_str(&row.workload, false).is_ok(), "{row:?}");
        let shown = figures(row);
        for figure in &row.figures {
            let found = shown.iter().find(|shown| shown.figure == figure.figure && shown.unit == figure.unit);
            assert!(found.is_some(), "{} of {row:?} would not be shown", figure.figure);
            assert!(figure.before.is_some() || figure.after.is_some(), "{row:?}");
        }
    }
    let values =
        |row: &Row| row.figures.iter().flat_map(|figure| [figure.before, figure.after]).flatten().count();
    assert_eq!(publications.rows.iter().map(values).sum::<usize>(), 12 + 9 + 6);
}

#[test]
fn the_suite_has_every_published_test() {
    let stages = suite("");
    assert_eq!(stages.len(), 1 + 4 + 4 + 3 * 6 + 1 + 12);
    let names: BTreeSet<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names.len(), stages.len(), "every stage has a name of its own");
    for workload in ["status", "put", "put-overwrite", "get", "get-hot", "put-get"] {
        for store in ["empty store", "400,000 records", "1,000,000 records"] {
            at(&stages, &format!("{workload} closed loop, 4 connections, {store}"));
        }
    }
    for (workload, rates) in
        [("put", ["2,000", "10,000", "20,000", "30,000"]), ("get", ["2,000", "10,000", "80,000", "90,000"])]
    {
        let store = if workload == "put" { "empty store" } else { "1,000,000 records" };
        for rate in rates {
            at(&stages, &format!("{workload} at {rate}/s, 1 connection, {store}"));
        }
    }
}

#[test]
fn figures_stand_beside_a_run_of_the_same_kind() {
    let stages = suite("");
    let get = at(&stages, "get at 80,000/s, 1 connection, 1,000,000 records");
    assert_eq!(
        (get.filled, get.keys, theirs(&get, "p99")),
        (Some(1_000_000), Some(1_000_000), (None, Some(15_000.0)))
    );
    let get = at(&stages, "get at 10,000/s, 1 connection, 1,000,000 records");
    assert_eq!([theirs(&get, "p50").1, theirs(&get, "max").1], [Some(633.0), Some(8_410.0)]);
    assert_eq!(theirs(&get, "p90"), (None, None), "shown, and not published");
    // A published figure over a million records must not be compared with an empty store.
    let empty = at(&stages, "get closed loop, 4 connections, empty store");
    assert_eq!(
        (theirs(&empty, "answered/s"), empty.expects_misses, empty.filled),
        ((None, None), true, None)
    );
    let full = at(&stages, "get closed loop, 4 connections, 1,000,000 records");
    assert_eq!(theirs(&full, "answered/s"), (Some(2_656.0), Some(3_345.0)));
    let put = at(&stages, "put closed loop, 4 connections, 400,000 records");
    assert_eq!(theirs(&put, "answered/s"), (None, Some(2_816.0)));
    let status = at(&stages, "status closed loop, 4 connections, 100,000 records");
    assert_eq!(theirs(&status, "answered/s"), (Some(11_639.0), Some(11_952.0)));
    let delete =
        at(&stages, "delete at 10,000/s, 4 connections, 25 MB (250,000 records of 100 B), 4 server threads");
    assert_eq!((delete.filled, delete.value, delete.node_threads), (Some(250_000), Some(100), Some(4)));
    let conditions = delete.conditions.expect("what the publication did");
    assert_eq!((conditions.load.as_str(), conditions.answers.as_str()), ("open loop, 10,000/s", "hits"));
}

#[test]
fn what_is_written_to_is_no_store_for_the_next_run() {
    let stages = suite("");
    let mut written = BTreeSet::new();
    for stage in stages.iter().skip(1) {
        assert!(!written.contains(&stage.store), "{} runs on what another run has changed", stage.name);
        if !matches!(stage.workload, Name::Status | Name::Get | Name::GetHot) {
            written.insert(stage.store);
        }
        let same: BTreeSet<_> = stages
            .iter()
            .filter(|other| other.store == stage.store && other.conditions.is_some())
            .map(|other| (other.filled, other.value, other.node_threads))
            .collect();
        assert_eq!(same.len(), 1, "one store has one size");
    }
}

/// With one stage alone, the second round wrote to the store of the first one, and called it empty.
#[test]
fn what_is_written_to_is_no_store_for_the_next_round() {
    let nodes_started = |stages: &[Stage]| {
        let (mut store, mut started): (Option<Store>, u32) = (None, 0);
        for stage in [stages, stages].concat() {
            let mut used = store.filter(|store| stage.can_use(*store)).unwrap_or_else(|| {
                started += 1;
                Store { number: stage.store, is_changed: false }
            });
            used.is_changed |= !stage.workload.is_reading();
            store = Some(used);
        }
        started
    };
    for stage in suite("") {
        let expected = if stage.workload.is_reading() { 1 } else { 2 };
        assert_eq!(nodes_started(std::slice::from_ref(&stage)), expected, "{}", stage.name);
    }
    let chosen = stages(&parsed("--workloads put,get").unwrap());
    assert_eq!(nodes_started(&chosen), 1, "keys are added, and nothing is said of their number");
}

#[test]
fn a_quick_suite_is_the_same_and_small() {
    let quick = suite("--quick");
    assert_eq!(quick.len(), suite("").len());
    assert!(
        quick.iter().all(|stage| stage.filled.is_none_or(|keys| keys <= 1_000) && stage.duration_ms == 1_000)
    );
    assert!(suite("--quick -d 50ms").iter().all(|stage| stage.duration_ms == 50));
    let options = parsed("--suite reports --quick").unwrap();
    assert!(remarks(&options).iter().any(|remark| remark.starts_with("--quick")));
    assert!(remarks(&parsed("").unwrap()).is_empty());
}

/// The words of a line, as a shell divides it.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(index, part)| {
            let is_quoted = index % 2 == 1;
            if is_quoted {
                vec![part.to_owned()]
            } else {
                part.split_whitespace().map(str::to_owned).collect()
            }
        })
        .collect()
}

#[test]
fn the_line_that_repeats_a_run_repeats_it() {
    for line in [
        "--suite reports -d 3s --fsync everysec --memory 64MiB --seed 7",
        "--suite reports --quick",
        "--workloads put,get-hot,delete --rates closed,2k --keys 500 --value 10 -c2 -t2 -d 1500ms --distribution zipfian -T 1s",
        "--workloads get --node-threads 2 --dir /tmp --profile cpu,lock",
    ] {
        let options = parsed(line).unwrap();
        for stage in stages(&options) {
            let repeat = stage.repeat(&options, None);
            let words = words(&repeat);
            assert_eq!(words[..3], ["ladoga", "lab", "run"], "{repeat}");
            let again = super::super::options::tests::parsed_words(&words[3..]).unwrap();
            let found = stages(&again);
            assert_eq!(found.len(), 1, "{repeat}");
            assert_eq!(Stage { store: stage.store, ..found[0].clone() }, stage, "{repeat}");
            assert_eq!((again.rounds(), again.kinds()), (1, options.kinds()), "{repeat}");
            let settings = |options: &RunOptions| format!("{:?}", options.node);
            assert_eq!(settings(&again), settings(&options), "{repeat}");
        }
    }
}

#[test]
fn nodes_of_the_suite_sync_no_more_than_the_published_stores_unless_they_are_told_to() {
    let fsync = |line: &str| parsed(line).unwrap().own_node().fsync;
    assert_eq!(fsync("--suite reports").as_deref(), Some("everysec"));
    assert_eq!(fsync("--suite reports --fsync always").as_deref(), Some("always"));
    assert_eq!(fsync("--workloads put"), None);
}
