use std::io::{self, BufRead, BufReader, BufWriter, Read, Write, stderr, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use ladoga_env::Clock;
use ladoga_env::real::RealClock;

use super::lines::{Chunk, Input, READ_BYTES, open};
use super::range::{Lines, Query, ask};
use super::record::{BEGINNING_BYTES, Record, key_of, record};
use super::tally::{ProgressLine, Tally};
use super::{Failure, node_url};
use crate::batch_arguments::{ExportArguments, ImportArguments};
use crate::client::{Request, Response, Url, percent_encoded};

/// Records that are asked for at once: each page is a snapshot of its own, and none is held for long.
const PAGE_RECORDS: u64 = 10_000;
/// The longest record: a value of 64 MiB in Base64, or with every byte escaped.
const RECORD_BYTES_MAX: u64 = 512 << 20;

/// Prints all records of a node or cluster, or those of a prefix.
pub(crate) fn export(arguments: &ExportArguments) -> Result<(), Failure> {
    let mut out = BufWriter::new(stdout().lock());
    let (mut records, mut after) = (0, None::<Vec<u8>>);
    let mut progress = ProgressLine::of("records");
    loop {
        let mut query = Query::default();
        query.add_key("prefix", arguments.prefix.as_deref());
        match &after {
            Some(key) => query.add("after", &percent_encoded(key)),
            None if arguments.prefix.is_none() => query.add("start", "%00"),
            None => {}
        }
        query.add("limit", &PAGE_RECORDS.to_string());
        query.add("scope", "cluster");
        let response = ask(&query, Some(("accept", "application/x-ndjson")), &arguments.node)?;
        let (mut lines, mut page) = (Lines::default(), Page::default());
        response.body(|piece| {
            lines.print(&mut out, piece)?;
            page.add(piece);
            progress.tell(records + page.records);
            Ok::<_, Failure>(())
        })?;
        records += page.records;
        if page.records < PAGE_RECORDS {
            break;
        }
        let last = page.last_key();
        after =
            Some(last.ok_or_else(|| Failure::Failed("the node sent a line that is no record".to_owned()))?);
    }
    out.flush()?;
    drop(progress);
    _ = writeln!(stderr(), "{records} records");
    Ok(())
}

/// Counts the lines of a page, and keeps the beginning of the last one.
#[derive(Default)]
struct Page {
    records: u64,
    beginning: Vec<u8>,
    last: Vec<u8>,
    is_within: bool,
}

impl Page {
    fn add(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            // An empty line says only that more is coming.
            if !self.is_within && part == b"\n" {
                continue;
            }
            let room = BEGINNING_BYTES - self.beginning.len();
            self.beginning.extend_from_slice(&part[..part.len().min(room)]);
            self.is_within = !part.ends_with(b"\n");
            if !self.is_within {
                self.records += 1;
                std::mem::swap(&mut self.last, &mut self.beginning);
                self.beginning.clear();
            }
        }
    }

    fn last_key(&self) -> Option<Vec<u8>> {
        key_of(&self.last)
    }
}

/// Stores the records of an export.
pub(crate) fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    let input = open(&arguments.file)?;
    let counts = Arc::<Counts>::default();
    let (counting, node) = (Arc::clone(&counts), url.clone());
    let input = Input::made_by(move |chunks| {
        if let Err(error) = pass_on_records(input, chunks, &node, &counting) {
            // If nobody listens any more, nobody wants to know.
            let _ = chunks.send(Err(error));
        }
    });
    let (mut tally, mut progress) = (Tally::default(), ProgressLine::of("records"));
    let read = |response: Response| {
        if response.status != 200 {
            return Err(Failure::Failed(response.line()));
        }
        response.body(|piece| {
            tally.add(piece);
            progress.tell(tally.answers + counts.large.load(Ordering::Relaxed));
            Ok::<_, Failure>(())
        })
    };
    let sent = input.send_to(&url, "/v0/batch", read);
    drop(progress);
    let stored = tally.successes() + counts.large.load(Ordering::Relaxed);
    let expired = counts.expired.load(Ordering::Relaxed);
    let left_out = if expired == 0 { String::new() } else { format!("; {expired} had expired") };
    _ = writeln!(stderr(), "{stored} records stored{left_out}");
    sent?;
    tally.outcome()
}

/// Records that are not in the batches.
#[derive(Default)]
struct Counts {
    /// Too large for a line, and stored each by itself.
    large: AtomicU64,
    expired: AtomicU64,
}

fn pass_on_records(
    input: Box<dyn Read + Send>,
    chunks: &SyncSender<io::Result<Chunk>>,
    url: &Url,
    counts: &Counts,
) -> io::Result<()> {
    let (mut input, clock) = (BufReader::with_capacity(READ_BYTES, input), RealClock::new());
    let (mut line, mut bytes, mut number) = (Vec::new(), Vec::new(), 0_u64);
    let mut is_over = false;
    while !is_over {
        line.clear();
        is_over = input.by_ref().take(RECORD_BYTES_MAX).read_until(b'\n', &mut line)? == 0;
        number += 1;
        let taken = match record(&line, clock.wall_ms()) {
            Ok(Record::Large { key, value, ttl_ms }) => {
                put(url, &key, &value, ttl_ms).map(|()| _ = counts.large.fetch_add(1, Ordering::Relaxed))
            }
            Ok(Record::Line(operation)) => {
                bytes.extend_from_slice(&operation);
                Ok(())
            }
            Ok(Record::Expired) => {
                counts.expired.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Ok(Record::Blank) => Ok(()),
            Err(reason) => Err(reason),
        };
        // Also what came before a line that is none.
        let is_due = bytes.len() >= READ_BYTES || is_over || taken.is_err();
        if is_due && !bytes.is_empty() {
            let chunk = Chunk { bytes: std::mem::take(&mut bytes), is_within_a_line: false };
            if chunks.send(Ok(chunk)).is_err() {
                return Ok(());
            }
        }
        taken.map_err(|reason| {
            let wanted = "expected the lines that ladoga export writes";
            io::Error::other(format!("line {number} was not imported: {reason}; {wanted}"))
        })?;
    }
    Ok(())
}

fn put(url: &Url, key: &[u8], value: &[u8], ttl_ms: Option<u64>) -> Result<(), String> {
    let ttl = ttl_ms.map_or_else(String::new, |ms| format!("&ttl={ms}ms"));
    let target = format!("/v0/entity?id={}{ttl}", percent_encoded(key));
    let request = Request { method: "PUT", target, field: None, body: Some(value) };
    let response = request.send(url).map_err(|error| error.to_string())?;
    if response.status == 201 { Ok(()) } else { Err(response.line()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_key_of_a_page_is_where_the_next_one_begins() {
        let lines = b"\n{\"key\":\"a\",\"value\":\"x\"}\n\n{\"key\":\"b\\\"\\u00e9\",\"etag\":\"\"}\n";
        for step in 1..=lines.len() {
            let mut page = Page::default();
            lines.chunks(step).for_each(|piece| page.add(piece));
            assert_eq!(
                (page.records, page.last_key()),
                (2, Some("b\"\u{e9}".as_bytes().to_vec())),
                "by {step}"
            );
        }
        let mut page = Page::default();
        page.add(b"{\"key_base64\":\"/w==\",\"value\":\"");
        page.add(&vec![b'v'; 2 * BEGINNING_BYTES]);
        page.add(b"\"}\n");
        assert_eq!((page.records, page.last_key()), (1, Some(b"\xff".to_vec())));
        page.add(b"nonsense\n");
        assert_eq!(page.last_key(), None);
    }
}
