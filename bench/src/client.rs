//! A client that waits for each answer: for status, for checks, for a range of everything.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ladoga_http1::answer::{Answers, Asked, Length};

use crate::dataset::{Dataset, key};
use crate::random::Random;
use crate::stop::{OrFail, Outcome, failed};

/// More than any node sends at once.
const CHUNK_BYTES_MAX: usize = 64 << 20;

const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Client {
    answers: Answers<BufReader<TcpStream>>,
    body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { answers: Answers::new(BufReader::new(stream)), body: Vec::new() })
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<(u16, &[u8])> {
        self.send_get(path)?;
        let head = self.answers.head(Asked::Ordinary)?;
        self.body.clear();
        self.answers.read_body(&mut self.body)?;
        Ok((head.status, &self.body))
    }

    fn send_get(&mut self, path: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        self.answers.stream().get_mut().write_all(request.as_bytes())
    }

    /// Reads a chunked answer to its end; `each` gets every chunk.
    fn get_chunked(&mut self, path: &str, mut each: impl FnMut(&[u8])) -> io::Result<u16> {
        self.send_get(path)?;
        let head = self.answers.head(Asked::Ordinary)?;
        if head.length != Length::Chunked {
            return Ok(head.status);
        }
        while self.answers.next_chunk(&mut self.body, CHUNK_BYTES_MAX)? {
            each(&self.body);
        }
        Ok(head.status)
    }
}

/// Whether a node answers 200 on its status page.
pub(crate) fn is_serving(address: SocketAddr) -> bool {
    let answer = Client::connect(address).and_then(|mut client| Ok(client.get("/v0/status")?.0));
    matches!(answer, Ok(200))
}

/// Reads `count` records, picked at random out of `records`: each must be there, with its value.
pub(crate) fn check_records(address: SocketAddr, dataset: &Dataset, records: u64, count: u64) -> Outcome {
    let mut client = Client::connect(address).or_fail(|| format!("cannot connect to {address}"))?;
    let mut random = Random::new(records ^ count);
    for _ in 0..count {
        let number = random.below(records);
        let name = String::from_utf8_lossy(&key(number)).into_owned();
        let (status, body) =
            client.get(&format!("/v0/entity?id={name}")).or_fail(|| format!("cannot read {name}"))?;
        if status != 200 || body != dataset.value(number) {
            return failed(format!("{name} is lost or wrong: status {status}, {} bytes", body.len()));
        }
    }
    Ok(())
}

/// What a range of everything had.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scanned {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) out_of_order: u64,
}

/// `GET /v0/entities` from the first key to the end, one chunk a record.
pub(crate) fn scan_everything(address: SocketAddr) -> Outcome<Scanned> {
    let (mut scanned, mut last) = (Scanned::default(), Vec::new());
    scan(address, |key, record_bytes| {
        scanned.records += 1;
        scanned.bytes += record_bytes as u64;
        scanned.out_of_order += u64::from(key <= last.as_slice());
        last.clear();
        last.extend_from_slice(key);
    })?;
    Ok(scanned)
}

/// The numbers of the records that this node has itself.
pub(crate) fn numbers_at(address: SocketAddr) -> Outcome<Vec<u64>> {
    let mut numbers = Vec::new();
    scan(address, |key, _| {
        let digits = key.strip_prefix(b"key:").and_then(|digits| std::str::from_utf8(digits).ok());
        numbers.extend(digits.and_then(|digits| digits.parse::<u64>().ok()));
    })?;
    Ok(numbers)
}

/// `each` gets the key and the bytes of each record.
fn scan(address: SocketAddr, mut each: impl FnMut(&[u8], usize)) -> Outcome {
    let mut client = Client::connect(address).or_fail(|| format!("cannot connect to {address}"))?;
    let status = client
        .get_chunked("/v0/entities?start=key:", |chunk| {
            let Some(key_bytes) = chunk.iter().position(|byte| *byte == b'\n') else { return };
            each(&chunk[..key_bytes], chunk.len());
        })
        .or_fail(|| "a range of everything broke off".to_owned())?;
    if status == 200 { Ok(()) } else { failed(format!("a range of everything got status {status}")) }
}

/// A document in JSON.
pub(crate) fn get_json(address: SocketAddr, path: &str) -> Outcome<serde_json::Value> {
    let failure = || format!("cannot read {path} of {address}");
    let mut client = Client::connect(address).or_fail(failure)?;
    let (status, body) = client.get(path).or_fail(failure)?;
    if status != 200 {
        return failed(format!("{path} of {address} got status {status}"));
    }
    serde_json::from_slice(body).or_fail(failure)
}
