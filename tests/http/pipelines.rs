//! Requests behind every kind of answer, cut anywhere: as many answers as requests, in order, each to its own request,
//! and no byte of a value is taken for a request.

use std::sync::Arc;

use crate::support::{
    Exchange, Expected, Launch, Node, SMUGGLED, bytes_of, cuts_at_boundaries, cuts_from, entity,
    exchange_cut, expect_answers, range, value_of_requests,
};

/// A node, and its values, all of which consist of requests.
struct Served {
    node: Node,
    /// Streamed from memory.
    inline: Arc<Vec<u8>>,
    /// Streamed from a file.
    large: Arc<Vec<u8>>,
    small: Vec<Arc<Vec<u8>>>,
    records: Arc<Vec<(Vec<u8>, Vec<u8>)>>,
}

const INLINE_BYTES: usize = 100_000;
const LARGE_BYTES: usize = (1 << 20) + 5;
const SMALL_KEYS: usize = 2_000;

impl Served {
    fn start() -> Served {
        let node = Launch::patient().flag("--fsync", "never").start();
        let mut connection = node.connect();
        connection.put("victim", b"alive");
        let mut store = |key: &str, value: Vec<u8>| {
            connection.put(key, &value);
            Arc::new(value)
        };
        let inline = store("inline", value_of_requests(0, INLINE_BYTES));
        let large = store("large", value_of_requests(1, LARGE_BYTES));
        let records = (0..20).map(|n| {
            let (key, length) = (format!("r{n:02}"), [0, 40, 5_000, 70_000, 300_000][n % 5]);
            let value = store(&key, value_of_requests(10 + n, length));
            (key.into_bytes(), value.to_vec())
        });
        let records = Arc::new(records.collect());
        let small = (0..SMALL_KEYS).map(|n| store(&format!("s{n}"), format!("value {n}").into_bytes()));
        let small = small.collect();
        Served { node, inline, large, small, records }
    }

    fn small(&self, n: usize) -> Exchange {
        Exchange::get(&format!("s{n}"), &self.small[n])
    }

    /// One that is long enough that a few hundred of them are more than is read at once.
    fn padded(&self, n: usize) -> Exchange {
        let padding = format!("X-Pad: {}\r\n", "p".repeat(1_000));
        let expected = Expected::Value(Arc::clone(&self.small[n]));
        Exchange::new(&format!("GET {}", entity(format!("s{n}"))), &padding, b"", expected)
    }

    fn range(&self) -> Exchange {
        let target = range("r", Some(b"r\xff"));
        Exchange::plain(&format!("GET {target}"), Expected::Records(Arc::clone(&self.records)))
    }

    /// Two of these, and then reads of small values: cut in the first bytes, and at the ends of reads.
    fn cut_behind(&self, what: &str, two: [Exchange; 2]) {
        let mut short = two.to_vec();
        short.extend((0..20).map(|n| self.padded(n)));
        exchange_cut(self.node.address(), &short, &cuts_from(0), what);
        let mut long = two.to_vec();
        long.extend((0..70).map(|n| self.padded(n)));
        long.extend(two);
        long.extend((70..140).map(|n| self.padded(n)));
        exchange_cut(self.node.address(), &long, &cuts_at_boundaries(), what);
        self.assert_unharmed(what);
    }

    #[track_caller]
    fn assert_unharmed(&self, what: &str) {
        assert_eq!(self.node.connect().value("victim").as_deref(), Some(&b"alive"[..]), "{what}");
    }
}

#[test]
fn two_thousand_requests_behind_two_streamed_values_are_all_answered() {
    let served = Served::start();
    let mut pipeline = vec![Exchange::get("inline", &served.inline); 2];
    pipeline.extend((0..2_000).map(|n| served.small(n)));
    exchange_cut(served.node.address(), &pipeline, &[vec![10]], "2,002 requests");
    served.assert_unharmed("2,002 requests");
}

#[test]
fn requests_behind_streamed_values_may_be_cut_anywhere() {
    let served = Served::start();
    let inline = Exchange::get("inline", &served.inline);
    let large = Exchange::get("large", &served.large);
    served.cut_behind("two streamed values", [inline.clone(), inline.clone()]);
    served.cut_behind("a streamed and a large value", [inline, large]);
}

#[test]
fn requests_behind_ranges_may_be_cut_anywhere() {
    let served = Served::start();
    let nothing = Exchange::plain("GET /v0/entities?start=zz", Expected::Records(Arc::default()));
    served.cut_behind("two ranges", [served.range(), nothing]);
    served.cut_behind("a value and a range", [Exchange::get("inline", &served.inline), served.range()]);
}

#[test]
fn requests_behind_answers_in_memory_may_be_cut_anywhere() {
    let served = Served::start();
    let inline = Exchange::get("inline", &served.inline);
    let refused = |start, status| Exchange::plain(start, Expected::Refused(status));
    let body = value_of_requests(3, 150);
    for (what, exchange) in [
        ("404", refused("GET /v0/entity?id=absent", 404)),
        ("400", refused("GET /v0/entity", 400)),
        ("405", Exchange::with_body("PATCH /v0/entity?id=k", b"", Expected::Refused(405))),
        ("a put refused", Exchange::with_body("PUT /v0/entity?id=", &body, Expected::RefusedWithBody(400))),
        ("HEAD", Exchange::plain("HEAD /v0/entity?id=large", Expected::Head(LARGE_BYTES))),
        ("status", Exchange::plain("GET /v0/status", Expected::Something)),
    ] {
        served.cut_behind(what, [inline.clone(), exchange]);
    }
}

