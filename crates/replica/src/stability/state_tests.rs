use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use ladoga_cluster::NodeList;

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
