//! Filling a store: every key of a workload is written once before it is read. Batches of requests share a write to
//! the socket, and nothing counts as filled that was not acknowledged.

use std::io::{self, IsTerminal, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::cli::Target;
use crate::clock::Clock;
use crate::error::{LabError, Outcome};
use crate::http::ResponseParser;
use crate::load::{address_of, connect};
use crate::output::stderr_line;
use crate::units::{format_metric, format_time_us};
use crate::workload::Renderer;
use ladoga_tls::client::TlsClient;

const CONNECTIONS: u64 = 4;
/// Requests that are on their way at once on a connection.
const BATCH: u64 = 64;
/// A batch of large values is smaller.
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// No answer comes as late as this from a server that lives.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const RECEIVE_BYTES: usize = 64 * 1024;
/// A server that is over capacity is asked again after a pause, at most so many times.
const REFUSALS_MAX: u32 = 600;
const REFUSED_PAUSE: Duration = Duration::from_millis(50);
const PROGRESS_EVERY: Duration = Duration::from_millis(250);
const PLAIN_EVERY_NS: u64 = 5_000_000_000;

/// What a store is filled with: `key0` and so on, as many as there are to be.
pub(crate) struct Content<'a> {
    pub(crate) target: &'a Target,
    /// Those of the run: they may be what lets it in.
    pub(crate) headers: &'a [(String, String)],
    pub(crate) keys: u64,
    /// None for `value0`, `value1`, …
    pub(crate) value_bytes: Option<usize>,
}

impl Content<'_> {
    pub(crate) fn in_words(&self) -> String {
        let values = match self.value_bytes {
            Some(bytes) => format!("with values of {bytes} B"),
            None => "with short values (value0 and so on)".to_owned(),
        };
        format!("{} {values}", keys_in_words(self.keys))
    }

    /// Writes every key once. An interruption ends it early: false.
    pub(crate) fn fill(&self, stop: &AtomicBool) -> Outcome<bool> {
        let Self { target, keys, value_bytes, .. } = *self;
        let address = address_of(target)?;
        let batch = (BATCH_BYTES_MAX / value_bytes.unwrap_or(0).max(1) as u64).clamp(1, BATCH);
        let fields = target.fields(self.headers);
        let has_shown_token = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let renderer = Renderer::new(&target.host_header(), &fields, value_bytes);
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let tls = target.tls()?;
        let shared = Fill { address, tls, renderer, has_shown_token, keys, batch, next, done, stop };
        std::thread::scope(|scope| {
            let (ended_in, ended) = channel();
            for _ in 0..CONNECTIONS.min(keys.div_ceil(batch)) {
                let (shared, ended) = (&shared, ended_in.clone());
                scope.spawn(move || shared.write_until_done(&ended));
            }
            drop(ended_in);
            shared.follow(&ended)
        })
    }
}

/// Which keys a store is filled with.
pub(crate) fn keys_in_words(keys: u64) -> String {
    if keys == 1 { "key0".to_owned() } else { format!("{keys} keys (key0 to key{})", keys.saturating_sub(1)) }
}

/// What the connections share.
struct Fill<'a> {
    address: SocketAddr,
    tls: Option<TlsClient>,
    renderer: Renderer,
    has_shown_token: bool,
    keys: u64,
    batch: u64,
    /// The first key that no connection has taken.
    next: AtomicU64,
    /// Acknowledged.
    done: AtomicU64,
    stop: &'a AtomicBool,
}

