//! What a node says, as a replica, to the ballots and cells of conditional writes.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_cluster::{Incarnation, Origin, ReadAnswer, SentCell};
use ladoga_env::Clock;
use ladoga_env::sim::SimClock;
use ladoga_model::{Cell, Durability, HybridClock, Stamp, Value, Version};
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::PeerLimits;
use ladoga_node::peers::wire::{Answer, Base, Had, Request};
use ladoga_node::store::{MetricValue, Store};

use crate::cluster::{Cluster, with_engine_by};
use crate::peer::Caller;

const KEY: Bytes = Bytes::from_static(b"key");

/// A node, and a peer that asks it; versions count from now.
struct Asked {
    node: Cluster<Embedded>,
    caller: Caller,
    now: u64,
}

impl Asked {
    fn start() -> Asked {
        // The other nodes say that it is 1970, and are a majority.
        let clock = SimClock::new();
        clock.jump_wall_ms(1_000 - clock.wall_ms() as i64);
        let node = with_engine_by(Arc::new(clock), 2, &PeerLimits::default());
        let caller = node.connect_as_peer();
        // After whatever the node gave out before it served.
        Asked { node, caller, now: HybridClock::at_wall_ms(20_000) }
    }

    fn version(&self, number: u64) -> Version {
        Version { timestamp: self.now + number, node: 1 }
    }

    fn ask(&mut self, request: Request) -> Answer {
        self.caller.ask(&[(7, request)]);
        let (number, answer) = self.caller.answer();
        assert_eq!(number, 7, "{answer:?}");
        answer
    }

    fn prepare(&mut self, ballot: u64) -> Answer {
        let ballot = self.version(ballot);
        self.ask(Request::Prepare { key: KEY, ballot, durability: None })
    }

    fn accept(&mut self, ballot: u64, base: Base) -> Answer {
        let stamp = Stamp::new(self.version(ballot));
        let value = Some(Bytes::from_static(b"accepted"));
        self.ask(Request::Accept { key: KEY, stamp, base, value, durability: None })
    }

    fn write(&mut self, version: u64, origin: Origin) -> Answer {
        let stamp = Stamp::new(self.version(version));
        let value = Some(Bytes::from_static(b"written"));
        self.ask(Request::Write { key: KEY, stamp, value, origin, is_again: false, durability: None })
    }

    fn release(&mut self, ballot: u64) {
        let ballot = self.version(ballot);
        self.caller.ask(&[(8, Request::Release { key: KEY, ballot })]);
    }

    fn superseded(&self, newest: u64, had: Had) -> Answer {
        Answer::Superseded { newest: self.version(newest), had }
    }

