use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Connection, Random, entity, value};

/// Keys that one writer writes over and over.
const KEYS: u64 = 400;
/// Requests that one writer sends at once.
const PIPELINE_MAX: u64 = 8;

/// What becomes of a key: the seed and the length of its value, or no value.
type Write = Option<(u64, usize)>;

/// A writer of keys that no other writer uses, and what it knows of them.
pub(crate) struct Writer {
    name: String,
    random: Random,
    /// What was acknowledged last.
    acknowledged: BTreeMap<Vec<u8>, Write>,
    /// What was sent and not acknowledged before the connection broke, in order.
    in_flight: VecDeque<(Vec<u8>, Write)>,
}

impl Writer {
    pub(crate) fn new(number: u64) -> Writer {
        Writer {
            name: format!("writer{number}"),
            random: Random::new(number),
            acknowledged: BTreeMap::new(),
            in_flight: VecDeque::new(),
        }
    }

    /// Writes until the node is gone. Counts what is acknowledged.
    pub(crate) fn write_until_it_breaks(&mut self, address: SocketAddr, count: &AtomicU64) {
        let Ok(mut connection) = Connection::try_open(address) else { return };
        loop {
            let mut requests = Vec::new();
            for _ in 0..=self.random.below(PIPELINE_MAX) {
                let (key, write) = self.choose();
                append_request(&mut requests, &key, write);
                self.in_flight.push_back((key, write));
            }
            if connection.try_send(requests).is_err() {
                return;
            }
            while let Some((key, write)) = self.in_flight.front() {
                let Ok(response) = connection.try_response() else { return };
                let expected = if write.is_some() { 201 } else { 202 };
                assert_eq!(response.status, expected, "{}", response.text());
                self.acknowledged.insert(key.clone(), *write);
                self.in_flight.pop_front();
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn choose(&mut self) -> (Vec<u8>, Write) {
        let key = format!("{}-{:03}", self.name, self.random.below(KEYS)).into_bytes();
        let length = match self.random.below(100) {
            0..15 => return (key, None),
            15..20 => 0,
            20..80 => self.random.below(1_000),
            80..98 => self.random.below(16_000),
            _ => 250_000 + self.random.below(100_000),
        };
        (key, Some((self.random.next(), length as usize)))
    }

    /// Compares what the node has with what it may have: what was acknowledged, and of what was in flight, all or nothing. What
    /// it has now it must keep from now on.
    pub(crate) fn verify(&mut self, connection: &mut Connection) {
        let in_flight: Vec<_> = self.in_flight.drain(..).collect();
        for (key, _) in &in_flight {
            self.acknowledged.entry(key.clone()).or_insert(None);
        }
        for (key, known) in &mut self.acknowledged {
            let found = connection.value(key);
            let later = in_flight.iter().filter(|(other, _)| other == key).map(|(_, write)| *write);
            let mut possible = later.chain([*known]);
            let Some(write) = possible.find(|write| bytes_of(*write) == found) else {
                panic!(
                    "{} has {} instead of {known:?}, nor is it any of {in_flight:?}",
                    key.escape_ascii(),
                    found.map_or("nothing".to_owned(), |found| format!("{} bytes", found.len())),
                );
            };
            *known = write;
        }
    }

    /// What the node has to have, sorted by key.
    pub(crate) fn records(&self) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
        self.acknowledged.iter().filter_map(|(key, write)| Some((key.clone(), bytes_of(*write)?)))
    }
}

fn bytes_of(write: Write) -> Option<Vec<u8>> {
    write.map(|(seed, length)| value(seed, length))
}

fn append_request(requests: &mut Vec<u8>, key: &[u8], write: Write) {
    let target = entity(key);
    match bytes_of(write) {
        Some(value) => {
            let head = format!("PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", value.len());
            requests.extend_from_slice(head.as_bytes());
            requests.extend_from_slice(&value);
        }
        None => requests.extend_from_slice(format!("DELETE {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()),
    }
}
