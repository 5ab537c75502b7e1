//! Clusters whose list of nodes is changed: all nodes are stopped, and those of the new list are started with it.

use std::fs;

use crate::cluster::{Cluster, launches, target};
use crate::directories::{Known, quick, refused, wait_until_all_have_spoken, write_before, write_meanwhile};
use crate::support::{Ladoga, Launch, Node, wait_until};

/// The list of nodes has them by their URLs.
fn in_order(mut cluster: Cluster) -> Cluster {
    cluster.nodes.sort_by_key(Node::url);
    cluster
}

/// Gives nodes that are stopped a list of themselves.
fn list_anew(nodes: &mut [Node]) {
    let urls = nodes.iter().map(Node::url).collect::<Vec<_>>().join(",");
    for node in nodes {
        // One that is new has none.
        let _ = fs::remove_file(node.data().join("nodes"));
        node.relaunch(|launch| launch.flag("--cluster", &urls));
    }
}

fn start(nodes: &mut [Node]) {
    nodes.iter_mut().for_each(Node::spawn);
    nodes.iter_mut().for_each(Node::wait_until_it_serves);
}

fn is_whole(cluster: &Cluster, node: usize) -> bool {
    cluster.report(node)["replica_state"]["complete"] == true
}

/// What a node remembered of the one that left was held against the one that had its place from then on: it took itself for one
/// that had lost its data.
#[test]
fn a_node_that_leaves_the_list_makes_no_other_doubt_whatever_its_place_was() {
    for place in 0..3 {
        let mut cluster = in_order(Cluster::launch(quick(launches(3))));
        let known = write_before(&cluster, "3/3");
        wait_until_all_have_spoken(&cluster);
        cluster.nodes.iter_mut().for_each(Node::stop);
        drop(cluster.nodes.remove(place));
        list_anew(&mut cluster.nodes);
        for alone in 0..2 {
            start(&mut cluster.nodes[alone..=alone]);
            assert_eq!(refused(&cluster, &known, &[alone], "1/2"), 0, "{alone} without the one at {place}");
            cluster.nodes[alone].stop();
        }
        start(&mut cluster.nodes);
        cluster.wait_until_all_answer();
        assert_eq!(refused(&cluster, &known, &[0, 1], "2/2"), 0);
        for node in 0..2 {
            assert!(is_whole(&cluster, node));
            let log = cluster.nodes[node].log();
            assert!(!log.contains("lacks writes") && !log.contains("new in the list"), "{log}");
        }
    }
}

#[test]
fn hints_stay_with_their_node_if_another_one_leaves_the_list() {
    let mut cluster = in_order(Cluster::start(3));
    cluster.nodes[2].kill();
    for n in 0..20 {
        cluster.put(0, &format!("key{n}"), "2/3", b"value");
    }
    let url = cluster.nodes[2].url();
    let waiting = |cluster: &Cluster| cluster.nodes[0].metrics().sum("ladoga_hints_pending", &[&url]);
    wait_until("the hints", || waiting(&cluster) >= Some(20.0));
    cluster.nodes[0].stop();
    cluster.nodes[1].kill();
    drop(cluster.nodes.remove(1));
    list_anew(&mut cluster.nodes);
    start(&mut cluster.nodes[..1]);
    wait_until("the hints again", || waiting(&cluster) >= Some(20.0));
    start(&mut cluster.nodes[1..]);
    wait_until("no hints", || waiting(&cluster) == Some(0.0));
    assert_eq!(cluster.connect(1).request("GET", "/v0/entities?start=key", None).records().len(), 20);
}

/// By its own word, it has all that it acknowledged; and the others no longer know what they knew of it.
#[test]
fn a_node_that_comes_back_into_the_list_does_not_vouch_for_what_it_missed() {
    let mut cluster = in_order(Cluster::launch(quick(launches(3))));
    let mut known = write_before(&cluster, "3/3");
    wait_until_all_have_spoken(&cluster);
    cluster.nodes.iter_mut().for_each(Node::stop);
    let away = cluster.nodes.remove(2);
    list_anew(&mut cluster.nodes);
    start(&mut cluster.nodes);
    cluster.wait_until_all_answer();
    // Only one of the two gets it.
    cluster.nodes[1].kill();
    write_meanwhile(&cluster, &mut known, "1/2", 0);
    cluster.nodes[0].stop();
    cluster.nodes.push(away);
    list_anew(&mut cluster.nodes);
    for node in &mut cluster.nodes {
        let _ = fs::remove_dir_all(node.data().join("hints"));
    }
    // Neither the one that came back nor the one that was down has it.
    start(&mut cluster.nodes[1..]);
    assert_eq!(refused(&cluster, &known, &[1, 2], "2/3"), known.len());
    start(&mut cluster.nodes[..1]);
    refused(&cluster, &known, &[0, 1, 2], "2/3");
    wait_until("nodes that have met", || cluster.nodes[2].log().contains("lacks writes"));
    assert!(is_whole(&cluster, 0) && is_whole(&cluster, 1) && !is_whole(&cluster, 2));
    // What was deleted meanwhile may be in its directory, also once it is started again.
    for _ in 0..2 {
        assert_eq!(cluster.report(2)["replica_state"]["outdated"], true);
        wait_until("a word about that", || {
            cluster.nodes[2].log().contains("start it with an empty directory")
        });
        let status = Ladoga::new(["status", "--url", &cluster.nodes[2].url()]).run();
        let status = status.text().to_owned();
        assert!(status.contains("start it with an empty directory"), "{status}");
        cluster.nodes[2].stop();
        start(&mut cluster.nodes[2..]);
    }
    cluster.nodes[2].stop();
    fs::remove_dir_all(cluster.nodes[2].data()).expect("its directory");
    start(&mut cluster.nodes[2..]);
    wait_until("a node that has met the others", || {
        cluster.report(2)["replica_state"]["may_coordinate"] == true
    });
    assert_eq!(cluster.report(2)["replica_state"]["outdated"], false);
    wait_until("a node that has copied the data of the others", || is_whole(&cluster, 2));
}

