use bytes::Bytes;
use ladoga_cluster::{Incarnation, ReadAnswer, Refusal, Statement};
use ladoga_model::{Stamp, Version};
use ladoga_node::peers::PeerLimits;
use ladoga_node::peers::wire::{Answer, Origin, Request};

use crate::cluster::{alone_of, with_a_new_disk, with_engine, with_time};
use crate::peer::Peer;

const STARTING: Answer = Answer::Refused(Refusal::Starting);

fn read(origin: Origin) -> Request {
    Request::Read { key: Bytes::from_static(b"key"), digest: false, origin }
}

fn write(timestamp: u64, origin: Origin) -> Request {
    let stamp = Stamp::new(Version { timestamp, node: 0 });
    let (key, value) = (Bytes::from_static(b"key"), Some(Bytes::new()));
    Request::Write { key, stamp, value, origin, is_again: false, durability: None }
}

/// It answered for what it has, or that it is being rebuilt, without knowing either.
#[test]
fn a_replica_that_is_starting_says_so_and_answers_once_it_knows() {
    let cluster = alone_of(2);
    let mut caller = cluster.connect_as_peer();
    let (start, end) = (Bytes::from_static(b"a"), Bytes::new());
    let cells = Request::OpenCells { start, end, is_reverse: false, has_values: true };
    let of_clients = [read(Origin::Client), write(1 << 20, Origin::Client), cells, Request::Upload];
    for (number, request) in of_clients.iter().enumerate() {
        caller.ask(&[(number as u32, request.clone())]);
        assert_eq!(caller.answer(), (number as u32, STARTING), "{request:?}");
    }
    // What there is, it gives to those who repair themselves, and takes from those who repair it.
    let nothing = |is_whole| Answer::Read(ReadAnswer { cell: None, is_whole });
    caller.ask(&[(10, read(Origin::Exchange))]);
    assert_eq!(caller.answer(), (10, nothing(false)));
    caller.ask(&[(11, write(1 << 20, Origin::Hint))]);
    assert_eq!(caller.answer(), (11, Answer::Done));
    // The only other node never knew it.
    let statement = Statement { incarnation: Incarnation::first(7), is_whole: true, ..Statement::default() };
    caller.ask(&[(12, Request::Statement(statement))]);
    assert!(matches!(caller.answer(), (12, Answer::Statement(_))));
    cluster.wait_until(|report| report["replica_state"]["complete"] == true);
    for (number, request) in of_clients.into_iter().enumerate() {
        caller.ask(&[(number as u32, request)]);
        let (_, answer) = caller.answer();
        assert!(!matches!(answer, Answer::Refused(_)), "{number}: {answer:?}");
    }
}

fn is_read(request: &Request) -> Option<()> {
    matches!(request, Request::Read { .. }).then_some(())
}

fn is_write(wanted: Origin) -> impl Fn(&Request) -> Option<()> {
    move |request| matches!(request, Request::Write { origin, .. } if *origin == wanted).then_some(())
}

fn is_cells(request: &Request) -> Option<()> {
    matches!(request, Request::OpenCells { .. }).then_some(())
}

#[test]
fn a_replica_that_is_starting_is_asked_again_until_it_answers() {
    const ASKED: usize = 5;
    let cluster = with_engine(1, &PeerLimits::default());
    let peer = &cluster.peers[0];
    let mut client = cluster.connect();
    let put = "PUT /v0/entity?id=key&replicas=2/2 HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nvalue";
    client.send(put);
    for _ in 0..ASKED {
        let (number, ()) = peer.asked(is_write(Origin::Client));
        peer.answer(number, &STARTING);
    }
    let (number, ()) = peer.asked(is_write(Origin::Client));
    peer.answer(number, &Answer::Done);
    assert_eq!(client.answer().status, 201);

    client.send("GET /v0/entity?id=none&replicas=2/2 HTTP/1.1\r\nhost: h\r\n\r\n");
    for _ in 0..ASKED {
        let (number, ()) = peer.asked(is_read);
        peer.answer(number, &STARTING);
    }
    let (number, ()) = peer.asked(is_read);
    peer.answer(number, &Answer::Read(ReadAnswer { cell: None, is_whole: true }));
    assert_eq!(client.answer().status, 404);

    client.send("GET /v0/entities?start=a&scope=cluster HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    for _ in 0..ASKED {
        let (number, ()) = peer.asked(is_cells);
        peer.answer(number, &STARTING);
    }
    let (number, ()) = peer.asked(is_cells);
    peer.answer(number, &Answer::Opened(1));
    let (number, ()) = peer.asked(|request| matches!(request, Request::Next { stream: 1, .. }).then_some(()));
    peer.answer(number, &Answer::End);
    assert_eq!(client.answer().status, 200);
}

