use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use crate::error::{LabError, Outcome};
use crate::http::ResponseParser;
use crate::load::connect;
use crate::workload::Renderer;
use ladoga_tls::client::{Stream, TlsClient};

/// No answer comes as late as this from a server that lives.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const RECEIVE_BYTES: usize = 64 * 1024;
/// A server that is over capacity is asked again after a pause, at most so many times.
const REFUSALS_MAX: u32 = 600;
/// Connections without any answer, one after the other. One with an answer is no failure: many servers end a connection after some
/// hundred requests.
const FAILURES_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// What the connections share.
pub(super) struct Fill<'a> {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<TlsClient>,
    pub(super) renderer: Renderer,
    pub(super) has_shown_token: bool,
    pub(super) keys: u64,
    /// The most requests that are on their way at once on a connection.
    pub(super) batch: u64,
    /// The first key that no connection has taken.
    pub(super) next: AtomicU64,
    /// Acknowledged.
    pub(super) done: AtomicU64,
    pub(super) stop: &'a AtomicBool,
}

impl Fill<'_> {
    /// The next keys that no other connection writes; none if there are no more.
    fn take_keys(&self) -> Option<Vec<u64>> {
        let from = self.next.fetch_add(self.batch, Ordering::Relaxed);
        (from < self.keys).then(|| (from..self.keys.min(from + self.batch)).collect())
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Writes some keys on a connection.
    fn write_batch(&self, stream: &mut (impl Read + Write + ?Sized), keys: &[u64]) -> io::Result<Written> {
        let mut bytes = Vec::new();
        keys.iter().for_each(|key| self.renderer.put(*key, &mut bytes));
        match stream.write_all(&bytes) {
            Err(error) if !has_ended(&error) => return Err(in_words(error)),
            _ => {} // What was answered before the end is there to be read.
        }
        let (mut parser, mut buffer) = (ResponseParser::new(false), vec![0; RECEIVE_BYTES]);
        let (mut written, mut waiting) = (Written::default(), keys.iter().copied());
        while waiting.len() > 0 && written.ended.is_none() && !self.is_stopped() {
            let length = match stream.read(&mut buffer) {
                Ok(length) => length,
                // A process that was stopped goes on.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if has_ended(&error) => {
                    written.ended = Some(in_words(error));
                    break;
                }
                Err(error) => return Err(in_words(error)),
            };
            if length == 0 {
                written.ended = Some(in_words(ErrorKind::UnexpectedEof.into()));
                if let Some(answer) = parser.end_of_input() {
                    self.answered(answer.status, waiting.next(), &mut written)?;
                }
            }
            let mut at = 0;
            while at < length && written.ended.is_none() {
                let malformed = |_| io::Error::other("the server sent something that is not HTTP");
                let (taken, answer) = parser.advance(&buffer[at..length], false).map_err(malformed)?;
                at += taken;
                let Some(answer) = answer else { continue };
                self.answered(answer.status, waiting.next(), &mut written)?;
                if !answer.keep_alive {
                    written.ended = Some(in_words(ErrorKind::UnexpectedEof.into()));
                }
            }
        }
        written.unanswered.extend(waiting);
        Ok(written)
    }

    fn answered(&self, status: u16, key: Option<u64>, written: &mut Written) -> io::Result<()> {
        match (status, key) {
            (200..=299, Some(_)) => {}
            (503, Some(key)) => written.refused.push(key),
            (status, Some(key)) => {
                return Err(io::Error::other(refusal(key, status, self.has_shown_token)));
            }
            (_, None) => return Err(io::Error::other("the server sent more answers than requests")),
        }
        Ok(())
    }
}

/// What became of keys that were sent; the others were acknowledged.
#[derive(Debug, Default)]
struct Written {
    /// Refused for now.
    refused: Vec<u64>,
    /// Without an answer. To write a key twice does no harm.
    unanswered: Vec<u64>,
    /// What is to be said of the connection, if it has ended and nothing else helps.
    ended: Option<io::Error>,
}

/// Writes keys on a connection, and on another one when the server has ended that.
pub(super) struct Writer<'a> {
    fill: &'a Fill<'a>,
    stream: Option<Box<dyn Stream>>,
    /// At most so many requests are on their way: not many more than the server answers before it ends a connection, because all
    /// others are sent in vain.
    batch: usize,
    /// Since the last answer.
    failures: u32,
}

impl<'a> Writer<'a> {
    pub(super) fn new(fill: &'a Fill<'a>) -> Self {
        Self { fill, stream: None, batch: fill.batch as usize, failures: 0 }
    }

    pub(super) fn write_until_done(mut self, ended: &Sender<Outcome<()>>) {
        let result = self.write_all().map_err(LabError::system("fill the store"));
        let _ = ended.send(result); // Nobody listens if another connection failed first.
    }

