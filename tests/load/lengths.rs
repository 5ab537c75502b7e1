use std::thread;

use crate::support::{Launch, Node, entity, range, skip};

const MIB: u64 = 1 << 20;
/// What a process may have beside its budget, for stacks and the allocator's own bookkeeping: what target P8 has. (Code does not count:
/// how much of it is resident depends on the build.)
const OVERHEAD: u64 = 16 * MIB;
/// Bytes that are written of records of each length.
const BYTES: usize = 24 << 20;
const WRITERS: usize = 4;
/// Requests that are sent before the first is answered.
const PIPELINED: usize = 64;

/// How keys of one length differ.
#[derive(Debug, Clone, Copy)]
enum Differ {
    /// At their ends: they share all but that.
    AtTheEnd,
    /// At their beginning, and then at their ends: keys of a hundred families.
    InFamilies,
    /// Everywhere.
    Everywhere,
}

#[derive(Debug, Clone, Copy)]
struct Records {
    key_bytes: usize,
    value_bytes: usize,
    differ: Differ,
}

/// From the shortest to the longest.
const LENGTHS: [Records; 8] = [
    Records { key_bytes: 1, value_bytes: 4_000, differ: Differ::AtTheEnd },
    Records { key_bytes: 16, value_bytes: 0, differ: Differ::AtTheEnd },
    Records { key_bytes: 300, value_bytes: 300, differ: Differ::InFamilies },
    Records { key_bytes: 1_020, value_bytes: 10, differ: Differ::AtTheEnd },
    Records { key_bytes: 1_020, value_bytes: 10, differ: Differ::Everywhere },
    Records { key_bytes: 4_096, value_bytes: 0, differ: Differ::AtTheEnd },
    Records { key_bytes: 4_096, value_bytes: 0, differ: Differ::InFamilies },
    Records { key_bytes: 4_096, value_bytes: 3_000, differ: Differ::Everywhere },
];

impl Records {
    fn count(self) -> usize {
        // Small ones take long to be sent.
        (BYTES / (self.key_bytes + self.value_bytes)).min(60_000)
    }

    fn key(self, index: usize) -> String {
        // In no order.
        let index = index.wrapping_mul(7_919) % 1_000_003;
        let fill = |key: String, with: &str| {
            let missing = self.key_bytes.saturating_sub(key.len());
            format!("{}{key}", with.repeat(missing))
        };
        match self.differ {
            Differ::AtTheEnd if self.key_bytes == 1 => char::from(b'a' + (index % 26) as u8).to_string(),
            Differ::AtTheEnd => fill(format!("{index:07}"), "k"),
            Differ::InFamilies => format!("{:03}{}", index % 100, &fill(format!("{index:07}"), "k")[3..]),
            Differ::Everywhere => {
                let mut random = crate::support::Random::new(index as u64 + 1);
                let words = (0..self.key_bytes.div_ceil(16)).map(|_| format!("{:016x}", random.next()));
                let mut key = words.collect::<String>();
                key.truncate(self.key_bytes);
                key
            }
        }
    }

    /// Writes all records, through a few connections.
    fn write(self, node: &Node) {
        let write = |writer: usize| {
            let mut connection = node.connect();
            let value = "v".repeat(self.value_bytes);
            let mine: Vec<usize> = (writer..self.count()).step_by(WRITERS).collect();
            for some in mine.chunks(PIPELINED) {
                let request = |&index: &usize| {
                    let target = entity(self.key(index));
                    format!(
                        "PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{value}",
                        value.len()
                    )
                };
                connection.send(some.iter().map(request).collect::<String>());
                for _ in some {
                    let response = connection.response();
                    assert_eq!((response.status, response.text()), (201, ""), "{self:?}");
                }
            }
        };
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || write(writer));
            }
        });
    }

    fn read(self, node: &Node) {
        let mut connection = node.connect();
        for index in (0..self.count()).step_by(self.count().div_ceil(300)) {
            let value = connection.value(self.key(index));
            assert!(value.is_some_and(|value| value.len() == self.value_bytes), "{self:?}");
        }
        connection.send_request("GET", &range("!", None), None);
        assert_eq!(connection.response_head().status, 200);
        for _ in 0..2_000 {
            if connection.next_record().expect("a record").is_none() {
                break;
            }
        }
    }
}

/// With keys of 1,020 bytes that share most of that, 176 MiB were resident with a budget of 64.
fn check(memory: u64, lengths: &[Records]) {
    let memory_flag = format!("{memory}MiB");
    let launch = || Launch::patient().flag("--memory", &memory_flag).flag("--fsync", "never");
    for records in lengths {
        let mut node = launch().start();
        let check = |node: &Node, when: &str| {
            let taken = node.anonymous_bytes();
            let most = memory * MIB + OVERHEAD;
            assert!(taken < most, "{} MiB {when} with --memory {memory_flag}, {records:?}", taken / MIB);
        };
        records.write(&node);
        check(&node, "after writes");
        records.read(&node);
        check(&node, "after reads");
        // The log is read again.
        node.crash();
        check(&node, "after a restart");
        records.read(&node);
        check(&node, "after reads of what was read from the log");
        node.stop();
    }
}

#[test]
fn records_of_every_length_fit_into_16_mib() {
    check(16, &LENGTHS);
}

#[test]
fn records_of_every_length_fit_into_64_mib() {
    check(64, &LENGTHS[2..7]);
}

/// As many records as fill it take longer: with `LADOGA_TEST_LENGTHS` in the environment.
#[test]
fn records_of_every_length_fit_into_256_mib() {
    if std::env::var_os("LADOGA_TEST_LENGTHS").is_none() {
        return skip("takes long, and LADOGA_TEST_LENGTHS is not set");
    }
    check(256, &LENGTHS);
}