impl Fill<'_> {
    /// Shows how far it is until every connection has ended; whether every key was acknowledged.
    fn follow(&self, ended: &Receiver<Outcome<()>>) -> Outcome<bool> {
        let mut progress = FillProgress::new(self.keys);
        loop {
            match ended.recv_timeout(PROGRESS_EVERY) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    self.next.store(self.keys, Ordering::Relaxed); // The others need not go on.
                    progress.clear();
                    return Err(error);
                }
                Err(RecvTimeoutError::Timeout) => progress.show(self.done.load(Ordering::Relaxed)),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let done = self.done.load(Ordering::Relaxed);
        progress.end(done);
        Ok(done == self.keys)
    }

    fn write_until_done(&self, ended: &Sender<Outcome<()>>) {
        let result = self.write_all().map_err(LabError::system("fill the store"));
        let _ = ended.send(result); // Nobody listens if another connection failed first.
    }

    fn write_all(&self) -> io::Result<()> {
        let (_, mut stream) = connect(&self.address, ANSWER_TIMEOUT, self.tls.as_ref())?;
        while !self.stop.load(Ordering::Relaxed) {
            let from = self.next.fetch_add(self.batch, Ordering::Relaxed);
            if from >= self.keys {
                break;
            }
            let mut keys: Vec<u64> = (from..self.keys.min(from + self.batch)).collect();
            let mut refusals = 0;
            while !keys.is_empty() && !self.stop.load(Ordering::Relaxed) {
                let refused = self.write_batch(&mut stream, &keys)?;
                self.done.fetch_add((keys.len() - refused.len()) as u64, Ordering::Relaxed);
                if !refused.is_empty() {
                    refusals += 1;
                    if refusals > REFUSALS_MAX {
                        return Err(io::Error::other("the server kept refusing writes as over capacity"));
                    }
                    std::thread::park_timeout(REFUSED_PAUSE);
                }
                keys = refused;
            }
        }
        Ok(())
    }

    /// Writes some keys; answers those that were refused for now.
    fn write_batch(&self, stream: &mut (impl Read + Write), keys: &[u64]) -> io::Result<Vec<u64>> {
        let mut bytes = Vec::new();
        keys.iter().for_each(|key| self.renderer.put(*key, &mut bytes));
        stream.write_all(&bytes).map_err(in_words)?;
        let (mut parser, mut buffer) = (ResponseParser::new(false), vec![0; RECEIVE_BYTES]);
        let (mut refused, mut waiting) = (Vec::new(), keys.iter());
        while waiting.len() > 0 {
            if self.stop.load(Ordering::Relaxed) {
                refused.extend(waiting);
                break;
            }
            let length = match stream.read(&mut buffer) {
                Ok(0) => return Err(in_words(io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => length,
                // A process that was stopped goes on.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(in_words(error)),
            };
            let mut at = 0;
            while at < length {
                let malformed = |_| io::Error::other("the server sent something that is not HTTP");
                let (taken, answer) = parser.advance(&buffer[at..length], false).map_err(malformed)?;
                at += taken;
                let Some(answer) = answer else { continue };
                match (answer.status, waiting.next()) {
                    (200..=299, Some(_)) => {}
                    (503, Some(key)) => refused.push(*key),
                    (status, Some(key)) => {
                        return Err(io::Error::other(refusal(*key, status, self.has_shown_token)));
                    }
                    (_, None) => return Err(io::Error::other("the server sent more answers than requests")),
                }
            }
        }
        Ok(refused)
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

/// What went wrong with a connection, with TLS or without.
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::other("the server closed the connection before it answered")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::other(format!("the server did not answer within {} s", ANSWER_TIMEOUT.as_secs()))
        }
        _ => error,
    }
}

/// The progress on standard error.
struct FillProgress {
    clock: Clock,
    keys: u64,
    is_terminal: bool,
    shown_ns: u64,
}

impl FillProgress {
    fn new(keys: u64) -> Self {
        Self { clock: Clock::start(), keys, is_terminal: io::stderr().is_terminal(), shown_ns: 0 }
    }

    fn show(&mut self, done: u64) {
        let now = self.clock.now_ns();
        if self.is_terminal {
            _ = write!(io::stderr(), "\r\x1b[2K{}", line(done, self.keys, now)); // A terminal that is gone needs no progress.
        } else if now - self.shown_ns >= PLAIN_EVERY_NS {
            stderr_line(format_args!("{}", line(done, self.keys, now)));
            self.shown_ns = now;
        }
    }

    fn clear(&self) {
        if self.is_terminal {
            _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }

    fn end(&self, done: u64) {
        self.clear();
        let elapsed_ns = self.clock.now_ns();
        let per_second = format_metric(done as f64 * 1e9 / elapsed_ns.max(1) as f64);
        let elapsed = format_time_us(elapsed_ns as f64 / 1000.0);
        stderr_line(format_args!("filled with {done} of {} keys in {elapsed}, {per_second}/s", self.keys));
    }
}

fn line(done: u64, keys: u64, elapsed_ns: u64) -> String {
    let share = done as f64 * 100.0 / keys as f64;
    let per_second = done as f64 * 1e9 / elapsed_ns.max(1) as f64;
    let left = if done == 0 {
        "no estimate yet".to_owned()
    } else {
        format!("{:.0} s left", ((keys - done) as f64 / per_second).ceil())
    };
    format!("filling: {done} of {keys} keys ({share:.0} %), {}/s, {left}", format_metric(per_second))
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
                return Err(io::ErrorKind::Interrupted.into());
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
        let refused = fill(&stop).write_batch(&mut Stopped(Vec::new()), &[0, 1]).expect("two answers");
        assert!(refused.is_empty());
    }

    /// A server that sends a byte now and then kept it going for as long as it liked.
    #[test]
    fn an_interruption_waits_for_no_answer() {
        let stop = AtomicBool::new(true);
        let left = fill(&stop).write_batch(&mut Stopped(Vec::new()), &[0, 1]).expect("no error");
        assert_eq!(left, [0, 1]);
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

    #[test]
    fn what_is_written_is_said_in_words() {
        let target = Target::parse("http://a").unwrap();
        let words =
            |keys, value_bytes| Content { target: &target, headers: &[], keys, value_bytes }.in_words();
        assert_eq!(
            words(1_000_000, None),
            "1000000 keys (key0 to key999999) with short values (value0 and so on)"
        );
        assert_eq!(words(1, Some(100)), "key0 with values of 100 B");
    }

    #[test]
    fn progress_has_an_estimate() {
        assert_eq!(line(0, 100, 5), "filling: 0 of 100 keys (0 %), 0.00/s, no estimate yet");
        let half = line(50_000, 100_000, 2_000_000_000);
        assert_eq!(half, "filling: 50000 of 100000 keys (50 %), 25.00k/s, 2 s left");
    }
}
