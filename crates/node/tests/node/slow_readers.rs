//! Clients that read slowly and steadily. The buffer of the node's socket holds some MB, and there is room for more only once a third
//! of that is free: for longer than a timeout, nothing can be written to them.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use ladoga_env::sim::SimClock;
use ladoga_node::{Access, Config, Limits};
use ladoga_tls::client::Stream;

use crate::client::connect;
use crate::moves::certified;
use crate::running::Running;

/// What they read at a time.
const STEP: usize = 64 << 10;

/// How a client asks for the value, and the lines before the value.
const ASKED: [(&str, usize); 2] =
    [("GET /v0/entity?id=large HTTP/1.1\r\nhost: h\r\n\r\n", 6), ("GET large\r\n", 1)];

struct Reader(BufReader<Box<dyn Stream>>);

impl Reader {
    fn ask(stream: Box<dyn Stream>, (request, lines): (&str, usize)) -> Reader {
        let mut reader = Reader(BufReader::new(stream));
        reader.0.get_mut().write_all(request.as_bytes()).expect("a node that reads");
        let head: Vec<String> = (0..lines).map(|_| reader.line()).collect();
        assert!(head[0].starts_with("HTTP/1.1 200 OK") || head[0].starts_with('$'), "{head:?}");
        assert_eq!(head[0].starts_with('$'), !head[lines - 1].is_empty(), "{head:?}");
        reader
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a node that answers");
        line.trim_end().to_owned()
    }

    #[track_caller]
    fn expect(&mut self, expected: &[u8]) {
        let mut taken = vec![0; expected.len()];
        self.0.read_exact(&mut taken).expect("more of an answer");
        assert!(taken == expected);
    }
}

#[test]
fn who_takes_an_answer_slowly_gets_all_of_it() {
    let limits = Limits { request_timeout_ms: 60, answer_timeout_ms: 300, ..Limits::default() };
    let value: Vec<u8> = (0..100 * STEP).map(|index| (index / 7) as u8).collect();
    for secure in [None, Some(certified())] {
        let clock = SimClock::new();
        let any = "127.0.0.1:0".parse().expect("an address");
        let (node_tls, tls) = secure.unzip();
        let access = Arc::new(Access { tls: node_tls.map(Arc::new), ..Access::default() });
        let config =
            Config { limits: limits.clone(), resp: vec![any], access, ..Config::alone(vec![any], 2) };
        let running = Running::opening_with(Arc::new(clock.clone()), config);
        running.node.open(Arc::clone(&running.store));
        running.store.insert("large", &value);
        let addresses = [running.node.addresses()[0], running.node.resp_addresses()[0]];
        let streams = addresses.map(|address| connect(address, tls.as_ref()));
        let mut readers: Vec<Reader> =
            streams.into_iter().zip(ASKED).map(|(stream, asked)| Reader::ask(stream, asked)).collect();
        for expected in value.chunks(STEP) {
            readers.iter_mut().for_each(|reader| reader.expect(expected));
            clock.advance(Duration::from_millis(40));
            // The node looks at its connections every 15 ms.
            sleep(Duration::from_millis(30));
        }
    }
}

/// At 160 KiB a second, what there has to be room for takes more than the five seconds after which a client is judged.
#[test]
fn who_reads_steadily_gives_way_to_nobody() {
    const STEPS: usize = 60;
    let clock = SimClock::new();
    let limits = Limits { streams_max: 1, request_timeout_ms: 80, ..Limits::default() };
    let limits = Limits { answer_timeout_ms: 600_000, idle_timeout_ms: 600_000, ..limits };
    let running = Running::start_by(Arc::new(clock.clone()), limits);
    // More than the buffers of both sockets ever take beside what is read.
    let value = vec![b'v'; (STEPS + 256) * STEP];
    running.store.insert("large", &value);
    let mut steady = Reader::ask(connect(running.node.addresses()[0], None), ASKED[0]);
    let mut others: Vec<_> = (0..2).map(|_| running.connect()).collect();
    for step in 0..STEPS {
        steady.expect(&value[..STEP]);
        clock.advance(Duration::from_millis(400));
        // The node looks at its connections every 20 ms, and has done so once each event loop has answered twice.
        sleep(Duration::from_millis(50));
        for _ in 0..2 {
            others.iter_mut().for_each(|client| assert_eq!(client.get("/v0/status").status, 200));
        }
        assert_eq!(others[step % 2].get("/v0/entities?start=a").status, 503, "step {step}");
    }
    steady.expect(&value[STEPS * STEP..]);
}
