use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use ladoga_tls::client::Duplex;

use super::dial::connect;
use super::{ClientError, Response, SILENCE_MAX, Url, is_late};

/// What ends a body in chunks.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Sends a `POST` whose body is what `next` gives, up to `None`, while `read` reads the answer. If the answer ends before the body, the
/// rest is not sent. A node that says nothing for long is taken for gone, unless the body is waited for.
pub(crate) fn exchange<T>(
    url: &Url,
    target: &str,
    next: impl FnMut() -> Option<Vec<u8>> + Send,
    read: impl FnOnce(Response) -> T,
) -> Result<T, ClientError> {
    exchange_within(SILENCE_MAX, (url, target), next, read)
}

fn exchange_within<T>(
    patience: Duration,
    (url, target): (&Url, &str),
    mut next: impl FnMut() -> Option<Vec<u8>> + Send,
    read: impl FnOnce(Response) -> T,
) -> Result<T, ClientError> {
    let stream = connect(url, Some(patience))?;
    let (sender, closer) = (stream.clone(), stream.clone());
    let (host, authorization) = (url.authority(), url.authorization());
    let head = format!(
        "POST {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{authorization}transfer-encoding: chunked\r\n\r\n"
    );
    let owed = Arc::new(Owed::new());
    let reader = BufReader::new(Patient { stream, owed: Arc::clone(&owed), patience });
    thread::scope(|scope| {
        // What is wrong with sending shows in the answer, or in its absence.
        let sending = scope.spawn(move || send(sender, &head, || owed.not_during(&mut next)));
        let response = Response::read_head(url, Box::new(reader), false);
        let outcome = response
            .map(|response| read(response.within(Some(patience))))
            .map_err(|error| error.within(Some(patience)));
        if !sending.is_finished() {
            // Nobody reads answers any more, so nothing more may be sent.
            closer.shut_down();
        }
        outcome
    })
}

/// Since when the node owes answers.
struct Owed {
    clock: RealClock,
    /// Never, while the next part of the body is waited for.
    since_ns: AtomicU64,
}

impl Owed {
    const NEVER_NS: u64 = u64::MAX;

    fn new() -> Owed {
        let clock = RealClock::new();
        let since_ns = AtomicU64::new(clock.monotonic_ns());
        Owed { clock, since_ns }
    }

    fn not_during<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.since_ns.store(Owed::NEVER_NS, Ordering::Relaxed);
        let waited = wait();
        self.since_ns.store(self.clock.monotonic_ns(), Ordering::Relaxed);
        waited
    }

    fn is_longer_than(&self, patience: Duration) -> bool {
        let since_ns = self.since_ns.load(Ordering::Relaxed);
        since_ns != Owed::NEVER_NS
            && u128::from(self.clock.monotonic_ns().saturating_sub(since_ns)) >= patience.as_nanos()
    }
}

/// Reads what is owed, with patience.
struct Patient<R> {
    stream: R,
    owed: Arc<Owed>,
    patience: Duration,
}

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error) if is_late(&error) && !self.owed.is_longer_than(self.patience) => {}
                read => return read,
            }
        }
    }
}

fn send(mut stream: Duplex, head: &str, mut next: impl FnMut() -> Option<Vec<u8>>) -> io::Result<()> {
    stream.write_all(head.as_bytes())?;
    while let Some(bytes) = next() {
        if bytes.is_empty() {
            continue;
        }
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(&bytes);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk)?;
    }
    stream.write_all(LAST_CHUNK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_node_that_answers_nothing_of_what_it_was_sent_is_not_waited_for() {
        // Connections are made, and nobody takes them.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", silent.local_addr().expect("an address"));
        let url = Url::parse(&url).expect("a URL");
        let mut lines = vec![b"{}\n".to_vec()];
        let patience = Duration::from_millis(50);
        let error =
            exchange_within(patience, (&url, "/v0/batch"), || lines.pop(), drop).expect_err("silence");
        assert_eq!(error.to_string(), format!("{url} sent nothing for 0.05 s"));
    }

    /// Is late so many times before something comes.
    struct Late(usize);

    impl Read for Late {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            match self.0.checked_sub(1) {
                Some(left) => self.0 = left,
                None => return Ok(1),
            }
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    #[test]
    fn a_node_owes_nothing_while_the_body_is_waited_for() {
        let owed = Arc::new(Owed::new());
        let read = |patience| Patient { stream: Late(3), owed: Arc::clone(&owed), patience }.read(&mut [0]);
        assert_eq!(owed.not_during(|| read(Duration::ZERO)).ok(), Some(1));
        assert!(read(Duration::ZERO).is_err_and(|error| is_late(&error)));
        assert_eq!(read(Duration::MAX).ok(), Some(1), "it may have been asked just now");
    }
}
