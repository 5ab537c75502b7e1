//! Pulls of everything that break off.

use bytes::Bytes;
use ladoga_cluster::{KeyVersion, Refusal};
use ladoga_model::{Cell, Value};
use ladoga_node::peers::wire::{Answer, Request};

use crate::cluster::with_a_new_disk;
use crate::peer::{Deadline, Peer};
use crate::pulls::{STAMP, shown_with};

fn wait_for_comparisons(peer: &Peer, more: usize) {
    let (wanted, began) = (peer.comparisons() + more, Deadline::begins());
    while peer.comparisons() < wanted {
        assert!(!began.is_over(), "it is not asked");
        std::thread::yield_now();
    }
}

const fn compares(request: &Request) -> bool {
    matches!(request, Request::Groups(_) | Request::List { .. })
}

/// With 1,000,000,000 keys, hours of a rebuild began anew whenever a peer was restarted, and all that others had told of was asked again.
#[test]
fn a_rebuild_goes_on_with_the_page_at_which_it_broke_off() {
    let value = Value::Inline(Bytes::from_static(b"value"));
    let page = |key: &'static str, is_last: bool| {
        let key = Bytes::from_static(key.as_bytes());
        let mark = Cell { stamp: STAMP, value: Some(value.clone()) }.mark();
        let next = (!is_last).then(|| key.clone());
        Answer::List { entries: vec![KeyVersion { key, mark }], next }
    };
    let cluster = with_a_new_disk(2);
    let [source, other] = &cluster.peers[..] else { panic!("two peers") };
    wait_for_comparisons(source, 1);
    source.is_mute(true);
    let mut asked_behind = Vec::new();
    while asked_behind.len() < 4 {
        let (number, answer) = source.asked(|request| {
            let Request::List { after, .. } = request else {
                assert!(asked_behind.is_empty() || !compares(request), "it begins anew");
                return shown_with(request, 1, Some(&value));
            };
            asked_behind.push(after.clone());
            Some(match asked_behind.len() {
                1 => page("key0", false),
                2 => page("key1", false),
                3 => Answer::Refused(Refusal::Rebuilding),
                _ => page("key2", true),
            })
        });
        source.answer(number, &answer);
    }
    assert_eq!(asked_behind, ["", "key0", "key1", "key1"]);
    let (number, answer) = source.asked(|request| shown_with(request, 1, Some(&value)));
    source.answer(number, &answer);
    // The other one refuses.
    wait_for_comparisons(other, 3);
    assert!(
        source.asked_soon(|request| compares(request).then_some(())).is_none(),
        "it has told of everything"
    );
}
