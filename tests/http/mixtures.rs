//! Requests of all kinds in one pipeline, cut at random: the answers are those of a model.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use crate::support::{
    Exchange, Expected, Launch, Random, bytes_of, entity, exchange_cut, range, value_of_requests,
};

const LENGTHS: [usize; 9] = [0, 1, 200, 5_000, 65_536, 65_537, 100_000, 262_144, 400_000];

/// What a client's own keys hold, and the requests that it has sent.
struct Model {
    prefix: String,
    random: Random,
    values: BTreeMap<String, Arc<Vec<u8>>>,
    numbered: usize,
}

impl Model {
    fn new(client: usize, round: usize) -> Model {
        Model {
            prefix: format!("c{client:02}-{round}-"),
            random: Random::new((client * 1_000 + round) as u64),
            values: BTreeMap::new(),
            numbered: client * 10_000,
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize]
    }

    fn key(&mut self) -> String {
        format!("{}{}", self.prefix, self.random.below(6))
    }

    /// The next request, and its answer.
    fn exchange(&mut self) -> Exchange {
        let key = self.key();
        let entity = entity(&key);
        match self.random.below(12) {
            0..=2 => self.put(key),
            3..=6 => {
                let expected = self.values.get(&key).map(|value| Expected::Value(Arc::clone(value)));
                self.padded(&format!("GET {entity}"), expected.unwrap_or(Expected::Refused(404)))
            }
            7 => {
                let expected = self.values.get(&key).map(|value| Expected::Head(value.len()));
                match expected {
                    Some(expected) => self.padded(&format!("HEAD {entity}"), expected),
                    None => self.padded("GET /v0/status", Expected::Something),
                }
            }
            8 => {
                self.values.remove(&key);
                self.padded(&format!("DELETE {entity}"), Expected::Empty(202))
            }
            9 | 10 => {
                let end = format!("{}\u{7f}", self.prefix);
                let records =
                    self.values.iter().map(|(key, value)| (key.clone().into_bytes(), value.to_vec()));
                let expected = Expected::Records(Arc::new(records.collect()));
                let target = range(&self.prefix, Some(end.as_bytes()));
                self.padded(&format!("GET {target}"), expected)
            }
            _ => {
                let (start, status) = self.pick(&[
                    ("GET /v0/entity", 400),
                    ("GET /nothing", 400),
                    ("BREW /v0/entity?id=k", 405),
                    ("GET /v0/entities", 400),
                ]);
                self.padded(start, Expected::Refused(status))
            }
        }
    }

    fn put(&mut self, key: String) -> Exchange {
        self.numbered += 1;
        let length = self.pick(&LENGTHS);
        let value = Arc::new(value_of_requests(self.numbered, length));
        self.values.insert(key.clone(), Arc::clone(&value));
        let (expects, expected) = self.pick(&[
            ("", Expected::Empty as fn(u16) -> Expected),
            ("Expect: 100-continue\r\n", Expected::Continued),
        ]);
        let headers = format!("{expects}Content-Length: {length}\r\n");
        Exchange::new(&format!("PUT {}", entity(key)), &headers, &value, expected(201))
    }

    /// A request with headers of some length, so that the boundaries of reads are anywhere.
    fn padded(&mut self, start: &str, expected: Expected) -> Exchange {
        let length = self.pick(&[0, 1, 30, 700, 3_000, 12_000]);
        let mut headers = format!("X-Pad: {}\r\n", "p".repeat(length));
        if self.random.below(20) == 0 {
            headers = "Accept: a\r\n".repeat(99);
        }
        Exchange::new(start, &headers, b"", expected)
    }

    /// Some places, few of them next to each other.
    fn cuts(&mut self, length: usize) -> Vec<usize> {
        let mut cuts: Vec<usize> = match self.random.below(4) {
            0 => vec![10],
            1 => (1..40).collect(),
            _ => Vec::new(),
        };
        cuts.extend((0..self.random.below(8)).map(|_| self.random.below(length as u64) as usize));
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }
}

/// Answers up to the end of the connection are those to the first requests, whole and in order.
#[test]
fn a_pipeline_that_a_node_leaves_when_it_stops_has_whole_answers() {
    const CONNECTIONS: usize = 6;
    let mut node = Launch::patient().flag("--fsync", "never").start();
    let values = [100_000, 10, 70_000, 1_000_000, 200].map(|length| value_of_requests(length, length));
    let mut writer = node.connect();
    writer.put("victim", b"alive");
    for (number, value) in values.iter().enumerate() {
        writer.put(format!("k{number}"), value);
    }
    let get = |n| format!("GET /v0/entity?id=k{n} HTTP/1.1\r\nHost: h\r\n\r\n");
    let gets = (0..values.len()).map(get).collect::<Vec<_>>().concat();
    let (answered_in, answered) = channel();
    thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (mut sender, mut reader) = node.connect().split();
            let (gets, values, answered) = (gets.repeat(2_000), &values, answered_in.clone());
            scope.spawn(move || sender.try_send(gets));
            scope.spawn(move || {
                let mut count = 0;
                while let Ok(response) = reader.try_response() {
                    if response.status == 503 {
                        assert!(response.closes());
                        break;
                    }
                    let is_right = response.status == 200 && response.body == values[count % values.len()];
                    assert!(is_right, "answer {count} of connection {connection}: {}", response.status);
                    count += 1;
                    let _ = answered.send(connection);
                }
            });
        }
        // Each is in the middle of its requests.
        let mut counts = [0; CONNECTIONS];
        while counts.iter().any(|count| *count < 20) {
            counts[answered.recv().expect("an answer")] += 1;
        }
        node.stop();
    });
    node.start_again();
    assert_eq!(node.connect().value("victim").as_deref(), Some(&b"alive"[..]));
}

#[test]
fn a_mixture_of_requests_is_answered_as_a_model_says() {
    let node = Launch::patient().flag("--fsync", "never").start();
    node.connect().put("victim", b"alive");
    thread::scope(|scope| {
        for client in 0..8 {
            let address = node.address();
            scope.spawn(move || {
                for round in 0..12 {
                    let mut model = Model::new(client, round);
                    let pipeline: Vec<Exchange> = (0..60).map(|_| model.exchange()).collect();
                    let cuts = model.cuts(bytes_of(&pipeline).len());
                    exchange_cut(address, &pipeline, &[cuts], &format!("client {client}, round {round}"));
                }
            });
        }
    });
    assert_eq!(node.connect().value("victim").as_deref(), Some(&b"alive"[..]));
}