    fn promised(&self, cell: Option<(u64, &'static [u8])>) -> Answer {
        let cell = cell.map(|(version, value)| {
            let value = Some(Value::Inline(Bytes::from_static(value)));
            SentCell::Whole(Cell { stamp: Stamp::new(self.version(version)), value })
        });
        Answer::Read(ReadAnswer { cell, is_whole: true })
    }
}

#[test]
fn a_promise_keeps_older_cells_out_whichever_way_they_come() {
    let mut asked = Asked::start();
    assert_eq!(asked.prepare(10), asked.promised(None));
    let fenced = Answer::Fenced(asked.version(10));
    for origin in [Origin::Client, Origin::Hint, Origin::Repair, Origin::Exchange] {
        assert_eq!(asked.write(5, origin), fenced, "{origin:?}");
    }
    assert_eq!(asked.prepare(10), asked.promised(None), "the same again");
    assert_eq!(asked.prepare(9), Answer::Outbid(asked.version(10)));
    assert_eq!(asked.write(20, Origin::Client), Answer::Done, "a newer one passes");
    // By what was promised before, the older one may have been seen; and it may have come by the repair.
    assert_eq!(asked.write(5, Origin::Client), asked.superseded(20, Had::Unknown));
    assert_eq!(asked.write(21, Origin::Client), Answer::Done);
    assert_eq!(
        asked.write(19, Origin::Client),
        asked.superseded(21, Had::Never),
        "nothing was promised over it"
    );
}

#[test]
fn a_cell_is_accepted_if_nothing_came_between() {
    let mut asked = Asked::start();
    assert_eq!(asked.write(3, Origin::Client), Answer::Done);
    let base = Base { had: Some(asked.version(3)), newest: Some(asked.version(3)), met: Vec::new() };
    assert_eq!(asked.accept(10, base.clone()), Answer::Outbid(asked.version(3)), "nothing was promised");
    assert_eq!(asked.prepare(10), asked.promised(Some((3, b"written"))));
    let other = Base { had: None, newest: base.newest, met: Vec::new() };
    assert_eq!(asked.accept(10, other), Answer::Outbid(asked.version(10)), "it had something");
    let late = Base { met: vec![Incarnation(1); 3], ..base.clone() };
    assert_eq!(asked.accept(10, late), Answer::Outbid(asked.version(10)), "the others have had other disks");
    assert_eq!(asked.accept(10, base.clone()), Answer::Done);
    assert_eq!(asked.accept(10, base.clone()), Answer::Done, "the same again");
    assert_eq!(
        asked.write(5, Origin::Client),
        asked.superseded(10, Had::Skipped),
        "it was not decided on that"
    );
    assert_eq!(
        asked.write(2, Origin::Client),
        asked.superseded(10, Had::Never),
        "what was promised was told of something newer"
    );
    assert_eq!(asked.prepare(12), asked.promised(Some((10, b"accepted"))));
    assert_eq!(asked.accept(11, base), Answer::Outbid(asked.version(12)));
}

/// A plain write that came between the promise and the cell had the cell refused, which others may have accepted by then: one in six
/// increments beside such writes did not know whether it had happened.
#[test]
fn a_cell_that_a_newer_write_overtook_counts_unless_something_else_was_promised_before() {
    let mut asked = Asked::start();
    assert_eq!(asked.prepare(10), asked.promised(None));
    assert_eq!(asked.write(15, Origin::Client), Answer::Done);
    assert_eq!(
        asked.prepare(20),
        asked.promised(Some((15, b"written"))),
        "what is promised then is told of it"
    );
    let late = Base { met: vec![Incarnation(1); 3], ..Base::default() };
    assert_eq!(asked.accept(10, late), Answer::Outbid(asked.version(20)), "the others have had other disks");
    let other = Base { newest: Some(asked.version(9)), ..Base::default() };
    assert_eq!(
        asked.accept(10, other),
        Answer::Outbid(asked.version(20)),
        "9 may have begun after 15 had ended"
    );
    assert_eq!(asked.accept(10, Base::default()), Answer::Done, "as if it had come right before that");
    assert_eq!(asked.prepare(21), asked.promised(Some((15, b"written"))), "which is what is there");
    assert_eq!(
        asked.write(5, Origin::Client),
        asked.superseded(15, Had::Skipped),
        "it was not decided on that"
    );

    assert_eq!(asked.write(30, Origin::Client), Answer::Done);
    let base = Base { had: Some(asked.version(15)), newest: Some(asked.version(15)), met: Vec::new() };
    assert_eq!(
        asked.accept(20, base.clone()),
        Answer::Outbid(asked.version(30)),
        "21 was promised before that"
    );
    assert_eq!(asked.write(31, Origin::Client), Answer::Done);
    assert_eq!(asked.accept(21, base), Answer::Done, "whatever came after that");
    let answer = asked.node.connect().get("/metrics");
    let metrics = answer.text();
    for line in ["ladoga_conditional_cells_total 2\n", "ladoga_conditional_overtaken_total 2\n"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

/// Its writer is told that it was here, since the cell took it into account.
#[test]
fn what_a_cell_was_decided_on_counts_as_had_by_who_accepts_the_cell() {
    let mut asked = Asked::start();
    assert_eq!(asked.prepare(10), asked.promised(None));
    let base = Base { had: None, newest: Some(asked.version(4)), met: Vec::new() };
    assert_eq!(asked.accept(10, base), Answer::Done);
    assert_eq!(asked.write(4, Origin::Client), asked.superseded(10, Had::Once));
    assert_eq!(
        asked.write(3, Origin::Client),
        asked.superseded(10, Had::Unknown),
        "4 may have been decided on it"
    );
    assert_eq!(asked.write(5, Origin::Client), asked.superseded(10, Had::Skipped));
}

/// Another replica may have a cell that was decided without it, and another coordinator find that one. A write was acknowledged by
/// this, and then gone over by what had never seen it.
#[test]
fn what_a_cell_was_decided_on_does_not_count_if_another_one_may_go_over_it() {
    let mut asked = Asked::start();
    assert_eq!(asked.prepare(6), asked.promised(None));
    assert_eq!(asked.prepare(7), asked.promised(None));
    assert_eq!(asked.accept(6, Base::default()), Answer::Outbid(asked.version(7)));
    let base = Base { had: None, newest: Some(asked.version(1)), met: Vec::new() };
    assert_eq!(asked.accept(7, base), Answer::Done);
    assert_eq!(asked.write(1, Origin::Client), asked.superseded(7, Had::Unknown));
}

/// Its writer was told that nobody knows, a moment before it was known: one in thirty writes beside increments.
#[test]
fn a_write_that_met_something_newer_waits_for_what_was_promised_over_it_and_others_do_not() {
    let mut asked = Asked::start();
    assert_eq!(asked.prepare(10), asked.promised(None));
    assert_eq!(asked.write(15, Origin::Client), Answer::Done);
    let write = |key, version| {
        let (stamp, value) = (Stamp::new(asked.version(version)), Some(Bytes::from_static(b"written")));
        Request::Write { key, stamp, value, origin: Origin::Client, is_again: false, durability: None }
    };
    let [older, other] = [write(KEY, 5), write(Bytes::from_static(b"another"), 5)];
    asked.caller.ask(&[(1, older), (2, other)]);
    assert_eq!(asked.caller.answer(), (2, Answer::Done), "of the same turn, and not held up");
    let (stamp, value) = (Stamp::new(asked.version(10)), Some(Bytes::from_static(b"accepted")));
    let accept = Request::Accept { key: KEY, stamp, base: Base::default(), value, durability: None };
    asked.caller.ask(&[(3, accept)]);
    let answers = HashMap::from([asked.caller.answer(), asked.caller.answer()]);
    assert_eq!(answers, HashMap::from([(1, asked.superseded(15, Had::Skipped)), (3, Answer::Done)]));
}

#[test]
fn a_promise_that_is_released_keeps_nothing_out_and_those_before_it_hold_on() {
    let mut asked = Asked::start();
    assert_eq!(asked.prepare(10), asked.promised(None));
    assert_eq!(asked.prepare(20), asked.promised(None));
    asked.release(20);
    assert_eq!(asked.write(5, Origin::Client), Answer::Fenced(asked.version(10)));
    asked.release(10);
    assert_eq!(asked.write(5, Origin::Client), Answer::Done);
    let answer = asked.node.connect().get("/metrics");
    let metrics = answer.text();
    for line in
        ["ladoga_promises_held 0\n", "ladoga_promises_total 2\n", "ladoga_promises_kept_out_total 1\n"]
    {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

/// It waited for each of them: so a node that was stopped for a moment, to which another one had sent a thousand ballots for one key
/// meanwhile, which it had decided without it, answered nothing else for seconds.
#[test]
fn a_ballot_waits_for_promises_to_other_nodes_and_not_for_those_that_its_node_left_behind() {
    let mut asked = Asked::start();
    let waited = |asked: &Asked, count: u64| {
        let answer = asked.node.connect().get("/metrics");
        let line = format!("ladoga_promises_waited_total {count}\n");
        assert!(answer.text().contains(&line), "{line}: {}", answer.text());
    };
    for ballot in 10..20 {
        assert_eq!(asked.prepare(ballot), asked.promised(None));
    }
    waited(&asked, 0);
    let ballot = Version { node: 0, ..asked.version(30) };
    let answer = asked.ask(Request::Prepare { key: KEY, ballot, durability: None });
    assert_eq!(answer, asked.promised(None));
    waited(&asked, 1);
}

#[test]
fn a_large_value_is_accepted_by_its_upload() {
    let mut asked = Asked::start();
    assert_eq!(asked.prepare(10), asked.promised(None));
    let Answer::Opened(stream) = asked.ask(Request::Upload) else { panic!("a place was expected") };
    let piece = Bytes::from(vec![b'v'; 200_000]);
    for _ in 0..2 {
        assert_eq!(asked.ask(Request::Push { stream, bytes: piece.clone() }), Answer::Done);
    }
    let stamp = Stamp::new(asked.version(10));
    let accept = Request::AcceptUpload { stream, stamp, base: Base::default(), key: KEY, durability: None };
    assert_eq!(asked.ask(accept.clone()), Answer::Done);
    assert_eq!(asked.ask(accept), Answer::Gone, "the upload is used up");
    let cell = SentCell::Whole(Cell { stamp, value: Some(Value::Large(400_000)) });
    assert_eq!(asked.prepare(11), Answer::Read(ReadAnswer { cell: Some(cell), is_whole: true }));
}

/// Syncs of the log because somebody asked for one.
fn requested_syncs(asked: &Asked) -> u64 {
    let metrics = asked.node.store.metrics();
    let requested = metrics.iter().find(|metric| metric.name == "ladoga_commit_requested_syncs_total");
    match requested.expect("a counter").series[0].value {
        MetricValue::Number(number) => number as u64,
        MetricValue::Distribution(_) => panic!("it is a counter"),
    }
}

/// The replica syncs nothing by itself.
#[test]
fn what_is_asked_to_be_on_disk_is_synced_before_the_answer() {
    let mut asked = Asked::start();
    let cases = [None, Some(Durability::Never), Some(Durability::EverySecond), Some(Durability::Always)];
    for (number, durability) in (1..).zip(cases) {
        let (ballot, origin) = (asked.version(number), Origin::Client);
        let [plain, large, decided] =
            ["plain", "large", "decided"].map(|name| Bytes::from(format!("{name}{number}")));
        let (stamp, value) = (Stamp::new(ballot), Some(Bytes::from_static(b"value")));
        let write = |key, value| Request::Write { key, stamp, value, origin, is_again: false, durability };
        let upload = |asked: &mut Asked| {
            let Answer::Opened(stream) = asked.ask(Request::Upload) else { panic!("a place was expected") };
            let bytes = Bytes::from(vec![b'v'; 200_000]);
            assert_eq!(asked.ask(Request::Push { stream, bytes: bytes.clone() }), Answer::Done);
            assert_eq!(asked.ask(Request::Push { stream, bytes }), Answer::Done);
            stream
        };
        let (base, first, second) = (Base::default(), upload(&mut asked), upload(&mut asked));
        let absent = Answer::Read(ReadAnswer { cell: None, is_whole: true });
        let of_large = Bytes::from(format!("decided large{number}"));
        let requests = [
            (write(plain.clone(), value.clone()), Answer::Done),
            (write(Bytes::from(format!("deleted{number}")), None), Answer::Done),
            (Request::Finish { stream: first, stamp, key: large, origin, durability }, Answer::Done),
            (Request::Prepare { key: decided.clone(), ballot, durability }, absent.clone()),
            (Request::Accept { key: decided, stamp, base: base.clone(), value, durability }, Answer::Done),
            (Request::Prepare { key: of_large.clone(), ballot, durability }, absent),
            (Request::AcceptUpload { stream: second, stamp, base, key: of_large, durability }, Answer::Done),
        ];
        for (request, expected) in requests {
            let before = requested_syncs(&asked);
            assert_eq!(asked.ask(request.clone()), expected, "{request:?}");
            let syncs = u64::from(durability == Some(Durability::Always));
            assert_eq!(requested_syncs(&asked) - before, syncs, "{durability:?}: {request:?}");
        }
    }
}

/// What came after a write was kept out, and is found in its place, may not be on disk yet: it counted as if it were.
#[test]
fn what_is_found_in_the_place_of_what_was_kept_out_is_synced_before_the_answer() {
    let mut asked = Asked::start();
    assert_eq!(asked.write(5, Origin::Repair), Answer::Done);
    assert_eq!(asked.prepare(10), asked.promised(Some((5, b"written"))));
    for (durability, syncs) in [(None, 0), (Some(Durability::Always), 2)] {
        let (stamp, origin) = (Stamp::new(asked.version(5)), Origin::Client);
        let value = Some(Bytes::from_static(b"written"));
        let before = requested_syncs(&asked);
        let write = Request::Write { key: KEY, stamp, value, origin, is_again: false, durability };
        assert_eq!(asked.ask(write), Answer::Done);
        assert_eq!(requested_syncs(&asked) - before, syncs, "{durability:?}");
    }
}