/// A write that was acknowledged without it is not held in memory for it.
#[test]
fn a_replica_that_is_starting_and_that_nobody_waits_for_gets_a_hint() {
    let cluster = with_engine(1, &PeerLimits::default());
    let peer = &cluster.peers[0];
    let mut client = cluster.connect();
    client.send("PUT /v0/entity?id=key&replicas=1/2 HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nvalue");
    assert_eq!(client.answer().status, 201);
    let (number, ()) = peer.asked(is_write(Origin::Client));
    peer.answer(number, &STARTING);
    let (number, ()) = peer.asked(is_write(Origin::Hint));
    peer.answer(number, &Answer::Done);
}

#[test]
fn a_replica_that_is_starting_for_too_long_is_named() {
    let cluster = with_time(1, 2_000);
    let peer = &cluster.peers[0];
    let large = vec![b'v'; 300 << 10];
    let put = |body: &[u8]| {
        let head = "PUT /v0/entity?id=key&replicas=2/2 HTTP/1.1\r\nhost: h\r\ncontent-length:";
        [format!("{head} {}\r\n\r\n", body.len()).as_bytes(), body].concat()
    };
    let requests = [
        b"GET /v0/entity?id=key&replicas=2/2 HTTP/1.1\r\nhost: h\r\n\r\n".to_vec(),
        put(b"value"),
        put(&large),
        b"GET /v0/entities?start=a&scope=cluster HTTP/1.1\r\nhost: h\r\n\r\n".to_vec(),
    ];
    let (url, mut clients) = (cluster.list.iter().find(|(id, _)| *id != cluster.own), Vec::new());
    let url = url.expect("a peer").1.name.clone();
    for request in &requests {
        let mut client = cluster.connect();
        client.send(request);
        clients.push(client);
    }
    let is_of_a_client = |request: &Request| {
        let is_it = is_read(request).or(is_write(Origin::Client)(request)).or(is_cells(request));
        is_it.or(matches!(request, Request::Upload).then_some(()))
    };
    // It reports the same to every node that asks, until all have been answered.
    std::thread::scope(|scope| {
        let answers =
            scope.spawn(|| clients.iter_mut().map(crate::client::Client::answer).collect::<Vec<_>>());
        while !answers.is_finished() {
            if let Some((number, ())) = peer.asked_soon(is_of_a_client) {
                peer.answer(number, &STARTING);
            }
        }
        for answer in answers.join().expect("answers") {
            assert_eq!(answer.status, 504, "{answer:?}");
            assert!(answer.text().contains(&url) && answer.text().contains("is new"), "{answer:?}");
        }
    });
}

/// Its requests waited for their time, and were told that the others' answers were not on its disk yet.
#[test]
fn a_process_whose_peers_listen_to_another_one_says_so_at_once() {
    let cluster = with_a_new_disk(2);
    cluster.peers.iter().for_each(Peer::hears_another_process);
    cluster.wait_until(|report| report["replica_state"]["displaced_at"].is_string());
    let mut client = cluster.connect();
    client.send("PUT /v0/entity?id=key HTTP/1.1\r\nhost: h\r\ncontent-length: 1\r\n\r\nv");
    let answer = client.answer();
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("another process runs, or ran, as this node"), "{}", answer.text());
}
