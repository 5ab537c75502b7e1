//! Writes every record once, in scattered order, as fast as the server takes them: pipelined `PUT`s over a few
//! connections, each with a thread.

use std::collections::VecDeque;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ladoga_http1::answer::{Answers, Asked};

use crate::dataset::{Dataset, key};
use crate::random::Scattered;
use crate::stop::{OrFail, Outcome, Stop};

const CONNECTIONS: u64 = 4;
/// Requests on their way on one connection.
const PIPELINE: usize = 128;
/// A server that refuses gets this much time before it is asked again.
const PAUSE: Duration = Duration::from_millis(5);
const TIMEOUT: Duration = Duration::from_mins(1);
const READ_BYTES: usize = 64 * 1024;

/// How a fill went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    pub(crate) records: u64,
    pub(crate) elapsed: Duration,
    /// Answers that were 503; each was asked again.
    pub(crate) refused: u64,
}

impl Filled {
    pub(crate) fn per_second(&self) -> f64 {
        self.records as f64 / self.elapsed.as_secs_f64()
    }
}

/// Writes records 0 to `records`.
pub(crate) fn fill(address: SocketAddr, dataset: &Dataset, records: u64) -> Outcome<Filled> {
    fill_replicas(address, dataset, records, "")
}

/// As [`fill`], to so many replicas: `&replicas=ACK/FROM`.
pub(crate) fn fill_replicas(
    address: SocketAddr,
    dataset: &Dataset,
    records: u64,
    replicas: &str,
) -> Outcome<Filled> {
    let order = Scattered::new(records);
    let started = Instant::now();
    let refused = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|lane| {
                let numbers = (lane..records).step_by(CONNECTIONS as usize).map(move |step| order.at(step));
                scope.spawn(move || fill_lane(address, dataset, numbers, replicas))
            })
            .collect();
        let mut refused = 0;
        for thread in threads {
            let lane = thread.join().map_err(|_| Stop::Failed("a filling thread panicked".to_owned()))?;
            refused += lane.or_fail(|| "cannot fill the store".to_owned())?;
        }
        Ok(refused)
    })?;
    Ok(Filled { records, elapsed: started.elapsed(), refused })
}

/// One connection: half of the pipeline is written while the other half is answered. Answers how many were refused.
fn fill_lane(
    address: SocketAddr,
    dataset: &Dataset,
    numbers: impl Iterator<Item = u64>,
    replicas: &str,
) -> io::Result<u64> {
    let mut lane = Lane::connect(address)?;
    let mut numbers = numbers.fuse();
    let (mut again, mut refused, mut outbox) = (Vec::new(), 0, Vec::new());
    loop {
        outbox.clear();
        let room = PIPELINE - lane.waiting.len();
        let retries = again.len().min(room);
        for number in again.drain(..retries).chain(numbers.by_ref()).take(room) {
            append_put(&mut outbox, number, replicas, dataset.value(number));
            lane.waiting.push_back(number);
        }
        if lane.waiting.is_empty() {
            return Ok(refused);
        }
        lane.answers.stream().get_mut().write_all(&outbox)?;
        let before = again.len();
        lane.receive(PIPELINE / 2, &mut again)?;
        if again.len() > before {
            refused += (again.len() - before) as u64;
            std::thread::sleep(PAUSE);
        }
    }
}

struct Lane {
    address: SocketAddr,
    answers: Answers<BufReader<TcpStream>>,
    /// Of the last answer.
    body: Vec<u8>,
    /// Records without an answer yet, oldest first.
    waiting: VecDeque<u64>,
}

impl Lane {
    fn connect(address: SocketAddr) -> io::Result<Self> {
        Ok(Self { address, answers: open(address)?, body: Vec::new(), waiting: VecDeque::new() })
    }

    /// Takes answers until at most `left` are missing; what was refused goes to `again`.
    fn receive(&mut self, left: usize, again: &mut Vec<u64>) -> io::Result<()> {
        // The last ones have nothing behind them that would make room necessary.
        let left = if self.waiting.len() < PIPELINE { 0 } else { left };
        while self.waiting.len() > left {
            let head = self.answers.head(Asked::Ordinary)?;
            self.body.clear();
            self.answers.read_body(&mut self.body)?;
            let Some(number) = self.waiting.pop_front() else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "an answer that nobody asked for"));
            };
            match head.status {
                201 => {}
                503 => again.push(number),
                other => {
                    let text = String::from_utf8_lossy(&self.body);
                    return Err(io::Error::other(format!("a PUT got status {other}: {text}")));
                }
            }
            if !head.keep_alive {
                again.extend(self.waiting.drain(..));
                self.answers = open(self.address)?;
            }
        }
        Ok(())
    }
}

fn open(address: SocketAddr) -> io::Result<Answers<BufReader<TcpStream>>> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(Answers::new(BufReader::with_capacity(READ_BYTES, stream)))
}

fn append_put(out: &mut Vec<u8>, number: u64, replicas: &str, value: &[u8]) {
    out.extend_from_slice(b"PUT /v0/entity?id=");
    out.extend_from_slice(&key(number));
    out.extend_from_slice(replicas.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: ");
    out.extend_from_slice(value.len().to_string().as_bytes());
    out.extend_from_slice(b"\r\n\r\n");
    out.extend_from_slice(value);
}
