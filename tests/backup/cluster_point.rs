use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::cluster::{Cluster, launches_at};
use crate::point::note_time;
use crate::steps::{backup, create, created, restore};
use crate::support::{Directory, Launch, Outcome, Random, value, wait_until};

/// What is there, by key.
type Model = BTreeMap<String, Vec<u8>>;

const KEYS: u64 = 40;

fn key(index: u64) -> String {
    format!("key{index:02}")
}

/// So many nodes, each of which keeps its log.
fn keeping(count: usize) -> Cluster {
    Cluster::launch(launches_at(count, |launch, _| launch.env("LADOGA_KEEP_LOG", "1h")))
}

fn log(repository: &Path, url: &str, more: &[&str]) -> Outcome {
    backup("log", repository, &[&["--url", url], more].concat())
}

/// Writes and deletes through these nodes; a majority acknowledges.
fn change(cluster: &Cluster, through: &[usize], random: &mut Random, model: &mut Model) {
    for _ in 0..60 {
        let node = through[random.below(through.len() as u64) as usize];
        let name = key(random.below(KEYS));
        match random.below(20) {
            0..7 => {
                cluster.delete(node, &name, "");
                model.remove(&name);
            }
            kind => {
                let bytes = if kind == 7 { 300_000 } else { random.below(900) as usize };
                let content = value(random.next(), bytes);
                cluster.put(node, &name, "", &content);
                model.insert(name, content);
            }
        }
    }
}

fn expect(cluster: &Cluster, model: &Model, context: &str) {
    for node in 0..cluster.nodes.len() {
        for index in 0..KEYS {
            let found = cluster.get(node, &key(index), "");
            assert!(found.as_ref() == model.get(&key(index)), "{context}: {} of {node}", key(index));
        }
    }
}

/// A cluster of so many nodes, each on a directory of what there was at that time.
fn restored(repository: &Path, directory: &Directory, at_ms: u64, count: usize) -> Cluster {
    let data = |node: usize| directory.path().join(format!("{at_ms}-{node}-of-{count}"));
    for node in 0..count {
        restore(repository, &data(node), &["--at", &at_ms.to_string()]).expect_success();
    }
    if count == 1 {
        return Cluster { nodes: vec![Launch::new().data(&data(0)).start()] };
    }
    Cluster::launch(launches_at(count, |launch, node| launch.data(&data(node))))
}

#[test]
fn what_a_cluster_had_at_a_time_comes_back_on_any_number_of_nodes() {
    let (mut cluster, directory) = (keeping(3), Directory::new());
    let repository = directory.path().join("backups");
    let (mut random, mut model, mut noted) = (Random::new(11), Model::new(), Vec::new());
    let url = cluster.nodes[0].url();
    change(&cluster, &[0, 1, 2], &mut random, &mut model);
    let first = log(&repository, &url, &[]).expect_success();
    assert_eq!(first.stderr.matches("no backup has this log of http://").count(), 3, "{first:?}");
    created(&repository, &url);
    for round in 0..4 {
        change(&cluster, &[0, 1, 2], &mut random, &mut model);
        noted.push((note_time(), model.clone()));
        match round {
            0 => drop(log(&repository, &cluster.nodes[1].url(), &[]).expect_success()),
            1 => drop(created(&repository, &url)),
            _ => {}
        }
    }
    let whole = log(&repository, &url, &[]).expect_success();
    assert_eq!(whole.stderr, "");
    // Without one of three, every write that a majority acknowledged is there.
    let gone = cluster.nodes[2].url();
    cluster.nodes[2].kill();
    change(&cluster, &[0, 1], &mut random, &mut model);
    noted.push((note_time(), model.clone()));
    thread::sleep(Duration::from_millis(5));
    let without = log(&repository, &url, &[]).expect_success();
    assert!(without.stderr.contains(&format!("{gone} is missing: ")), "{without:?}");
    // Not every write that one node acknowledged.
    let refused = log(&repository, &url, &["--ack", "1"]).expect_failure(1, &["1 of 3 nodes is missing"]);
    assert!(refused.stderr.contains(&gone), "{refused:?}");
    cluster.nodes[1].kill();
    log(&repository, &url, &[]).expect_failure(1, &["2 of 3 nodes are missing", &gone]);
    backup("verify", &repository, &[]).expect_success();
    let listed = backup("list", &repository, &[]).expect_success();
    assert_eq!(listed.text().matches(", to any time from 2").count(), 2, "{listed:?}");
    let late = (note_time() + 1_000).to_string();
    let data = directory.path().join("late");
    let behind = format!("the log of {gone} ends at 2");
    restore(&repository, &data, &["--at", &late])
        .expect_failure(1, &["cannot be restored: expected a time from 2", &behind]);
    assert!(!data.join("CURRENT").exists());
    drop(cluster);
    for ((at_ms, model), count) in noted.iter().zip([1, 3, 1, 5, 3]) {
        let again = restored(&repository, &directory, *at_ms, count);
        expect(&again, model, &format!("{at_ms} on {count}"));
        again.put(0, &key(0), "", b"written after the restore");
        assert_eq!(again.get(count - 1, &key(0), ""), Some(b"written after the restore".to_vec()));
    }
    backup("prune", &repository, &["--keep", "1"]).expect_success();
    backup("verify", &repository, &[]).expect_success();
    restore(&repository, &data, &["--at", &noted[0].0.to_string()])
        .expect_failure(1, &["cannot be restored: expected a time from 2"]);
    let last = noted.last().expect("a time");
    expect(&restored(&repository, &directory, last.0, 1), &last.1, "pruned");
}

