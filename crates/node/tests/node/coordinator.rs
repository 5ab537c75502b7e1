use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{Had, RESTAMPS_MAX, ReadAnswer, Refusal, SentCell};
use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use ladoga_model::{Cell, Durability, Stamp, Value, Version};
use ladoga_node::peers::PeerLimits;
use ladoga_node::peers::wire::{Answer, Origin, Request};

use crate::cluster::{PATIENCE_MS, with_engine, with_engine_by};
use crate::peer::{Deadline, Peer};

pub(crate) fn version(timestamp: u64) -> Version {
    Version { timestamp, node: 0 }
}

pub(crate) fn found(value: Option<(&'static str, u64)>) -> Answer {
    let cell = value.map(|(value, timestamp)| {
        let value = Some(Value::Inline(Bytes::from_static(value.as_bytes())));
        SentCell::Whole(Cell { stamp: Stamp::new(version(timestamp)), value })
    });
    Answer::Read(ReadAnswer { cell, is_whole: true })
}

pub(crate) fn read(request: &Request) -> Option<()> {
    matches!(request, Request::Read { .. }).then_some(())
}

pub(crate) fn repair_with(timestamp: u64) -> impl Fn(&Request) -> Option<()> {
    move |request| {
        let is_it = matches!(request, Request::Write { stamp, origin: Origin::Repair, .. }
            if stamp.version == version(timestamp));
        is_it.then_some(())
    }
}

/// The answer to the repair of the older version counted for the newer one: the read was decided, and the value there was
/// on one node of three.
#[test]
fn a_replica_that_took_an_older_version_has_not_taken_the_newest() {
    let cluster = with_engine(3, &PeerLimits::default());
    let key = cluster.foreign_key();
    let mut client = cluster.connect();
    client.send(format!("GET /v0/entity?id={key}&replicas=2/3 HTTP/1.1\r\nhost: h\r\n\r\n"));
    let [older, lacks, newest] = &cluster.peers[..] else { panic!("three peers") };
    let (number, ()) = older.asked(read);
    older.answer(number, &found(Some(("older", 1))));
    let (number, ()) = lacks.asked(read);
    lacks.answer(number, &found(None));
    let (older_repair, ()) = lacks.asked(repair_with(1));
    let (number, ()) = newest.asked(read);
    newest.answer(number, &found(Some(("newest", 2))));
    let (newest_repair, ()) = lacks.asked(repair_with(2));
    lacks.answer(older_repair, &Answer::Done);
    lacks.answer(newest_repair, &Answer::Refused(Refusal::NoRoom));
    let (number, ()) = older.asked(repair_with(2));
    older.answer(number, &Answer::Refused(Refusal::NoRoom));
    let answer = client.answer();
    assert_eq!(answer.status, 504, "one node of three has it: {}", answer.text());
}

/// Each replica drops deletions when it compacts. While one still had it and the others did not, each read of the key was `504`: the
/// others do not take it again.
#[test]
fn a_deletion_that_others_have_dropped_is_one() {
    let cluster = with_engine(3, &PeerLimits::default());
    let key = cluster.foreign_key();
    let deletion = SentCell::Whole(Cell { stamp: Stamp::new(version(1)), value: None });
    let deleted = Answer::Read(ReadAnswer { cell: Some(deletion), is_whole: true });
    let expired = Stamp { expires_at_ms: 1, ..Stamp::new(version(1)) };
    let value = Some(Value::Inline(Bytes::from_static(b"value")));
    let expired = SentCell::Whole(Cell { stamp: expired, value });
    let expired = Answer::Read(ReadAnswer { cell: Some(expired), is_whole: true });
    // A value is not dropped for any other reason, so that nobody knows what became of it.
    for (held, expected) in [(deleted, 404), (expired, 404), (found(Some(("value", 1))), 504)] {
        let mut client = cluster.connect();
        client.send(format!("GET /v0/entity?id={key}&replicas=2/3 HTTP/1.1\r\nhost: h\r\n\r\n"));
        for (place, peer) in cluster.peers.iter().enumerate() {
            let (number, ()) = peer.asked(read);
            let nothing = found(None);
            peer.answer(number, if place == 1 { &held } else { &nothing });
        }
        for place in [0, 2] {
            let (number, ()) = cluster.peers[place].asked(repair_with(1));
            cluster.peers[place].answer(number, &Answer::Refused(Refusal::TooOld { write_floor: 5 }));
        }
        let answer = client.answer();
        assert_eq!(answer.status, expected, "{}", answer.text());
    }
}

/// The place on the peer stayed taken for as long as the connection lasted.
#[test]
fn a_large_value_whose_end_finds_the_queue_full_is_given_up_on_the_peer() {
    const STREAM: u32 = 7;
    const BYTES: usize = 300 << 10;
    const QUEUE: usize = 8;
    let limits = PeerLimits { peer_requests_max: QUEUE, ..PeerLimits::default() };
    let cluster = with_engine(1, &limits);
    let peer = &cluster.peers[0];
    let mut client = cluster.connect();
    let head = format!(
        "PUT /v0/entity?id=large&replicas=1/2 HTTP/1.1\r\nhost: h\r\ncontent-length: {BYTES}\r\n\r\n"
    );
    client.send([head.as_bytes(), &vec![b'v'; BYTES]].concat());
    let (number, ()) = peer.asked(|request| matches!(request, Request::Upload).then_some(()));
    peer.answer(number, &Answer::Opened(STREAM));
    let mut bytes = 0;
    let last_push = loop {
        let (number, length) = peer.asked(|request| match request {
            Request::Push { stream: STREAM, bytes } => Some(bytes.len()),
            _ => None,
        });
        bytes += length;
        if bytes == BYTES {
            break number;
        }
        peer.answer(number, &Answer::Done);
    };
    // Reads that this node answers by itself, and that wait for the peer all the same.
    peer.is_mute(true);
    let mut reader = cluster.connect();
    for _ in 0..8 * QUEUE {
        assert_eq!(reader.get("/v0/entity?id=none&replicas=1/2").status, 404);
    }
    // One more takes its place: the coordinator looks for a newer version.
    peer.answer(last_push, &Answer::Done);
    assert_eq!(client.answer().status, 201);
    // All that the peer was asked until then, answered now, and one more.
    peer.is_mute(false);
    let is_close = |request: &Request| matches!(request, Request::Close { stream: STREAM });
    let mut is_closed = false;
    let key_of = |request: &Request| match request {
        Request::Read { key, .. } => Some(key.clone()),
        _ => None,
    };
    loop {
        for (number, request) in peer.all_until(|request| is_close(request) || key_of(request).is_some()) {
            is_closed |= is_close(&request);
            if key_of(&request).is_some_and(|key| key == "after") {
                assert!(is_closed, "the place on the peer is taken");
                return;
            }
            peer.answer(number, &found(None));
        }
        assert_eq!(reader.get("/v0/entity?id=after&replicas=1/2").status, 404);
    }
}

/// A clock that can be set ahead, and that knows how often it was asked.
struct Ahead {
    clock: RealClock,
    by_ms: AtomicU64,
    asked: AtomicU64,
}

impl Clock for Ahead {
    fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.clock.monotonic_ns() + self.by_ms.load(Ordering::SeqCst) * 1_000_000
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

/// After the process or the machine had been suspended, everything that peers had sent meanwhile was still unread, and they
/// were taken for silent.
#[test]
fn a_node_that_was_held_up_holds_that_against_nobody() {
    const LOOKS: u64 = 20;
    let clock = Ahead { clock: RealClock::new(), by_ms: AtomicU64::new(0), asked: AtomicU64::new(0) };
    let clock = Arc::new(clock);
    let cluster = with_engine_by(Arc::clone(&clock) as Arc<dyn Clock>, 1, &PeerLimits::default());
    let key = cluster.foreign_key();
    let mut client = cluster.connect();
    client.send(format!("GET /v0/entity?id={key}&replicas=1/1 HTTP/1.1\r\nhost: h\r\n\r\n"));
    let (number, ()) = cluster.peers[0].asked(read);
    clock.by_ms.store(10 * PATIENCE_MS, Ordering::SeqCst);
    let before = clock.asked.load(Ordering::SeqCst);
    while clock.asked.load(Ordering::SeqCst) < before + LOOKS {
        std::thread::yield_now();
    }
    cluster.peers[0].answer(number, &found(Some(("value", 1))));
    let answer = client.answer();
    assert_eq!((answer.status, answer.text()), (200, "value"));
}

#[test]
fn what_a_client_asks_for_is_asked_of_every_replica() {
    let cluster = with_engine(2, &PeerLimits::default());
    let mut client = cluster.connect();
    let cases = [
        ("", None),
        ("&fsync=always", Some(Durability::Always)),
        ("&fsync=everysec", Some(Durability::EverySecond)),
        ("&fsync=never", Some(Durability::Never)),
    ];
    let nothing = found(None);
    for (number, (asks, expected)) in cases.into_iter().enumerate() {
        client.send_put(&format!("key&replicas=3/3{asks}"), b"value");
        for peer in &cluster.peers {
            let (number, found) = peer.asked(|request| match request {
                Request::Write { durability, origin: Origin::Client, .. } => Some(*durability),
                _ => None,
            });
            assert_eq!(found, expected, "{asks}");
            peer.answer(number, &Answer::Done);
        }
        assert_eq!(client.answer().status, 201, "{asks}");
        client.send(format!(
            "POST /v0/entity?id=number{number}&increment=1&replicas=3/3{asks} HTTP/1.1\r\nhost: h\r\n\r\n"
        ));
        for peer in &cluster.peers {
            let (number, found) = peer.asked(|request| match request {
                Request::Prepare { durability, .. } => Some(*durability),
                _ => None,
            });
            assert_eq!(found, expected, "{asks}");
            peer.answer(number, &nothing);
        }
        for peer in &cluster.peers {
            let (number, found) = peer.asked(|request| match request {
                Request::Accept { durability, .. } => Some(*durability),
                _ => None,
            });
            assert_eq!(found, expected, "{asks}");
            peer.answer(number, &Answer::Done);
        }
        let answer = client.answer();
        assert_eq!((answer.status, answer.text()), (200, "1"), "{asks}");
    }
}

/// From now on the peer has another disk, as the node knows.
fn lose_disk(peer: &Peer) {
    let (before, began) = (peer.statements(), Deadline::begins());
    peer.has_another_disk();
    // The first may have been answered before; the node asks for the next when it has taken the last.
    while peer.statements() < before + 3 {
        assert!(!began.is_over(), "no statements any more");
        std::thread::yield_now();
    }
}

/// It was answered 504, although as many as it needs have what they had.
#[test]
fn a_read_during_which_a_replica_lost_its_disk_asks_again() {
    let cluster = with_engine(3, &PeerLimits::default());
    let key = cluster.foreign_key();
    let mut client = cluster.connect();
    client.send(format!("GET /v0/entity?id={key}&replicas=2/3 HTTP/1.1\r\nhost: h\r\n\r\n"));
    let asked: Vec<u32> = cluster.peers.iter().map(|peer| peer.asked(read).0).collect();
    lose_disk(&cluster.peers[2]);
    let value = found(Some(("value", 1)));
    for (place, number) in [(2, asked[2]), (0, asked[0])] {
        cluster.peers[place].answer(number, &value);
    }
    for peer in &cluster.peers[..2] {
        let (number, ()) = peer.asked(read);
        peer.answer(number, &value);
    }
    let answer = client.answer();
    assert_eq!((answer.status, answer.text()), (200, "value"));
}

/// Nothing had been written by then, and it was 504.
#[test]
fn a_conditional_write_during_which_a_replica_lost_its_disk_asks_for_promises_again() {
    let cluster = with_engine(3, &PeerLimits::default());
    let key = cluster.foreign_key();
    let mut client = cluster.connect();
    client.send(format!(
        "PUT /v0/entity?id={key}&replicas=2/3 HTTP/1.1\r\nhost: h\r\nif-none-match: *\r\ncontent-length: 5\r\n\r\nvalue"
    ));
    let prepare = |request: &Request| matches!(request, Request::Prepare { .. }).then_some(());
    let asked: Vec<u32> = cluster.peers.iter().map(|peer| peer.asked(prepare).0).collect();
    lose_disk(&cluster.peers[2]);
    for place in [2, 0] {
        cluster.peers[place].answer(asked[place], &found(None));
    }
    for peer in &cluster.peers[..2] {
        let (number, ()) = peer.asked(prepare);
        peer.answer(number, &found(None));
    }
    for peer in &cluster.peers[..2] {
        let (number, ()) = peer.asked(|request| matches!(request, Request::Accept { .. }).then_some(()));
        peer.answer(number, &Answer::Done);
    }
    assert_eq!(client.answer().status, 201);
}

/// It was waited for the one that says nothing until the time of the read was over, so that nobody ended the promise: each read of the
/// key took all of its time, twice, and was 504.
#[test]
fn a_read_that_a_promise_is_in_the_way_of_ends_it_beside_a_replica_that_says_nothing() {
    let cluster = with_engine(3, &PeerLimits::default());
    let key = cluster.foreign_key();
    let mut client = cluster.connect();
    client.send(format!("GET /v0/entity?id={key}&replicas=2/3 HTTP/1.1\r\nhost: h\r\n\r\n"));
    let [newest, has_promised, silent] = &cluster.peers[..] else { panic!("three peers") };
    let (number, ()) = newest.asked(read);
    newest.answer(number, &found(Some(("value", 1))));
    let (number, ()) = has_promised.asked(read);
    has_promised.answer(number, &found(None));
    silent.asked(read);
    let (number, ()) = has_promised.asked(repair_with(1));
    has_promised.answer(number, &Answer::Fenced(version(2)));
    has_promised.asked(|request| matches!(request, Request::Prepare { .. }).then_some(()));
}

/// It was answered 503, as if nothing had been written: those of its cells that were not in the way of anything newer may have been read.
#[test]
fn a_write_below_a_quorum_that_others_overtake_each_time_may_have_happened() {
    let cluster = with_engine(3, &PeerLimits::default());
    let key = cluster.foreign_key();
    let mut client = cluster.connect();
    client.send_put(&format!("{key}&replicas=1/3"), b"value");
    let peer = &cluster.peers[0];
    for _ in 0..RESTAMPS_MAX {
        let (number, written) = peer.asked(|request| match request {
            Request::Write { stamp, origin: Origin::Client, .. } => Some(stamp.version),
            _ => None,
        });
        let newest = Version { timestamp: written.timestamp + 1, node: 0 };
        peer.answer(number, &Answer::Superseded { newest, had: Had::Never });
    }
    let answer = client.answer();
    assert!(answer.status == 504 && answer.text().contains("may have happened"), "{answer:?}");
}

/// It was asked for no statement any more, as long as the question whether it keeps deletions was open.
#[test]
fn a_peer_whose_disk_hangs_is_heard_while_changes_are_followed() {
    let cluster = with_engine(1, &PeerLimits::default());
    let mut follower = cluster.connect();
    follower.send("GET /v0/changes HTTP/1.1\r\nhost: h\r\nprefer: wait=60\r\n\r\n");
    let peer = &cluster.peers[0];
    peer.asked(|request| matches!(request, Request::KeepDeletions).then_some(()));
    let (before, began) = (peer.statements(), Deadline::begins());
    while peer.statements() < before + 3 {
        assert!(!began.is_over(), "no statements any more");
        std::thread::yield_now();
    }
}
