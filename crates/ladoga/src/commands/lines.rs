use std::io::{self, BufRead, BufReader, Read, stdin};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_env::real::RealClock;

use super::Failure;
use crate::client::{Response, Url, exchange};

/// How standard input is called.
pub(super) const STDIN: &str = "the standard input";
/// What is read at once.
const READ_BYTES: usize = 64 << 10;
/// A line that is longer is passed on in parts: the node says that it is too long.
const LINE_PART_BYTES: usize = 1 << 20;
/// Chunks that are read ahead.
const CHUNKS_AHEAD: usize = 4;
/// If the input rests for so long, the request ends, and the next line begins another one: a node cuts a client off that sends
/// nothing in the middle of a request.
const REST: Duration = Duration::from_secs(1);
/// Requests are no longer than this, so that a node that is to stop need not wait for one.
pub(super) const REQUEST_MS_MAX: u64 = 5_000;

/// Bytes of the input.
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    /// Whether a line goes on behind it.
    pub(super) is_within_a_line: bool,
}

/// The lines of an input, as they come.
pub(super) struct Input(Receiver<io::Result<Chunk>>);

/// Counts the lines that a node answers: all but blank ones.
#[derive(Default)]
struct AnsweredLines {
    count: u64,
    is_counted: bool,
}

impl AnsweredLines {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                self.is_counted = false;
            } else if !self.is_counted && !byte.is_ascii_whitespace() {
                self.count += 1;
                self.is_counted = true;
            }
        }
    }
}

/// The file, or standard input.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(Named { name: STDIN.to_owned(), input: stdin() }));
    }
    let name = path.display().to_string();
    #[expect(clippy::disallowed_methods, reason = "what a person wants to send is no part of a store")]
    let opened = std::fs::File::open(path);
    let input = opened.map_err(|error| Failure::Failed(not_read(&name, &error)))?;
    Ok(Box::new(Named { name, input }))
}

/// An input whose errors name it.
struct Named<R> {
    name: String,
    input: R,
}

impl<R: Read> Read for Named<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.input.read(buffer).map_err(|error| match error.kind() {
            // It is tried again.
            io::ErrorKind::Interrupted => error,
            // Without its kind: a broken pipe would be taken for an output that nobody reads.
            _ => io::Error::other(not_read(&self.name, &error)),
        })
    }
}

/// Why an input cannot be read.
pub(super) fn not_read(name: &str, error: &io::Error) -> String {
    format!("cannot read {name}: {error}")
}

impl Input {
    /// Passes on the lines of an input.
    pub(super) fn of(input: Box<dyn Read + Send>) -> Input {
        let (sender, receiver) = sync_channel(CHUNKS_AHEAD);
        // It may wait for standard input, whatever becomes of the process.
        thread::spawn(move || pass_on(input, &sender));
        Input(receiver)
    }

    /// The next chunk, however long that takes; none at the end.
    pub(super) fn wait(&mut self) -> Option<io::Result<Chunk>> {
        self.0.recv().ok()
    }

    /// The next chunk, unless the input rests between two lines, or is over.
    pub(super) fn next(&mut self, is_within_a_line: bool) -> Option<io::Result<Chunk>> {
        loop {
            match self.0.recv_timeout(REST) {
                Ok(chunk) => return Some(chunk),
                Err(RecvTimeoutError::Timeout) if is_within_a_line => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Sends everything to `target` in as many requests as it takes, and gives each answer to `read`. Returns how many lines have to
    /// be answered.
    pub(super) fn send_to(
        mut self,
        url: &Url,
        target: &str,
        mut read: impl FnMut(Response) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let (clock, mut lines) = (RealClock::new(), AnsweredLines::default());
        let now_ms = || clock.monotonic_ns() / 1_000_000;
        // Nothing more comes: that is the end.
        while let Some(first) = self.wait() {
            let (mut next, mut failure) = (Some(first?), None);
            let (mut is_within_a_line, began_ms) = (false, now_ms());
            let input = &mut self;
            let body = || {
                let is_over = || !is_within_a_line && now_ms() - began_ms > REQUEST_MS_MAX;
                let chunk = match next.take() {
                    Some(chunk) => chunk,
                    None if is_over() => return None,
                    None => match input.next(is_within_a_line)? {
                        Ok(chunk) => chunk,
                        Err(error) => {
                            failure = Some(error);
                            return None;
                        }
                    },
                };
                is_within_a_line = chunk.is_within_a_line;
                lines.add(&chunk.bytes);
                Some(chunk.bytes)
            };
            exchange(url, target, body, &mut read)??;
            if let Some(error) = failure {
                return Err(error.into());
            }
        }
        Ok(lines.count)
    }
}

fn pass_on(input: Box<dyn Read + Send>, sender: &SyncSender<io::Result<Chunk>>) {
    let mut input = BufReader::with_capacity(READ_BYTES, input);
    let mut begun = Vec::new();
    loop {
        let read = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                // If nobody listens any more, nobody wants to know.
                let _ = sender.send(Err(error));
                return;
            }
            Ok(read) => read,
        };
        let count = read.len();
        begun.extend_from_slice(read);
        input.consume(count);
        let whole = begun.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let chunk = if count == 0 || (whole == 0 && begun.len() > LINE_PART_BYTES) {
            Chunk { bytes: std::mem::take(&mut begun), is_within_a_line: count > 0 }
        } else {
            let rest = begun.split_off(whole);
            Chunk { bytes: std::mem::replace(&mut begun, rest), is_within_a_line: false }
        };
        let is_sent = chunk.bytes.is_empty() || sender.send(Ok(chunk)).is_ok();
        if count == 0 || !is_sent {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input that comes in pieces.
    struct Pieces(Vec<&'static [u8]>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn chunks(pieces: Vec<&'static [u8]>) -> Vec<(Vec<u8>, bool)> {
        let Input(receiver) = Input::of(Box::new(Pieces(pieces)));
        let chunk = |chunk: io::Result<Chunk>| {
            let Chunk { bytes, is_within_a_line } = chunk.expect("bytes");
            (bytes, is_within_a_line)
        };
        receiver.iter().map(chunk).collect()
    }

    #[test]
    fn lines_are_passed_on_whole() {
        let found = chunks(vec![b"a\nb", b"c", b"\n", b"d\ne\nf"]);
        let expected = [&b"a\n"[..], b"bc\n", b"d\ne\n", b"f"].map(|bytes| (bytes.to_vec(), false));
        assert_eq!(found, expected);
        assert_eq!(chunks(vec![]), []);
    }

    #[test]
    fn blank_lines_are_not_answered() {
        let text = b" {}\n\n \t\r\n{ }\r\n\n{";
        for step in 1..=text.len() {
            let mut lines = AnsweredLines::default();
            text.chunks(step).for_each(|piece| lines.add(piece));
            assert_eq!(lines.count, 3, "by {step}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_passed_on_in_parts() {
        const PIECE: &[u8] = &[b'x'; READ_BYTES];
        let count = LINE_PART_BYTES / READ_BYTES + 1;
        let mut pieces = vec![PIECE; count];
        pieces.push(b"\nnext\n");
        let found = chunks(pieces);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].0.len(), found[0].1), (count * READ_BYTES, true));
        assert_eq!(found[1], (b"\nnext\n".to_vec(), false));
    }
}
