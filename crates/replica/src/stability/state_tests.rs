use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use ladoga_cluster::NodeList;
use ladoga_env::sim::SimClock;

use super::*;

#[test]
fn a_timestamp_is_waited_for_until_it_is_reserved() {
    let placement = Arc::new(Placement::of(&NodeList::first(["http://a"]).expect("a list")));
    let stability =
        Stability::new(NodeId(0), 1, &placement, 1 << 20, Err(Incarnation::first(7)), Opening::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let mut reserve = pin!(stability.reserve(50));
        let mut look = async |before: u64| {
            stability.persisted(Durable { reserved_before: before, ..Durable::default() });
            poll_fn(|context| Poll::Ready(reserve.as_mut().poll(context))).await
        };
        assert_eq!(look(10).await, Poll::Pending);
        assert_eq!(look(50).await, Poll::Pending);
        assert_eq!(look(51).await, Poll::Ready(true));
        assert!(stability.reserve(50).await, "it is reserved already");
    });
}

/// Requests that were under way are told of a disk that was lost, not of a node that is met for the first time or is back.
#[test]
fn a_peer_with_another_directory_has_lost_its_disk() {
    let list = NodeList::first(["http://a", "http://b"]).expect("a list");
    let placement = Arc::new(Placement::of(&list));
    let own = Err(Incarnation::first(7));
    let stability = Stability::new(NodeId(0), 2, &placement, 1 << 20, own, Opening::default());
    let versions = ClusterClock::new(Arc::new(SimClock::new()), NodeId(0), 2, 100);
    let peer = NodeId(1);
    let is_lost_by = |incarnation: Incarnation, session: u64| {
        let began = stability.lost_disks.now();
        let statement = Statement { incarnation, session, ..Statement::default() };
        stability.heard(&versions, peer, statement, None).expect("a clock that is not ahead");
        stability.lost_disks.place_since(began, &[NodeId(0), peer]) == Some(1)
    };
    let before = Incarnation::first(3);
    let after = before.next(4);
    assert!(!is_lost_by(before, 1), "met for the first time");
    assert!(!is_lost_by(before, 2), "restarted");
    assert!(is_lost_by(after, 3));
    assert!(!is_lost_by(after, 3), "heard again");
}
