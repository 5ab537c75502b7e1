//! Which nodes a range over all nodes counts on, and how long it waits for them.

use ladoga_cluster::Refusal;
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::wire::{Answer, Request};

use crate::client::Client;
use crate::cluster::{Cluster, with_time};
use crate::peer::Peer;
use crate::ranges::{answer, is_next_of};

/// Enough for what is not to time out.
const LONG_MS: u64 = 60_000;
const SHORT_MS: u64 = 1_000;
/// The streams of a peer.
const FIRST: u32 = 1;
const SECOND: u32 = 2;

/// Of the node and two peers, which two nodes make complete.
fn begin(cluster: &Cluster<Embedded>) -> Client {
    let mut client = cluster.connect();
    client.send("GET /v0/entities?start=k&scope=cluster HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    client
}

fn peers(cluster: &Cluster<Embedded>) -> [&Peer; 2] {
    [&cluster.peers[0], &cluster.peers[1]]
}

fn is_cells(request: &Request) -> bool {
    matches!(request, Request::OpenCells { .. })
}

/// The peer reports that it is being rebuilt, or that it is not any more, and the node has heard it.
fn rebuilds(cluster: &Cluster<Embedded>, peer: &Peer, is_rebuilding: bool) {
    peer.is_rebuilding(is_rebuilding);
    let is_heard = |node: &serde_json::Value| node["complete"] == false;
    cluster.wait_until(|report| {
        report["nodes"].as_array().expect("nodes").iter().any(is_heard) == is_rebuilding
    });
}

/// It had opened its cells before, or shown none: a key that two nodes had acknowledged was missing from a range that said that it
/// was complete.
#[test]
fn a_node_that_becomes_whole_during_a_range_does_not_count_for_it() {
    let cluster = with_time(2, LONG_MS);
    let [rebuilding, whole] = peers(&cluster);
    rebuilds(&cluster, rebuilding, true);
    let mut client = begin(&cluster);
    for peer in [rebuilding, whole] {
        answer(peer, is_cells, &Answer::Opened(FIRST));
    }
    rebuilds(&cluster, rebuilding, false);
    answer(rebuilding, is_next_of(FIRST, 0), &Answer::End);
    answer(whole, is_next_of(FIRST, 0), &Answer::Refused(Refusal::Unreadable));
    let (rest, _) = client.rest();
    let rest = String::from_utf8(rest).expect("text");
    assert!(!rest.starts_with("HTTP/1.1 200") || !rest.ends_with("0\r\n\r\n"), "{rest}");
}

#[test]
fn a_node_that_becomes_whole_before_a_range_begins_is_opened_again() {
    let cluster = with_time(2, LONG_MS);
    let [rebuilding, away] = peers(&cluster);
    rebuilds(&cluster, rebuilding, true);
    let mut client = begin(&cluster);
    let (number, ()) = rebuilding.asked(|request| is_cells(request).then_some(()));
    rebuilds(&cluster, rebuilding, false);
    rebuilding.answer(number, &Answer::Opened(FIRST));
    answer(away, is_cells, &Answer::Refused(Refusal::Unreadable));
    let mut has_closed = false;
    let mut is_again = |request: &Request| {
        has_closed |= matches!(request, Request::Close { stream: FIRST });
        assert!(!is_next_of(FIRST, 0)(request), "it is from before");
        is_cells(request).then_some(())
    };
    let (number, ()) = rebuilding.asked(&mut is_again);
    rebuilding.answer(number, &Answer::Opened(SECOND));
    assert!(has_closed);
    answer(rebuilding, is_next_of(SECOND, 0), &Answer::End);
    assert_eq!(client.answer().status, 200);
}

/// It was waited for as long as it showed that it lived.
#[test]
fn a_range_does_not_wait_for_ever_for_a_node_that_does_not_open_its_cells() {
    let cluster = with_time(2, SHORT_MS);
    let [answering, silent] = peers(&cluster);
    let mut client = begin(&cluster);
    answer(answering, is_cells, &Answer::Opened(FIRST));
    answer(answering, is_next_of(FIRST, 0), &Answer::End);
    assert_eq!(client.answer().status, 200, "two are enough");
    let mut client = begin(&cluster);
    answer(answering, is_cells, &Answer::Refused(Refusal::Unreadable));
    let refused = client.answer();
    let is_named = refused.text().contains("gave no answer within ");
    assert!(refused.status == 504 && is_named, "{refused:?}");
    // What is opened too late is closed.
    answer(silent, is_cells, &Answer::Opened(SECOND));
    silent.asked(|request| matches!(request, Request::Close { stream: SECOND }).then_some(()));
}

#[test]
fn a_range_does_not_wait_for_ever_to_hear_whether_a_node_is_whole() {
    let cluster = with_time(2, SHORT_MS);
    let [rebuilding, away] = peers(&cluster);
    rebuilds(&cluster, rebuilding, true);
    rebuilding.is_mute(true);
    let mut client = begin(&cluster);
    answer(rebuilding, is_cells, &Answer::Opened(FIRST));
    answer(away, is_cells, &Answer::Refused(Refusal::Unreadable));
    let refused = client.answer();
    assert!(refused.status == 504 && refused.text().contains("is being rebuilt"), "{refused:?}");
}