/// The list was the same for them, so that they took their own word for what had been deleted meanwhile.
#[test]
fn what_the_others_have_is_not_used_after_a_node_ran_on_its_own() {
    let mut cluster = in_order(Cluster::launch(quick(launches(3))));
    let mut known = write_before(&cluster, "3/3");
    wait_until_all_have_spoken(&cluster);
    // What the others have and it lacks would be used, if anything was.
    cluster.nodes[2].stop();
    cluster.put(0, "theirs", "2/3", b"value");
    for node in &mut cluster.nodes[..2] {
        node.stop();
        let _ = fs::remove_dir_all(node.data().join("hints"));
    }
    fs::remove_file(cluster.nodes[2].data().join("nodes")).expect("its list");
    cluster.nodes[2].relaunch(|launch| launch.without("--cluster"));
    for _ in 0..2 {
        start(&mut cluster.nodes[2..]);
        write_meanwhile(&cluster, &mut known, "", 2);
        cluster.nodes[2].stop();
    }
    list_anew(&mut cluster.nodes);
    start(&mut cluster.nodes);
    let is_outdated =
        |cluster: &Cluster, node: usize| cluster.report(node)["replica_state"]["outdated"] == true;
    wait_until("nodes that have met", || is_outdated(&cluster, 0) && is_outdated(&cluster, 1));
    assert!(is_whole(&cluster, 2));
    refused(&cluster, &known, &[0, 1, 2], "2/3");
    let failures = |cluster: &Cluster| cluster.report(2)["repair"]["failures"].as_u64();
    wait_until("old nodes that refuse", || failures(&cluster) > Some(0));
    let theirs = || cluster.connect(2).request("GET", "/v0/entities?start=theirs", None).records();
    assert!(theirs().is_empty());
    for node in &mut cluster.nodes[..2] {
        node.stop();
        fs::remove_dir_all(node.data()).expect("its directory");
    }
    start(&mut cluster.nodes[..2]);
    wait_until("nodes that have copied everything", || (0..2).all(|node| is_whole(&cluster, node)));
    wait_until("all answers", || refused(&cluster, &known, &[0, 1, 2], "2/3") == 0);
}

/// A cluster of three that was made one of five. One of the three nodes missed what was acknowledged, and nobody has hints for it.
fn grown() -> (Cluster, Known) {
    let mut launches = quick(launches(5));
    let added = launches.split_off(3);
    let urls = launches.iter().map(Launch::url).collect::<Vec<_>>().join(",");
    let old = launches.into_iter().map(|launch| launch.flag("--cluster", &urls)).collect();
    let mut cluster = Cluster::launch(old);
    let mut known = write_before(&cluster, "3/3");
    wait_until_all_have_spoken(&cluster);
    cluster.nodes[2].kill();
    write_meanwhile(&cluster, &mut known, "2/3", 0);
    for node in &mut cluster.nodes[..2] {
        node.stop();
        let _ = fs::remove_dir_all(node.data().join("hints"));
    }
    for launch in added {
        let mut node = launch.spawn();
        node.kill();
        let _ = fs::remove_dir_all(node.data());
        cluster.nodes.push(node);
    }
    list_anew(&mut cluster.nodes);
    (cluster, known)
}

/// Creates what is there, through these nodes, which must not work.
fn create_in_vain(cluster: &Cluster, known: &Known, nodes: &[usize]) {
    for (n, key) in known.iter().filter_map(|(key, value)| value.as_ref().map(|_| key)).enumerate() {
        let mut connection = cluster.connect(nodes[n % nodes.len()]);
        let put = format!(
            "PUT {} HTTP/1.1\r\nhost: x\r\nif-none-match: *\r\ncontent-length: 1\r\n\r\nx",
            target(key, "")
        );
        connection.send(put);
        let response = connection.response();
        assert!(matches!(response.status, 412 | 503 | 504), "{key}: {response:?}");
    }
}

/// New nodes answered for what they had not copied, with one old node that had missed it.
#[test]
fn nodes_that_are_new_in_the_list_do_not_vouch_before_they_have_copied_everything() {
    let (mut cluster, known) = grown();
    start(&mut cluster.nodes[2..]);
    assert_eq!(refused(&cluster, &known, &[2, 3, 4], "3/5"), known.len());
    create_in_vain(&cluster, &known, &[2, 3, 4]);
    // Nor for what only one of them is to have, whichever is asked.
    let ask = |node: usize, n: u32| {
        cluster.connect(node).request("GET", &target(&format!("lone{n}"), "1/1"), None).status
    };
    assert!((0..40).all(|n| ask(3, n) == ask(4, n)), "each takes its own word");
    start(&mut cluster.nodes[..2]);
    refused(&cluster, &known, &[0, 1, 2, 3, 4], "3/5");
    create_in_vain(&cluster, &known, &[0, 3]);
    let log = cluster.nodes[0].log();
    let new = [&cluster.nodes[3], &cluster.nodes[4]].map(Node::url);
    assert!(log.contains("new in the list") && new.iter().all(|url| log.contains(url)), "{log}");
    assert!([0, 1, 2].into_iter().all(|node| is_whole(&cluster, node)));
    wait_until("new nodes that have copied everything", || (0..5).all(|node| is_whole(&cluster, node)));
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    wait_until("all answers", || refused(&cluster, &known, &[2, 3, 4], "3/5") == 0);
    create_in_vain(&cluster, &known, &[2, 3, 4]);
}
