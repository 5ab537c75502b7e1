use std::io::{self, Write};
use std::sync::Arc;

use ladoga_env::real::RealClock;
use ladoga_node::store::StoreError;
use ladoga_node::{Access, Audit, AuditLog, Config, Limits};
use parking_lot::Mutex;

use crate::client::{Client, connect};
use crate::running::Running;
use crate::scripted::{LARGE_BYTES, Script};

/// What is written is kept, and is still there for others.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A node that writes every write down, and where to.
struct Audited {
    running: Running,
    access: Arc<Access>,
    log: Shared,
}

impl Audited {
    fn start(limits: Limits) -> Audited {
        let log = Shared::default();
        let audit = Some(Arc::new(
            Audit::start(AuditLog { file: log.clone(), is_torn: false }, true).expect("a thread"),
        ));
        let access = Arc::new(Access { audit, ..Access::default() });
        let any = "127.0.0.1:0".parse().expect("an address");
        let alone = Config::alone(vec![any], 2);
        let config = Config { access: Arc::clone(&access), resp: vec![any], limits, ..alone };
        let running = Running::opening_with(Arc::new(RealClock::new()), config);
        running.node.open(Arc::clone(&running.store));
        Audited { running, access, log }
    }

    /// All that was written, once nothing more will be.
    fn log(&self) -> String {
        self.access.close();
        String::from_utf8(self.log.0.lock().clone()).expect("text")
    }
}

fn send_batch(client: &mut Client, query: &str, lines: &str) {
    let length = lines.len();
    client.send(format!(
        "POST /v0/batch{query} HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n{lines}"
    ));
}

/// Nobody may know whether they happened, so the audit log has them.
#[test]
fn the_lines_of_an_atomic_batch_that_fails_are_written_down() {
    let audited = Audited::start(Limits::default());
    let no_room = StoreError::NoRoom { reason: "the disk is full".to_owned() };
    audited.running.store.tell(Script { apply: Some(no_room), ..Script::default() });
    let lines = "{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n{\"op\":\"delete\",\"key\":\"b\"}\n";
    let mut client = audited.running.connect();
    send_batch(&mut client, "?atomic=true", lines);
    assert_eq!(client.answer().status, 507);
    let log = audited.log();
    for what in ["batch put a", "batch delete b"] {
        assert!(log.contains(&format!("\"what\":\"{what}\",\"status\":\"507\"")), "{what}: {log}");
    }
}

/// They were written down only once somebody heard of their end, and they were there all the same.
#[test]
fn writes_whose_connections_are_cut_off_are_written_down() {
    let limits = Limits { drain_timeout_ms: 1, ..Limits::default() };
    let audited = Audited::start(limits);
    let Running { node, store } = &audited.running;
    store.tell(Script { holds: true, ..Script::default() });
    let put = |key: &str| format!("{{\"op\":\"put\",\"key\":\"{key}\",\"value\":\"1\"}}\n");
    store.insert("h", b"1");
    let mut clients: Vec<Client> = (0..5).map(|_| audited.running.connect()).collect();
    send_batch(&mut clients[0], "", &[put("a"), put("b")].concat());
    send_batch(&mut clients[1], "?atomic=true", &put("c"));
    clients[2].send_put("d", b"1");
    // Of this one, a part is to come: nothing is stored.
    clients[3].send("PUT /v0/entity?id=e HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n1");
    // A body that nobody reads holds up nothing.
    clients[4].send("DELETE /v0/entity?id=h HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}");
    let mut redis: Vec<Client> =
        (0..2).map(|_| Client::over(connect(node.resp_addresses()[0], None))).collect();
    redis[0].send("*3\r\n$3\r\nSET\r\n$1\r\nf\r\n$1\r\n1\r\n");
    let large = "1".repeat(LARGE_BYTES as usize);
    redis[1].send(format!("*3\r\n$3\r\nSET\r\n$1\r\ng\r\n${LARGE_BYTES}\r\n{large}\r\n"));
    let is_written = |key: &&str| store.value(key).is_some();
    while !["a", "b", "c", "d", "f", "g"].iter().all(is_written) || is_written(&"h") {
        std::thread::yield_now();
    }
    let Audited { running: Running { node, .. }, access, log } = audited;
    node.stop().expect("a node that stops");
    access.close();
    let log = String::from_utf8(log.0.lock().clone()).expect("text");
    let mut whats: Vec<&str> = log
        .lines()
        .map(|line| {
            line.split_once("\"what\":\"")
                .and_then(|(_, what)| what.strip_suffix("\",\"status\":\"unknown\"}"))
        })
        .map(|what| what.unwrap_or("another status"))
        .collect();
    whats.sort_unstable();
    let expected = [
        "DELETE /v0/entity?id=h",
        "PUT /v0/entity?id=d",
        "SET f",
        "SET g",
        "batch put a",
        "batch put b",
        "batch put c",
    ];
    assert_eq!(whats, expected, "{log}");
}

impl Audited {
    /// Sends requests without a body on one connection; answers which of them are written down.
    fn written_of(self, requests: &[(&str, bool)]) -> Vec<String> {
        let mut client = self.running.connect();
        for (request, _) in requests {
            client.send(format!("{request} HTTP/1.1\r\nhost: h\r\n\r\n"));
            client.answer();
        }
        let log = self.log();
        let lines = log.lines();
        let whats = lines.filter_map(|line| line.split_once("\"what\":\"")?.1.split_once("\",\"status\""));
        whats.map(|(what, _)| what.to_owned()).collect()
    }
}

/// Requests, and whether each is written down.
fn expect_written(requests: &[(&str, bool)]) {
    let written = Audited::start(Limits::default()).written_of(requests);
    let expected = requests.iter().filter(|(_, is_written)| *is_written).map(|(request, _)| *request);
    assert_eq!(written, expected.collect::<Vec<_>>());
}

/// Only the beginning of a backup was written down, and what is kept of the log can be read without one.
#[test]
fn each_step_of_a_backup_is_written_down_and_each_file_once() {
    expect_written(&[
        ("POST /v0/backup", true),
        ("POST /v0/backup?log_after=7", true),
        ("GET /v0/backup?id=00000000000000ff&file=listing", true),
        ("GET /v0/backup?id=00000000000000ff&file=tables/000012.sst&offset=0", true),
        ("GET /v0/backup?id=00000000000000ff&file=tables/000012.sst&offset=7", false),
        ("GET /v0/backup?file=log/000012.wal&offset=0&bytes=9", true),
        ("GET /v0/backup?file=log/000012.wal&offset=9", false),
        ("GET /v0/backup", false),
        ("DELETE /v0/backup?id=00000000000000ff", true),
    ]);
}

/// Whoever left out its first byte had it without a line.
#[test]
fn a_file_that_is_not_fetched_from_its_beginning_is_written_down_too() {
    expect_written(&[
        ("GET /v0/backup?file=log/000012.wal&offset=7", true),
        ("GET /v0/backup?file=log/000012.wal&offset=70", false),
        ("GET /v0/backup?file=log/000013.wal&offset=7", true),
        ("GET /v0/backup?id=00000000000000ff&file=log/000013.wal&offset=7", true),
        ("GET /v0/backup?id=00000000000000fe&file=log/000013.wal&offset=7", true),
        ("GET /v0/entity?id=a", false),
        ("GET /v0/backup?id=00000000000000fe&file=log/000013.wal&offset=8", false),
        ("GET /v0/backup?file=log/000012.wal&offset=7", true),
        ("GET /v0/backup?file=log/000012.wal", true),
    ]);
}
