use ladoga_node::peers::PeerLimits;
use ladoga_node::peers::wire::{Answer, Request};

use crate::cluster::with_engine;
use crate::peer::Deadline;

/// Longer than the disk has room for.
const WRITES_MAX: u64 = 1_000;

/// Bytes that do not compress.
fn noise(seed: u64) -> String {
    let mut state = seed | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    });
    words.take(600).collect()
}

fn own_missed(report: &serde_json::Value) -> u64 {
    let nodes = report["nodes"].as_array().expect("nodes");
    let own = nodes.iter().find(|node| node["state"] == "self").expect("the node itself");
    own["missed_writes"].as_u64().expect("a number")
}

/// What the node that took a write could not store itself was neither counted nor copied before the next round of anti-entropy,
/// more than a minute later.
#[test]
fn what_the_node_that_took_it_could_not_store_is_counted_and_copied_once_there_is_room() {
    let cluster = with_engine(2, &PeerLimits::default());
    let mut client = cluster.connect();
    cluster.disk.set_capacity(0);
    let report = |client: &mut crate::client::Client| -> serde_json::Value {
        serde_json::from_slice(&client.get("/v0/cluster").body).expect("JSON")
    };
    let mut has_missed = false;
    for number in 0..WRITES_MAX {
        let value = noise(number + 1);
        let length = value.len();
        client.send(format!(
            "PUT /v0/entity?id=key{number}&replicas=2/3 HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n{value}"
        ));
        for peer in &cluster.peers {
            let (number, ()) = peer.asked(|request| matches!(request, Request::Write { .. }).then_some(()));
            peer.answer(number, &Answer::Done);
        }
        assert_eq!(client.answer().status, 201, "two of three have it");
        has_missed = own_missed(&report(&mut client)) > 0;
        if has_missed {
            break;
        }
    }
    assert!(has_missed, "the disk never ends");
    assert!(client.get("/metrics").text().lines().any(|line| {
        line.starts_with("ladoga_peer_missed_writes_total{peer=\"http://127.0.0.1:1\"}")
            && !line.ends_with(" 0")
    }));
    assert!(cluster.peers.iter().all(|peer| peer.comparisons() == 0), "nothing can be stored yet");
    cluster.disk.set_capacity(None);
    let began = Deadline::begins();
    while cluster.peers.iter().any(|peer| peer.comparisons() == 0) {
        assert!(!began.is_over(), "nobody was compared: {}", report(&mut client));
        std::thread::yield_now();
    }
}