/// A node that was started again gives versions from ahead of the clock. Once their log was fetched, no time led to these writes.
#[test]
fn what_was_acknowledged_right_after_a_restart_is_at_the_time_that_the_log_goes_up_to() {
    let (mut cluster, directory) = (keeping(3), Directory::new());
    let repository = directory.path().join("backups");
    let (mut random, mut model) = (Random::new(13), Model::new());
    let url = cluster.nodes[1].url();
    change(&cluster, &[0, 1, 2], &mut random, &mut model);
    created(&repository, &url);
    cluster.nodes[0].restart();
    change(&cluster, &[0, 1, 2], &mut random, &mut model);
    cluster.put(0, &key(0), "", b"last");
    model.insert(key(0), b"last".to_vec());
    let fetched = log(&repository, &url, &[]).expect_success();
    assert_eq!(fetched.stderr, "");
    let (before, _) = fetched.text().split_once(';').expect("up to when");
    let up_to = before.strip_prefix("log up to ").expect("up to when").to_owned();
    let listed = backup("list", &repository, &[]).expect_success();
    assert!(listed.text().contains(&format!(" to {up_to}")), "{listed:?}");
    let data = directory.path().join("data");
    restore(&repository, &data, &["--at", &up_to]).expect_success();
    let again = Cluster { nodes: vec![Launch::new().data(&data).start()] };
    expect(&again, &model, &up_to);
}

#[test]
fn a_gap_in_the_log_of_two_nodes_is_refused_by_name() {
    let (mut cluster, directory) = (keeping(3), Directory::new());
    let repository = directory.path().join("backups");
    let (mut random, mut model) = (Random::new(12), Model::new());
    let url = cluster.nodes[0].url();
    created(&repository, &url);
    change(&cluster, &[0, 1, 2], &mut random, &mut model);
    let (before_ms, before) = (note_time(), model.clone());
    log(&repository, &url, &[]).expect_success();
    // Two nodes run without it for a while.
    for node in [1, 2] {
        cluster.nodes[node].stop();
        cluster.nodes[node].relaunch(|launch| launch.env("LADOGA_KEEP_LOG", "never"));
        cluster.nodes[node].start_again();
    }
    wait_until("nodes that are whole", || {
        (0..3).all(|node| cluster.report(node)["replica_state"]["complete"] == true)
    });
    change(&cluster, &[0, 1, 2], &mut random, &mut model);
    let refused = log(&repository, &url, &[]).expect_failure(1, &["2 of 3 nodes are missing"]);
    assert_eq!(refused.stderr.matches("keeps no log").count(), 2, "{refused:?}");
    for node in [1, 2] {
        cluster.nodes[node].stop();
        cluster.nodes[node].relaunch(|launch| launch.env("LADOGA_KEEP_LOG", "1h"));
        cluster.nodes[node].start_again();
    }
    change(&cluster, &[0, 1, 2], &mut random, &mut model);
    let (after_ms, gap) = (note_time(), log(&repository, &url, &[]));
    let gap = gap.expect_failure(1, &["ladoga backup create"]);
    for node in [1, 2] {
        let of = format!("the log of {} does not go on", cluster.nodes[node].url());
        assert!(gap.stderr.contains(&of), "{gap:?}");
    }
    let data = directory.path().join("data");
    let ends = format!("the log of {} ends at 2", cluster.nodes[1].url());
    restore(&repository, &data, &["--at", &after_ms.to_string()])
        .expect_failure(1, &["cannot be restored: expected a time from 2", &ends]);
    // What was there before is as good as it was, and the next backup begins anew.
    expect(&restored(&repository, &directory, before_ms, 1), &before, "before the gap");
    wait_until("a backup with all nodes", || create(&repository, &url).stderr.is_empty());
    change(&cluster, &[0, 1, 2], &mut random, &mut model);
    // Nodes that were started again give versions from a few seconds ahead: wait until all of what was written is over.
    wait_until("a log that goes on from there", || {
        let listed = backup("list", &repository, &[]).expect_success();
        log(&repository, &url, &[]).expect_success();
        listed.text().lines().last().is_some_and(|line| line.contains("to any time"))
    });
}
