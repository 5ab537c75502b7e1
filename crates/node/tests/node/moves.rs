use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ladoga_env::real::RealClock;
use ladoga_node::{Access, Config, Placement};
use ladoga_tls::client::words::Hints;
use ladoga_tls::client::{Stream, TlsClient, Trust};
use ladoga_tls::{NodeTls, TlsPaths};

use crate::client::{Client, connect};
use crate::running::Running;
use crate::scripted::LARGE_BYTES;

/// A node whose connections move every few milliseconds, and how its clients speak to it.
struct Restless {
    running: Running,
    tls: Option<TlsClient>,
}

impl Restless {
    fn start(secure: Option<(NodeTls, TlsClient)>) -> Restless {
        let any = "127.0.0.1:0".parse().expect("an address");
        let (node_tls, tls) = secure.unzip();
        let access = Arc::new(Access { tls: node_tls.map(Arc::new), ..Access::default() });
        let config =
            Config { placement: Placement::Restless, resp: vec![any], access, ..Config::alone(vec![any], 3) };
        let running = Running::opening_with(Arc::new(RealClock::new()), config);
        running.node.open(Arc::clone(&running.store));
        Restless { running, tls }
    }

    fn connect(&self) -> Client {
        Client::over(connect(self.running.node.addresses()[0], self.tls.as_ref()))
    }
}

/// Does this with such a node in the clear, and with one with TLS.
fn with_each(act: impl Fn(Restless)) {
    act(Restless::start(None));
    act(Restless::start(Some(certified())));
}

/// How many certificates there were.
static CERTIFIED: AtomicUsize = AtomicUsize::new(0);

/// What a node shows, and clients that accept it.
#[expect(clippy::disallowed_methods, reason = "a node reads its certificate from files")]
pub(crate) fn certified() -> (NodeTls, TlsClient) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let number = CERTIFIED.fetch_add(1, Ordering::Relaxed);
    let file = |what: &str| directory.join(format!("node-{}-{number}-{what}.pem", process::id()));
    let paths = TlsPaths {
        certificate: file("certificate"),
        key: file("key"),
        client_authority: None,
        peer_authority: None,
    };
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let files = [(&paths.certificate, made.cert.pem()), (&paths.key, made.signing_key.serialize_pem())];
    files.iter().for_each(|(path, content)| std::fs::write(path, content).expect("a file"));
    let read = paths.read();
    files.iter().for_each(|(path, _)| std::fs::remove_file(path).expect("a file"));
    let node = NodeTls::new(read.expect("files")).expect("a certificate and its key");
    let client = TlsClient::new("127.0.0.1", &Trust::Anybody, None, Hints::PEER).expect("a client");
    (node, client)
}

/// How often connections have gone to another event loop so far.
fn moves(client: &mut Client) -> u64 {
    let metrics = client.get("/metrics");
    let line = metrics.text().lines().find(|line| line.starts_with("ladoga_connections_moved_total"));
    line.and_then(|line| line.split(' ').next_back()?.parse().ok()).expect("a metric")
}

/// Does this until connections have moved so many times.
fn until_moved(restless: &Restless, times: u64, mut act: impl FnMut(&mut Client, u32)) {
    let (mut client, mut watcher) = (restless.connect(), restless.connect());
    let (enough, mut round) = (moves(&mut watcher) + times, 0);
    while moves(&mut watcher) < enough {
        act(&mut client, round);
        round += 1;
    }
}

#[test]
fn requests_in_pieces_are_whole_wherever_they_arrive() {
    with_each(|restless| {
        until_moved(&restless, 200, |client, round| {
            let request = format!(
                "PUT /v0/entity?id=k HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\n\r\n{:04}",
                round % 10_000
            );
            for byte in request.as_bytes().chunks(1 + round as usize % 7) {
                client.send(byte);
            }
            assert_eq!(client.answer().status, 201);
            assert_eq!(client.get("/v0/entity?id=k").text(), format!("{:04}", round % 10_000));
        });
    });
}

#[test]
fn requests_behind_each_other_are_answered_in_order_wherever_they_arrive() {
    with_each(|restless| {
        for number in 0..8 {
            restless.running.store.insert(&format!("k{number}"), format!("value {number}").as_bytes());
        }
        until_moved(&restless, 200, |client, round| {
            let keys = (0..20).map(|number| (round + number) % 8);
            let request = |key| format!("GET /v0/entity?id=k{key} HTTP/1.1\r\nhost: h\r\n\r\n");
            client.send(keys.clone().map(request).collect::<Vec<_>>().concat());
            for key in keys {
                assert_eq!(client.answer().text(), format!("value {key}"));
            }
        });
    });
}

