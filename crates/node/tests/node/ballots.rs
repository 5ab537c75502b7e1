//! What a node, as the coordinator of conditional writes, asks their replicas for.

use bytes::Bytes;
use ladoga_cluster::Refusal;
use ladoga_node::peers::PeerLimits;
use ladoga_node::peers::wire::{Answer, Request};

use crate::cluster::with_engine;
use crate::coordinator::{found, read, repair_with, version};
use crate::peer::Peer;

fn prepare(request: &Request) -> Option<()> {
    matches!(request, Request::Prepare { .. }).then_some(())
}

fn accept(request: &Request) -> Option<Bytes> {
    match request {
        Request::Accept { value, .. } => value.clone(),
        _ => None,
    }
}

fn promise(peer: &Peer, value: Option<(&'static str, u64)>) {
    let (number, ()) = peer.asked(prepare);
    peer.answer(number, &found(value));
}

/// The read that was to make the newest cell known met the promise, and each such request was 504. Whether a third replica cannot be read,
/// or takes longer than a read waits beside such a promise.
#[test]
fn a_condition_that_does_not_hold_is_412_beside_the_promise_of_a_coordinator_that_is_gone() {
    for is_slow in [false, true] {
        let cluster = with_engine(3, &PeerLimits::default());
        let key = cluster.foreign_key();
        let mut client = cluster.connect();
        client.send(format!(
            "PUT /v0/entity?id={key}&replicas=2/3 HTTP/1.1\r\nhost: h\r\nif-none-match: *\r\ncontent-length: 3\r\n\r\nnew"
        ));
        let [newest, has_promised, third] = &cluster.peers[..] else { panic!("three peers") };
        promise(newest, Some(("value", 1)));
        promise(has_promised, None);
        let (number, ()) = newest.asked(read);
        newest.answer(number, &found(Some(("value", 1))));
        let (number, ()) = has_promised.asked(read);
        has_promised.answer(number, &found(None));
        let (third_read, ()) = third.asked(read);
        if !is_slow {
            third.answer(third_read, &Answer::Refused(Refusal::NoRoom));
        }
        let (number, ()) = has_promised.asked(repair_with(1));
        has_promised.answer(number, &Answer::Fenced(version(2)));

        promise(newest, Some(("value", 1)));
        promise(has_promised, None);
        if is_slow {
            third.answer(third_read, &found(Some(("value", 1))));
        }
        for peer in [newest, has_promised] {
            let (number, value) = peer.asked(accept);
            assert_eq!(value, "value");
            peer.answer(number, &Answer::Done);
        }
        promise(newest, Some(("value", 3)));
        promise(has_promised, Some(("value", 3)));
        assert_eq!(client.answer().status, 412, "{is_slow}");
    }
}
