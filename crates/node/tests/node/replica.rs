use bytes::Bytes;
use ladoga_cluster::{AsOf, Origin, SentCell};
use ladoga_model::Value;
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::PeerLimits;
use ladoga_node::peers::wire::{Answer, FRAME_BYTES_MAX, Request};

use crate::cluster::{Cluster, with_engine};
use crate::peer::Caller;
use crate::scripted::{Script, Scripted};

/// What a connection of a peer may have read from the disk at a time.
const SESSION_READ_BYTES_MAX: usize = (32 << 20) / 3;
const READS: u32 = 1_000;
/// Rates of repair: while clients are busy and the base line is unknown, and without clients.
const LOWEST: u64 = 4_000;
const HIGHEST: u64 = 40_000;

fn reads(numbers: std::ops::Range<u32>, origin: Origin) -> Vec<(u32, Request)> {
    let read = || Request::Read { key: Bytes::from_static(b"key"), digest: false, origin };
    numbers.map(|number| (number, read())).collect()
}

/// As many as there may be requests were read at once, each as long as a frame.
#[test]
fn a_peer_has_only_so_much_read_from_the_disk_at_a_time() {
    let cluster = Cluster::start(1, &PeerLimits::default(), |_| Scripted::default());
    cluster.store.insert("key", &[b'v'; 5_000]);
    let mut caller = cluster.connect_as_peer();
    let mut client = cluster.connect();
    cluster.store.tell(Script { reads_later: true, holds: true, ..Script::default() });
    caller.ask(&reads(0..READS, Origin::Client));
    // Once the event loop has answered a later request, it has handled what the peer sent; others are served meanwhile.
    for _ in 0..3 {
        assert_eq!(client.get("/v0/status").status, 200);
    }
    assert_eq!(cluster.store.reads(), SESSION_READ_BYTES_MAX / FRAME_BYTES_MAX);
    cluster.store.release();
    let mut answered: Vec<u32> = (0..READS)
        .map(|_| {
            let (number, answer) = caller.answer();
            let Answer::Read(answer) = answer else { panic!("{answer:?}") };
            let Some(SentCell::Whole(cell)) = answer.cell else { panic!("{answer:?}") };
            assert_eq!(cell.value, Some(Value::Inline(vec![b'v'; 5_000].into())));
            number
        })
        .collect();
    answered.sort_unstable();
    assert!(answered.into_iter().eq(0..READS), "each once");
}

/// Asks for something again and again, until repair may go at a rate.
fn ask_until(cluster: &Cluster<Embedded>, caller: &mut Caller, origin: Origin, rate: u64) {
    cluster.wait_until(|report| {
        caller.ask(&reads(0..100, origin));
        (0..100).for_each(|_| drop(caller.answer()));
        report["repair"]["cells_per_second_max"] == rate
    });
}

/// It was repaired as if there were no clients.
#[test]
fn a_node_that_serves_clients_of_others_alone_repairs_itself_at_their_pace() {
    let cluster = with_engine(1, &PeerLimits::default());
    cluster.wait_until(|report| report["repair"]["cells_per_second_max"] == HIGHEST);
    let mut caller = cluster.connect_as_peer();
    ask_until(&cluster, &mut caller, Origin::Client, LOWEST);
    // A peer that takes over what it lacks is none of those.
    ask_until(&cluster, &mut caller, Origin::Exchange, HIGHEST);
    // Its clients are, whatever it takes over beside them.
    let slice = AsOf { before: u64::MAX, dropped_before: 0 };
    caller.ask(&[(0, Request::List { slice, partitions: Vec::new(), after: Bytes::new() })]);
    let (_, answer) = caller.answer();
    assert!(matches!(answer, Answer::List { .. }), "{answer:?}");
    ask_until(&cluster, &mut caller, Origin::Client, LOWEST);
}
