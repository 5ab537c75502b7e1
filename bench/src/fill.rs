//! Writes every record once, in scattered order, as fast as the server takes them: batches over a few connections, each with
//! a thread.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ladoga_http1::answer::{Answers, Asked};

use crate::dataset::{Dataset, key};
use crate::random::Scattered;
use crate::stop::{OrFail, Outcome, Stop};

const CONNECTIONS: u64 = 4;
/// Records of one request.
const BATCH: usize = 256;
/// A server that refuses gets this much time before it is asked again.
const PAUSE: Duration = Duration::from_millis(5);
const TIMEOUT: Duration = Duration::from_mins(1);
const READ_BYTES: usize = 64 * 1024;

/// How a fill went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    pub(crate) records: u64,
    pub(crate) elapsed: Duration,
    /// Records that were answered by 503; each was written again.
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

/// As [`fill`], to so many replicas: `?replicas=ACK/FROM`.
pub(crate) fn fill_replicas(
    address: SocketAddr,
    dataset: &Dataset,
    records: u64,
    query: &str,
) -> Outcome<Filled> {
    let order = Scattered::new(records);
    let started = Instant::now();
    let refused = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|lane| {
                let numbers = (lane..records).step_by(CONNECTIONS as usize).map(move |step| order.at(step));
                scope.spawn(move || fill_lane(address, dataset, numbers, query))
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

/// One connection. Answers how many records were refused.
fn fill_lane(
    address: SocketAddr,
    dataset: &Dataset,
    numbers: impl Iterator<Item = u64>,
    query: &str,
) -> io::Result<u64> {
    let mut lane = Lane { address, query, answers: open(address)?, body: Vec::new(), outbox: Vec::new() };
    let mut numbers = numbers.fuse();
    let (mut batch, mut again, mut refused) = (Vec::new(), Vec::new(), 0);
    loop {
        batch.clear();
        let retries = again.len().min(BATCH);
        batch.extend(again.drain(..retries).chain(numbers.by_ref()).take(BATCH));
        if batch.is_empty() {
            return Ok(refused);
        }
        lane.write(&batch, dataset, &mut again)?;
        if !again.is_empty() {
            refused += again.len() as u64;
            std::thread::sleep(PAUSE);
        }
    }
}

struct Lane<'a> {
    address: SocketAddr,
    query: &'a str,
    answers: Answers<BufReader<TcpStream>>,
    /// Of the last answer.
    body: Vec<u8>,
    /// The lines of a request.
    outbox: Vec<u8>,
}

impl Lane<'_> {
    /// Writes the records of these numbers; what is refused goes to `again`.
    fn write(&mut self, batch: &[u64], dataset: &Dataset, again: &mut Vec<u64>) -> io::Result<()> {
        self.outbox.clear();
        for &number in batch {
            append_line(&mut self.outbox, number, dataset.value(number));
        }
        let (query, length) = (self.query, self.outbox.len());
        let head =
            format!("POST /v0/batch{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
        let stream = self.answers.stream().get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(&self.outbox)?;
        let head = self.answers.head(Asked::Ordinary)?;
        self.body.clear();
        self.answers.read_body(&mut self.body)?;
        match head.status {
            200 => take_outcomes(&self.body, batch, again)?,
            503 => again.extend(batch),
            other => {
                let text = String::from_utf8_lossy(&self.body);
                return Err(io::Error::other(format!("a batch got status {other}: {text}")));
            }
        }
        if !head.keep_alive {
            self.answers = open(self.address)?;
        }
        Ok(())
    }
}

/// Goes through the answers to the lines of a batch; what is refused goes to `again`.
fn take_outcomes(body: &[u8], batch: &[u64], again: &mut Vec<u64>) -> io::Result<()> {
    let lines: Vec<&[u8]> = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    if lines.len() != batch.len() {
        let (found, expected) = (lines.len(), batch.len());
        return Err(io::Error::other(format!("a batch got {found} answers, expected {expected}")));
    }
    for (line, number) in lines.into_iter().zip(batch) {
        // As our node writes nearly all of them: ten million need not be parsed.
        if line.starts_with(b"{\"status\":201,") {
            continue;
        }
        match serde_json::from_slice::<serde_json::Value>(line)?["status"].as_u64() {
            Some(201) => {}
            Some(503) => again.push(*number),
            _ => {
                let text = String::from_utf8_lossy(line);
                return Err(io::Error::other(format!("a line of a batch got {text}")));
            }
        }
    }
    Ok(())
}

fn open(address: SocketAddr) -> io::Result<Answers<BufReader<TcpStream>>> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(Answers::new(BufReader::with_capacity(READ_BYTES, stream)))
}

/// The line of a batch that puts a record. Keys and values are printable.
fn append_line(out: &mut Vec<u8>, number: u64, value: &[u8]) {
    out.extend_from_slice(b"{\"op\":\"put\",\"key\":\"");
    out.extend_from_slice(&key(number));
    out.extend_from_slice(b"\",\"value\":\"");
    for &byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.extend_from_slice(b"\"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_whatever_the_value_is() {
        let mut line = Vec::new();
        append_line(&mut line, 7, br#"a"b\c"#);
        assert_eq!(line.pop(), Some(b'\n'));
        let parsed: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
        assert_eq!(parsed["key"], "key:000000000007");
        assert_eq!(parsed["value"], r#"a"b\c"#);
    }

    #[test]
    fn what_is_refused_is_written_again_and_what_is_wrong_is_an_error() {
        let mut again = Vec::new();
        let body =
            b"{\"status\":201,\"etag\":\"x\"}\n{\"status\":503,\"error\":\"full\"}\n{\"status\":201}\n";
        take_outcomes(body, &[4, 5, 6], &mut again).expect("answers to each");
        assert_eq!(again, [5]);
        assert!(take_outcomes(body, &[4, 5], &mut again).is_err(), "one more than asked for");
        assert!(take_outcomes(b"{\"status\":400}\n", &[4], &mut again).is_err());
        assert!(take_outcomes(b"no JSON\n", &[4], &mut again).is_err());
    }
}
