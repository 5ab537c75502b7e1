//! Conditional requests for a key that several nodes are asked for: which node decides them, and what the client is told.

use bytes::Bytes;
use ladoga_cluster::{NodeId, Placement, Refusal};
use ladoga_model::{HybridClock, Replicas, Stamp, Version};
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::PeerLimits;
use ladoga_node::peers::wire::{Answer, Change, Changed, Forward, Forwarded, Request};
use ladoga_service::{Error, Precondition, TooFewReplicas};

use crate::client;
use crate::cluster::{Cluster, with_engine};
use crate::peer::{Caller, Peer};

/// After whatever the node gives out by then: by the others, which are a majority, it is 1970.
fn version(second: u64, node: u16) -> Version {
    Version { timestamp: HybridClock::at_wall_ms(20_000 + 1_000 * second), node }
}

/// A key of which this node, or another one, is the first.
fn key_of(cluster: &Cluster<Embedded>, is_own: bool) -> String {
    let placement = Placement::of(&cluster.list);
    let is_it = |key: &String| (placement.replicas(key.as_bytes(), 1)[0] == cluster.own) == is_own;
    (0..).map(|n| format!("key{n}")).take(10_000).find(is_it).expect("one in a few")
}

/// The node that is the first one of a key.
fn first_of<'c>(cluster: &'c Cluster<Embedded>, key: &str) -> &'c Peer {
    let first = Placement::of(&cluster.list).replicas(key.as_bytes(), 1)[0];
    let peers = cluster.list.iter().map(|(id, _)| id).filter(|id| *id != cluster.own);
    let place = peers.into_iter().position(|id| id == first).expect("it is a peer's");
    &cluster.peers[place]
}

/// The ballots of two coordinators meet at the node.
fn share(caller: &mut Caller, key: &str, second: u64) {
    let ballots = [0, 1].map(|node| version(second, node));
    let key = Bytes::from(key.to_owned());
    for ballot in ballots {
        caller.ask(&[(1, Request::Prepare { key: key.clone(), ballot, durability: None })]);
        let (_, answer) = caller.answer();
        assert!(matches!(answer, Answer::Read(_)), "{answer:?}");
    }
    for ballot in ballots {
        caller.ask(&[(9, Request::Release { key: key.clone(), ballot })]);
    }
}

fn forwarded(request: &Request) -> Option<Forward> {
    match request {
        Request::Forward(forward) => Some((**forward).clone()),
        _ => None,
    }
}

fn prepared(request: &Request) -> Option<Version> {
    match request {
        Request::Prepare { ballot, .. } => Some(*ballot),
        _ => None,
    }
}

fn decided(outcome: Option<Result<Changed, Error>>) -> Answer {
    Answer::Forwarded(Box::new(Forwarded { is_shared: true, outcome }))
}

/// Sends an increment through the node, has the first node of the key answer it, and returns what the client is told.
fn increment_by(
    client: &mut client::Client,
    (first, key): (&Peer, &str),
    answer: &Answer,
) -> (Forward, client::Answer) {
    client.send(format!("POST /v0/entity?id={key}&increment=5 HTTP/1.1\r\nhost: h\r\n\r\n"));
    let (number, forward) = first.asked(forwarded);
    first.answer(number, answer);
    (forward, client.answer())
}

#[test]
fn the_first_node_of_a_key_decides_once_two_coordinators_met() {
    let cluster = with_engine(2, &PeerLimits::default());
    let key = key_of(&cluster, false);
    let first = first_of(&cluster, &key);
    share(&mut cluster.connect_as_peer(), &key, 0);
    let mut client = cluster.connect();
    let stamp = Stamp::new(version(1, 2));
    let ok = decided(Some(Ok(Changed { stamp, sum: 42 })));
    let (forward, answer) = increment_by(&mut client, (first, &key), &ok);
    assert_eq!((forward.key, forward.replicas), (Bytes::from(key.clone()), Replicas { ack: 2, from: 3 }));
    assert_eq!((forward.precondition, forward.change), (Precondition::None, Change::Increment(5)));
    assert!(forward.left_ms > 1_000 && forward.expires_at_ms == 0);
    assert_eq!((answer.status, answer.text()), (200, "42"));
    let etag = |answer: &client::Answer| {
        answer.head.lines().find(|line| line.starts_with("etag:")).expect("an ETag").to_owned()
    };
    let stored = etag(&answer);

    let failed = decided(Some(Err(Error::PreconditionFailed { current: Some(stamp.version) })));
    let (_, answer) = increment_by(&mut client, (first, &key), &failed);
    assert_eq!((answer.status, etag(&answer)), (412, stored), "the version that it was checked against");
    let too_few =
        TooFewReplicas { acked: 1, required: 2, asked: 3, failures: Vec::new(), may_have_happened: true };
    for (error, status) in [
        (Error::NotANumber { found: "x".to_owned() }, 409),
        (Error::Overflow { number: i64::MAX, by: 5 }, 409),
        (Error::Undecided, 504),
        (Error::TooFewReplicas(Box::new(too_few)), 504),
    ] {
        let text = error.to_string();
        let (_, answer) = increment_by(&mut client, (first, &key), &decided(Some(Err(error))));
        assert!(answer.status == status && answer.text().contains(&text), "{answer:?}");
    }

    client.send(format!(
        "PUT /v0/entity?id={key}&ttl=1h HTTP/1.1\r\nhost: h\r\nif-none-match: *\r\ncontent-length: 5\r\n\r\nvalue"
    ));
    let (number, forward) = first.asked(forwarded);
    assert_eq!(forward.precondition, Precondition::IfNoneMatchAny);
    assert_eq!(forward.change, Change::Put(Bytes::from_static(b"value")));
    assert!(forward.expires_at_ms >= 3_600_000, "the moment is decided once");
    first.answer(number, &decided(Some(Ok(Changed { stamp, sum: 0 }))));
    assert_eq!(client.answer().status, 201);
}