    fn write_all(&mut self) -> io::Result<()> {
        while !self.fill.is_stopped()
            && let Some(mut keys) = self.fill.take_keys()
        {
            let mut refusals = 0;
            while !keys.is_empty() && !self.fill.is_stopped() {
                let rest = keys.split_off(self.batch.min(keys.len()));
                let written = self.write_some(&keys)?;
                if !written.refused.is_empty() {
                    refusals += 1;
                    if refusals > REFUSALS_MAX {
                        return Err(io::Error::other("the server kept refusing writes as over capacity"));
                    }
                    std::thread::park_timeout(PAUSE);
                }
                keys = [written.refused, written.unanswered, rest].concat();
            }
        }
        Ok(())
    }

    /// Writes keys on the connection, or on a new one. It is an error if connections keep ending before anything is answered.
    fn write_some(&mut self, keys: &[u64]) -> io::Result<Written> {
        let mut written = match self.write_on_stream(keys) {
            Ok(written) => written?,
            Err(why) => Written { unanswered: keys.to_vec(), ended: Some(why), ..Written::default() },
        };
        let answered = keys.len() - written.unanswered.len();
        let acknowledged = answered - written.refused.len();
        self.fill.done.fetch_add(acknowledged as u64, Ordering::Relaxed);
        if answered > 0 {
            self.failures = 0;
        }
        let Some(why) = written.ended.take() else {
            self.batch = (self.batch * 2).min(self.fill.batch as usize);
            return Ok(written);
        };
        self.stream = None;
        self.batch = answered.max(1);
        if answered == 0 {
            self.failures += 1;
            if self.failures >= FAILURES_MAX {
                return Err(why);
            }
            std::thread::park_timeout(PAUSE);
        }
        Ok(written)
    }

    /// The outer error is that no connection was made.
    fn write_on_stream(&mut self, keys: &[u64]) -> Result<io::Result<Written>, io::Error> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let (_, stream) = connect(&self.fill.address, ANSWER_TIMEOUT, self.fill.tls.as_ref())?;
                self.stream.insert(stream)
            }
        };
        Ok(self.fill.write_batch(stream, keys))
    }
}

/// What a server said to a write, and what to do about it.
fn refusal(key: u64, status: u16, has_shown_token: bool) -> String {
    let reason = match (status, has_shown_token) {
        (401, false) => {
            ": the server asks for a token and was shown none: name one with --token-file FILE or in LADOGA_TOKEN"
        }
        (401, true) => ": the server does not accept the token that it was shown",
        (403, _) => ": the server does not permit it; a token needs the right to write this key",
        _ => "",
    };
    format!("PUT of key{key} was answered with {status}{reason}")
}

/// Whether the server has ended the connection, in whichever way.
fn has_ended(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof)
}

/// What went wrong with a connection, with TLS or without.
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => io::Error::other("the server closed the connection before it answered"),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            io::Error::other(format!("the server did not answer within {} s", ANSWER_TIMEOUT.as_secs()))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that takes every write, and whose answers wait until the process has been stopped and continued.
    struct Stopped(Vec<u8>);

    impl Write for Stopped {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Stopped {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                self.0.extend_from_slice(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
                return Err(ErrorKind::Interrupted.into());
            }
            buffer[..self.0.len()].copy_from_slice(&self.0);
            Ok(std::mem::take(&mut self.0).len())
        }
    }

    fn fill(stop: &AtomicBool) -> Fill<'_> {
        Fill {
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            tls: None,
            renderer: Renderer::new("host", &[], Some(10)),
            has_shown_token: false,
            keys: 2,
            batch: 2,
            next: AtomicU64::new(0),
            done: AtomicU64::new(0),
            stop,
        }
    }

    #[test]
    fn a_process_that_was_stopped_goes_on() {
        let stop = AtomicBool::new(false);
        let written = fill(&stop).write_batch(&mut Stopped(Vec::new()), &[0, 1]).expect("two answers");
        assert!(written.refused.is_empty() && written.unanswered.is_empty(), "{written:?}");
    }

    /// A server that sends a byte now and then kept it going for as long as it liked.
    #[test]
    fn an_interruption_waits_for_no_answer() {
        let stop = AtomicBool::new(true);
        let written = fill(&stop).write_batch(&mut Stopped(Vec::new()), &[0, 1]).expect("no error");
        assert_eq!(written.unanswered, [0, 1]);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        assert_eq!(
            refusal(0, 401, false),
            "PUT of key0 was answered with 401: the server asks for a token and was shown none: name one with --token-file FILE or in \
             LADOGA_TOKEN"
        );
        assert!(
            refusal(0, 401, true).ends_with("401: the server does not accept the token that it was shown")
        );
        assert_eq!(refusal(7, 507, false), "PUT of key7 was answered with 507");
    }
}
