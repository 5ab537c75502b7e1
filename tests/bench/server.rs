//! A server of a few lines that behaves as badly as a test tells it to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What it does with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Answers with this status, and a body that is the request's target.
    Answer(u16),
    /// As `Answer(200)` to every fifth request, and as `Answer(500)` to the others.
    FifthIsGood,
    /// As `Answer(200)`, and closes after every answer.
    AnswerAndClose,
    /// As `Answer(200)`, and closes each connection after so many answers; the last one may say so.
    CloseAfter {
        answers: u32,
        says_so: bool,
    },
    /// As `AnswerAndClose`, without a length: the end of the connection is that of the answer.
    WithoutLength,
    /// As `Answer(200)`, until this many requests have come; then no request is answered for a time.
    Freeze {
        at_request: u64,
        time: Duration,
    },
    /// As `Answer(200)`, after a time.
    Slow(Duration),
    /// As `Answer(200)`, with an empty line behind the body.
    EmptyLine,
    /// As `EmptyLine`, a moment later.
    EmptyLineLater,
    /// As `Answer(200)`, one byte at a time.
    Drip,
    /// Closes without having read: the peer sees a reset.
    Reset,
    /// Answers with 413 to the head of a request, and closes without having read its body: the peer reads that, and sees a reset.
    Refuse,
    /// Reads the request and closes its side of the connection.
    HalfClose,
    Silent,
    Malformed,
    EndlessHead,
    EndlessBody,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    frozen_until: Mutex<Option<Instant>>,
    requests: AtomicU64,
    last_request: Mutex<String>,
}

impl Server {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (address, shared) = (listener.local_addr().expect("an address"), Arc::new(Shared::default()));
        let for_connections = Arc::clone(&shared);
        // The threads end with the process: what they wait for ends with the client.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&for_connections);
                thread::spawn(move || serve(stream, manner, &shared));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn last_request(&self) -> String {
        self.shared.last_request.lock().expect("a lock that no panic broke").clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Shared {
    fn freeze_if_told(&self, manner: Manner, number: u64) {
        let Manner::Freeze { at_request, time } = manner else { return };
        if number == at_request {
            *self.frozen_until.lock().expect("a lock that no panic broke") = Some(Instant::now() + time);
        }
        let until = *self.frozen_until.lock().expect("a lock that no panic broke");
        while let Some(left) = until.and_then(|until| until.checked_duration_since(Instant::now())) {
            thread::park_timeout(left);
        }
    }
}

fn serve(mut stream: TcpStream, manner: Manner, shared: &Shared) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    if manner == Manner::Reset {
        stream.peek(&mut [0]).ok()?;
        return None;
    }
    if manner == Manner::Refuse {
        stream.peek(&mut [0]).ok()?;
        shared.requests.fetch_add(1, Ordering::SeqCst);
        return stream
            .write_all(b"HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            .ok();
    }
    let mut buffered = Vec::new();
    for answered in 1.. {
        let request = read_request(&mut stream, &mut buffered)?;
        let number = 1 + shared.requests.fetch_add(1, Ordering::SeqCst);
        let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
        *shared.last_request.lock().expect("a lock that no panic broke") = request;
        shared.freeze_if_told(manner, number);
        let manner = match manner {
            Manner::FifthIsGood => Manner::Answer(if number.is_multiple_of(5) { 200 } else { 500 }),
            Manner::CloseAfter { answers, says_so } if answered == answers => {
                let last = if says_so { Manner::AnswerAndClose } else { Manner::Answer(200) };
                answer(&mut stream, last, &target)?;
                return None;
            }
            Manner::CloseAfter { .. } => Manner::Answer(200),
            manner => manner,
        };
        answer(&mut stream, manner, &target)?;
    }
    None
}

/// One request: its head and, as far as its length says so, its body.
pub(crate) fn read_request(stream: &mut impl Read, buffered: &mut Vec<u8>) -> Option<String> {
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = buffered.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffered[..end]).to_lowercase();
            let length = head.split("content-length: ").nth(1).map_or(0, |rest| {
                rest.split("\r\n").next().unwrap_or_default().parse::<usize>().unwrap_or(0)
            });
            if buffered.len() >= end + 4 + length {
                let request = buffered.drain(..end + 4 + length).collect();
                return String::from_utf8(request).ok();
            }
        }
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        buffered.extend_from_slice(&piece[..count]);
    }
}

fn answer(stream: &mut TcpStream, manner: Manner, target: &str) -> Option<()> {
    let with = |status: u16, extra: &str| {
        let length = target.len();
        format!("HTTP/1.1 {status} X\r\nX-Test: yes\r\n{extra}Content-Length: {length}\r\n\r\n{target}")
    };
    match manner {
        Manner::Freeze { .. } => stream.write_all(with(200, "").as_bytes()).ok(),
        Manner::Slow(time) => {
            thread::sleep(time);
            stream.write_all(with(200, "").as_bytes()).ok()
        }
        Manner::EmptyLine => stream.write_all((with(200, "") + "\r\n").as_bytes()).ok(),
        Manner::Answer(status) => stream.write_all(with(status, "").as_bytes()).ok(),
        Manner::AnswerAndClose => {
            stream.write_all(with(200, "Connection: close\r\n").as_bytes()).ok()?;
            None
        }
        Manner::EmptyLineLater => {
            stream.write_all(with(200, "").as_bytes()).ok()?;
            thread::sleep(Duration::from_millis(1));
            stream.write_all(b"\r\n").ok()
        }
        Manner::WithoutLength => {
            stream.write_all(format!("HTTP/1.1 200 X\r\n\r\n{target}").as_bytes()).ok()?;
            None
        }
        Manner::Drip => with(200, "").bytes().try_for_each(|byte| stream.write_all(&[byte])).ok(),
        Manner::HalfClose => {
            stream.shutdown(Shutdown::Write).ok()?;
            Some(())
        }
        // The last two are others by now.
        Manner::Silent | Manner::Reset | Manner::Refuse | Manner::FifthIsGood | Manner::CloseAfter { .. } => {
            Some(())
        }
        Manner::Malformed => stream.write_all(b"hello, this is no HTTP\r\n\r\n").ok(),
        Manner::EndlessHead => endless(stream, "HTTP/1.1 200 OK\r\n", "X-More: and more\r\n"),
        Manner::EndlessBody => {
            endless(stream, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nmore\r\n")
        }
    }
}

/// Until the client has enough of it.
fn endless(stream: &mut TcpStream, head: &str, piece: &str) -> Option<()> {
    stream.write_all(head.as_bytes()).ok()?;
    loop {
        stream.write_all(piece.repeat(100).as_bytes()).ok()?;
    }
}