#[test]
fn requests_behind_writes_may_be_cut_anywhere() {
    let served = Served::start();
    let inline = Exchange::get("inline", &served.inline);
    let put = |key: &str, value: &[u8]| {
        Exchange::with_body(&format!("PUT {}", entity(key)), value, Expected::Empty(201))
    };
    let writes = [("a small put", 150), ("a put of many reads", 100_000), ("a large put", 300_000)];
    for (number, (what, length)) in writes.into_iter().enumerate() {
        let value = Arc::new(value_of_requests(50 + number, length));
        let mut pipeline = vec![inline.clone(), put("k", &value), Exchange::get("k", &value)];
        pipeline.extend((0..20).map(|n| served.small(n)));
        exchange_cut(served.node.address(), &pipeline, &cuts_from(0), what);
        exchange_cut(served.node.address(), &pipeline, &cuts_at_boundaries(), what);
        let behind = bytes_of(&pipeline[..2]).len();
        exchange_cut(served.node.address(), &pipeline, &[vec![behind - 1], vec![behind + 1]], what);
    }
    let expects = "Expect: 100-continue\r\n";
    for length in [150, 100_000, 300_000] {
        let value = Arc::new(value_of_requests(60, length));
        let headers = format!("{expects}Content-Length: {length}\r\n");
        let put = Exchange::new("PUT /v0/entity?id=k", &headers, &value, Expected::Continued(201));
        let pipeline = [inline.clone(), put, Exchange::get("k", &value), served.small(0)];
        exchange_cut(served.node.address(), &pipeline, &cuts_from(0), "a put that expects to be told");
    }
    served.assert_unharmed("writes");
}

#[test]
fn what_ends_a_connection_ends_it_behind_streamed_values_too() {
    let served = Served::start();
    let inline = Exchange::get("inline", &served.inline);
    let put = |headers: &str, body: &[u8], statuses| {
        Exchange::new("PUT /v0/entity?id=k", headers, body, Expected::Closed(statuses))
    };
    let get = |headers: &str, body: &[u8], statuses| {
        Exchange::new("GET /v0/entity?id=s0", headers, body, Expected::Closed(statuses))
    };
    let smuggled = SMUGGLED.as_bytes();
    let chunked = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    let both = "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n";
    let long = format!("X-Long: {}\r\n", "v".repeat(17_000));
    for last in [
        put("", smuggled, &[411]),
        put("Transfer-Encoding: chunked\r\n", chunked.as_bytes(), &[411]),
        put(both, format!("0\r\n\r\n{SMUGGLED}").as_bytes(), &[400, 411]),
        put("Content-Length: 5\r\nContent-Length: 6\r\n", smuggled, &[400]),
        put("Content-Length: +5\r\n", smuggled, &[400]),
        put("Content-Length: 67108865\r\n", smuggled, &[413]),
        put("Transfer-Encoding: xchunked\r\n", smuggled, &[400]),
        get(&long, smuggled, &[431]),
        get("X: a\rb\r\n", smuggled, &[400]),
        get("Host : h\r\n", smuggled, &[400]),
        get("X: a\0b\r\n", smuggled, &[400]),
    ] {
        let shown = last.request[..last.request.len().min(120)].escape_ascii().to_string();
        let start = inline.request.len();
        let pipeline = [inline.clone(), last];
        exchange_cut(served.node.address(), &pipeline, &cuts_from(start), &shown);
        exchange_cut(served.node.address(), &pipeline, &[vec![], vec![1], vec![1, start - 1]], &shown);
        served.assert_unharmed(&shown);
    }
    assert_eq!(served.node.connect().value("k"), None);
}

#[test]
fn a_pipeline_may_come_byte_by_byte() {
    let served = Served::start();
    let value = Arc::new(value_of_requests(70, 200));
    let pipeline = [
        Exchange::get("inline", &served.inline),
        served.range(),
        Exchange::with_body("PUT /v0/entity?id=k", &value, Expected::Empty(201)),
        Exchange::get("inline", &served.inline),
        Exchange::get("k", &value),
        served.small(1),
        Exchange::get("large", &served.large),
        served.small(2),
    ];
    let (mut sender, reader) = served.node.connect().split();
    std::thread::scope(|scope| {
        scope.spawn(|| bytes_of(&pipeline).into_iter().for_each(|byte| sender.send([byte])));
        expect_answers(reader, &pipeline, "byte by byte");
    });
    served.assert_unharmed("byte by byte");
}

#[test]
fn requests_behind_profiles_may_be_cut_anywhere() {
    let served = Served::start();
    let profile = Exchange::plain("GET /debug/profile/cpu?seconds=1&format=pprof", Expected::Something);
    let mut pipeline = vec![Exchange::get("inline", &served.inline), profile];
    pipeline.extend((0..20).map(|n| served.small(n)));
    let ahead = bytes_of(&pipeline[..2]).len();
    // One profile at a time: the places that matter are few.
    for place in [ahead + 20, ahead - 1] {
        exchange_cut(served.node.address(), &pipeline, &[vec![10, place]], "a profile");
    }
    served.assert_unharmed("a profile");
}