#[test]
fn values_larger_than_memory_go_through_connections_that_move() {
    with_each(|restless| {
        let value: Vec<u8> = (0..LARGE_BYTES * 3 + 7).map(|index| index as u8).collect();
        until_moved(&restless, 50, |client, _| {
            assert_eq!(client.put("large", &value).status, 201);
            assert!(client.get("/v0/entity?id=large").body == value);
        });
    });
}

#[test]
fn connections_that_move_are_counted_once_and_end_with_the_node() {
    with_each(|restless| {
        let mut idle: Vec<_> = (0..20).map(|_| restless.connect()).collect();
        // The system connects before the node accepts.
        idle.iter_mut().for_each(|client| assert_eq!(client.get("/livez").status, 200));
        let mut redis: Vec<_> = (0..8).map(|_| RedisClient::connect(&restless)).collect();
        redis.iter_mut().for_each(|client| assert_eq!(client.ask("PING"), "+PONG"));
        until_moved(&restless, 200, |client, _| {
            let metrics = client.get("/metrics");
            let open = metrics
                .text()
                .lines()
                .find(|line| line.starts_with("ladoga_connections "))
                .expect("a metric");
            assert_eq!(open, "ladoga_connections 30");
        });
        for client in &mut idle {
            assert_eq!(client.get("/livez").status, 200);
        }
        restless.running.node.stop().expect("a node that stops");
        for client in &mut idle {
            assert!(client.rest().0.is_empty());
        }
        for client in &mut redis {
            assert_eq!(client.line(), "", "an end in order");
        }
    });
}

/// A client of Redis.
struct RedisClient(BufReader<Box<dyn Stream>>);

impl RedisClient {
    fn connect(restless: &Restless) -> RedisClient {
        RedisClient(BufReader::new(connect(restless.running.node.resp_addresses()[0], restless.tls.as_ref())))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("a node that reads");
    }

    /// The next line that it says.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a node that answers");
        line.trim_end().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        self.send(format!("{command}\r\n").as_bytes());
        self.line()
    }
}

#[test]
fn a_client_of_redis_is_known_wherever_it_is_served() {
    with_each(|restless| {
        restless.running.store.insert("k", b"value");
        let mut client = RedisClient::connect(&restless);
        assert_eq!(client.ask("CLIENT SETNAME lake"), "+OK");
        assert_eq!(client.ask("LADOGA.REPLICAS 1/1"), "+OK");
        let id = client.ask("CLIENT ID");
        let mut silent = RedisClient::connect(&restless);
        silent.send(b"CLIENT REPLY OFF\r\n");
        until_moved(&restless, 200, |_, round| {
            assert_eq!(client.ask("CLIENT ID"), id);
            assert_eq!((client.ask("CLIENT GETNAME"), client.line()), ("$4".to_owned(), "lake".to_owned()));
            for bytes in b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".chunks(1 + round as usize % 5) {
                client.send(bytes);
            }
            assert_eq!((client.line(), client.line()), ("$5".to_owned(), "value".to_owned()));
            client.send(&b"GET k\r\n".repeat(40));
            for _ in 0..40 {
                assert_eq!((client.line(), client.line()), ("$5".to_owned(), "value".to_owned()));
            }
            silent.send(b"PING\r\n");
        });
        silent.send(b"PING\r\nCLIENT REPLY ON\r\n");
        assert_eq!(silent.line(), "+OK", "nothing before that was answered");
    });
}

#[test]
fn what_is_queued_and_watched_stays_with_its_connection() {
    with_each(|restless| {
        let mut client = RedisClient::connect(&restless);
        until_moved(&restless, 100, |_, round| {
            assert_eq!(client.ask("MULTI"), "+OK");
            for _ in 0..=round % 5 {
                assert_eq!(client.ask("PING"), "+QUEUED");
            }
            let count = round % 5 + 1;
            assert_eq!(client.ask("EXEC"), format!("*{count}"));
            for _ in 0..count {
                assert_eq!(client.line(), "+PONG");
            }
            assert_eq!(client.ask("UNWATCH"), "+OK");
        });
    });
}

#[test]
fn a_value_that_comes_in_pieces_is_whole_however_often_its_connection_was_asked_to_move() {
    with_each(|restless| {
        let mut client = RedisClient::connect(&restless);
        let value: Vec<u8> = (0..LARGE_BYTES * 2 + 7).map(|index| b'a' + (index % 26) as u8).collect();
        until_moved(&restless, 50, |_, _| {
            client.send(format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${}\r\n", value.len()).as_bytes());
            value.chunks(value.len() / 3 + 1).for_each(|piece| client.send(piece));
            client.send(b"\r\n");
            assert_eq!(client.line(), "+OK");
            assert_eq!(client.ask("STRLEN large"), format!(":{}", value.len()));
        });
    });
}
