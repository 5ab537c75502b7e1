use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use ladoga_http1::answer::{Answers, Asked};
use ladoga_tls::client::{Stream, TlsClient, open_stream};

/// Longer than anything takes that does not hang.
const DEADLINE: Duration = Duration::from_secs(90);

/// A connection that sends exactly the bytes that the test gives it.
pub(crate) struct Client {
    answers: Answers<BufReader<Box<dyn Stream>>>,
}

/// An answer: its status, its head in lower case, its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn closes(&self) -> bool {
        self.head.contains("connection: close\r\n")
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client::over(connect(address, None))
    }

    pub(crate) fn over(stream: Box<dyn Stream>) -> Client {
        Client { answers: Answers::new(BufReader::new(stream)) }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("a node that reads");
    }

    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        let stream = self.answers.stream().get_mut();
        stream.write_all(bytes.as_ref())?;
        stream.flush()
    }

    /// Announces a value, and sends nothing of it.
    pub(crate) fn announce(&mut self, key: &str, bytes: u64) {
        self.send(format!(
            "PUT /v0/entity?id={key} HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: {bytes}\r\n\r\n"
        ));
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.send(format!("GET {target} HTTP/1.1\r\nhost: h\r\n\r\n"));
        self.answer()
    }

    pub(crate) fn delete(&mut self, key: &str) -> Answer {
        self.send(format!("DELETE /v0/entity?id={key} HTTP/1.1\r\nhost: h\r\n\r\n"));
        self.answer()
    }

    pub(crate) fn put(&mut self, key: &str, value: &[u8]) -> Answer {
        self.send_put(key, value);
        self.answer()
    }

    pub(crate) fn send_put(&mut self, key: &str, value: &[u8]) {
        let head =
            format!("PUT /v0/entity?id={key} HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n", value.len());
        self.send([head.as_bytes(), value].concat());
    }

    pub(crate) fn answer(&mut self) -> Answer {
        self.timed_answer().1
    }

    /// An answer, and how long its head took.
    pub(crate) fn timed_answer(&mut self) -> (Duration, Answer) {
        let clock = RealClock::new();
        let began_ns = clock.monotonic_ns();
        let head = self.answers.head(Asked::Ordinary).expect("a head");
        let until_head = Duration::from_nanos(clock.monotonic_ns() - began_ns);
        let mut body = Vec::new();
        self.answers.read_body(&mut body).expect("a whole body");
        (until_head, Answer { status: head.status, head: in_lower_case(&head.bytes), body })
    }

    /// The head of an answer, also of an interim one. Its body is left in the stream.
    pub(crate) fn head(&mut self) -> String {
        in_lower_case(&self.answers.any_head(Asked::Head).expect("a head").bytes)
    }

    /// The bytes until the node closes the connection, and whether it closes it in order.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut rest = Vec::new();
        let end = self.answers.stream().read_to_end(&mut rest);
        if let Err(error) = &end {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the connection was not closed");
        }
        (rest, end.is_ok())
    }
}

/// A connection, with TLS or without.
pub(crate) fn connect(address: SocketAddr, tls: Option<&TlsClient>) -> Box<dyn Stream> {
    let socket = TcpStream::connect(address).expect("a node that listens");
    socket.set_read_timeout(Some(DEADLINE)).expect("a socket");
    socket.set_nodelay(true).expect("a socket");
    open_stream(socket, DEADLINE, tls).expect("a node that shakes hands")
}

fn in_lower_case(head: &[u8]) -> String {
    String::from_utf8(head.to_ascii_lowercase()).expect("a head of text")
}