/// If it is known that the other node did nothing, this one decides. If not, it must not.
#[test]
fn what_the_first_node_did_not_do_is_decided_here() {
    let cluster = with_engine(2, &PeerLimits::default());
    let key = key_of(&cluster, false);
    let first = first_of(&cluster, &key);
    let mut caller = cluster.connect_as_peer();
    let mut client = cluster.connect();
    let too_few = |may_have_happened| {
        let error =
            TooFewReplicas { acked: 1, required: 2, asked: 3, failures: Vec::new(), may_have_happened };
        decided(Some(Err(Error::TooFewReplicas(Box::new(error)))))
    };
    let answers = [decided(None), Answer::Refused(Refusal::Starting), too_few(false)];
    for (second, answer) in (0..).zip(answers) {
        share(&mut caller, &key, second);
        client.send(format!("POST /v0/entity?id={key}&increment=5 HTTP/1.1\r\nhost: h\r\n\r\n"));
        let (number, _) = first.asked(forwarded);
        first.answer(number, &answer);
        let (number, _) = first.asked(prepared);
        first.answer(number, &Answer::Refused(Refusal::OverCapacity));
        let other = cluster.peers.iter().find(|peer| !std::ptr::eq(*peer, first)).expect("another one");
        let (number, _) = other.asked(prepared);
        other.answer(number, &Answer::Refused(Refusal::OverCapacity));
        let answer = client.answer();
        assert_eq!(answer.status, 504, "{}", answer.text());
        assert!(!answer.text().contains("may have happened"), "{}", answer.text());
    }
    share(&mut caller, &key, 9);
    let (_, answer) = increment_by(&mut client, (first, &key), &Answer::Refused(Refusal::StoreFailed));
    assert!(answer.status == 504 && answer.text().contains("may have happened"), "{}", answer.text());
}

#[test]
fn one_that_was_forwarded_is_decided_where_it_arrives() {
    let cluster = with_engine(2, &PeerLimits::default());
    let mut caller = cluster.connect_as_peer();
    let ask = |caller: &mut Caller, key: &str, replicas: Replicas| {
        let forward = Forward {
            key: Bytes::from(key.to_owned()),
            replicas,
            durability: None,
            left_ms: 60_000,
            expires_at_ms: 0,
            precondition: Precondition::None,
            change: Change::Increment(5),
        };
        caller.ask(&[(7, Request::Forward(Box::new(forward)))]);
    };
    let one = Replicas { ack: 1, from: 1 };
    let own = key_of(&cluster, true);
    for (sum, is_shared) in [(5, false), (11, true)] {
        ask(&mut caller, &own, one);
        let (_, Answer::Forwarded(told)) = caller.answer() else { panic!("another answer") };
        let Some(Ok(changed)) = told.outcome else { panic!("{told:?}") };
        assert_eq!((changed.sum, told.is_shared), (sum, is_shared));
        // The next time, it is known that another node is asked as well: this one.
        let mut client = cluster.connect();
        client.send(format!("POST /v0/entity?id={own}&increment=1&replicas=1/1 HTTP/1.1\r\nhost: h\r\n\r\n"));
        assert_eq!(client.answer().text(), (sum + 1).to_string());
    }
    for replicas in [Replicas { ack: 1, from: 3 }, Replicas { ack: 4, from: 4 }] {
        ask(&mut caller, &own, replicas);
        let nothing = Answer::Forwarded(Box::new(Forwarded { is_shared: false, outcome: None }));
        assert_eq!(caller.answer().1, nothing, "{replicas:?}");
    }
    // It goes no further, whatever is known of the key, and whose it is.
    let foreign = key_of(&cluster, false);
    share(&mut cluster.connect_as_peer(), &foreign, 1);
    ask(&mut caller, &foreign, one);
    let first = first_of(&cluster, &foreign);
    let (number, ballot) = first.asked(|request| {
        assert_eq!(forwarded(request), None, "it was forwarded again");
        prepared(request)
    });
    assert_eq!(NodeId(ballot.node), cluster.own);
    first.answer(number, &Answer::Refused(Refusal::OverCapacity));
    let (_, Answer::Forwarded(told)) = caller.answer() else { panic!("another answer") };
    assert!(matches!(told.outcome, Some(Err(Error::TooFewReplicas(_)))), "{told:?}");
}
