use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use ladoga_runtime::LineLimit;
use parking_lot::Mutex;

use super::audit_line::AuditLine;

/// Lines that wait for the disk.
const QUEUE_LINES_MAX: usize = 4_096;
/// Lines that are written by one call.
const LINES_A_WRITE: usize = 256;
/// Lines within a second about those whom nobody knows: their number is up to them, and they must not fill the disk.
const STRANGERS_PER_SECOND_MAX: u32 = 100;

/// The audit log. An event loop only puts a line into a queue; if that is full, the line is lost and counted.
pub struct Audit {
    lines: SyncSender<Message>,
    has_writes: bool,
    counts: Arc<Counts>,
    strangers: Mutex<Strangers>,
    /// Until it is closed.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread that writes is told.
enum Message {
    Line(Vec<u8>),
    /// Nothing comes behind it.
    End,
}

/// Those whom nobody knows and who were refused.
struct Strangers {
    limit: LineLimit,
    /// When the last of them was.
    last_ms: u64,
}

#[derive(Default)]
struct Counts {
    written: AtomicU64,
    dropped: AtomicU64,
}

impl Audit {
    /// Writes to `file`, on a thread of its own; with writes, if these are wanted too.
    pub fn start(file: impl Write + Send + 'static, has_writes: bool) -> std::io::Result<Audit> {
        let (lines, queue) = sync_channel(QUEUE_LINES_MAX);
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let thread = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_lines(&queue, file, &counted))?;
        let strangers = Strangers { limit: LineLimit::new(STRANGERS_PER_SECOND_MAX), last_ms: 0 };
        let (strangers, thread) = (Mutex::new(strangers), Mutex::new(Some(thread)));
        Ok(Audit { lines, has_writes, counts, strangers, thread })
    }

    /// Whether every write is wanted, and not only what is refused and what operators do.
    pub(crate) const fn has_writes(&self) -> bool {
        self.has_writes
    }

    /// Has a line written, unless there are too many.
    pub(crate) fn record(&self, line: &AuditLine<'_>) {
        if !line.is_of_a_stranger() {
            return self.send(line);
        }
        self.time_passes(line.wall_ms);
        let mut strangers = self.strangers.lock();
        strangers.last_ms = line.wall_ms;
        if strangers.limit.admit(ns(line.wall_ms)) {
            self.send(line);
        }
    }

    /// Says how many lines about strangers were left out, once there may be others again.
    pub(crate) fn time_passes(&self, wall_ms: u64) {
        let strangers = self.strangers.lock();
        if let Some(left_out) = strangers.limit.take_left_out(ns(wall_ms)) {
            let what = format!("{left_out} requests");
            self.send(&AuditLine {
                wall_ms: strangers.last_ms,
                who: None,
                from: None,
                what: what.as_bytes(),
                status: "left out",
            });
        }
    }

    fn send(&self, line: &AuditLine<'_>) {
        if self.lines.try_send(Message::Line(line.to_bytes())).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines are written. What is recorded later is lost and counted.
    pub fn close(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        self.time_passes(u64::MAX);
        // If the thread is gone, it has told why.
        if self.lines.send(Message::End).is_ok() {
            let _ = thread.join();
        }
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.counts.written.load(Ordering::Relaxed), self.counts.dropped.load(Ordering::Relaxed))
    }
}

/// As a limit has it.
const fn ns(wall_ms: u64) -> u64 {
    wall_ms.saturating_mul(1_000_000)
}

/// The file of the log.
struct Log<W> {
    file: W,
    /// Whether it ends within a line: a write failed after a part of it.
    is_torn: bool,
}

impl<W: Write> Log<W> {
    /// Appends lines, on lines of their own whatever a failed write has left.
    fn append(&mut self, lines: &[u8]) -> std::io::Result<()> {
        if self.is_torn {
            self.write(b"\n")?;
        }
        self.write(lines)?;
        self.file.flush()
    }

    fn write(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.is_torn = bytes[count - 1] != b'\n';
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Until the end is told, or the last who could record something is gone.
fn write_lines(queue: &Receiver<Message>, file: impl Write, counts: &Counts) {
    let mut log = Log { file, is_torn: false };
    let (mut is_told, mut has_ended) = (false, false);
    while !has_ended && let Ok(Message::Line(mut bytes)) = queue.recv() {
        let mut lines = 1;
        while lines < LINES_A_WRITE
            && !has_ended
            && let Ok(more) = queue.try_recv()
        {
            match more {
                Message::Line(more) => {
                    bytes.extend_from_slice(&more);
                    lines += 1;
                }
                Message::End => has_ended = true,
            }
        }
        match log.append(&bytes) {
            Ok(()) => {
                counts.written.fetch_add(lines as u64, Ordering::Relaxed);
                is_told = false;
            }
            Err(error) => {
                counts.dropped.fetch_add(lines as u64, Ordering::Relaxed);
                if !std::mem::replace(&mut is_told, true) {
                    tracing::error!(%error, "the audit log cannot be written");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// A disk that does nothing until it is told twice: that its turn has come, and that it may go on.
    struct Slow(Arc<Barrier>, u64);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.1 == 0 {
                self.0.wait();
                self.0.wait();
            }
            self.1 += 1;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_records_does_not_wait_for_the_disk() {
        let barrier = Arc::new(Barrier::new(2));
        let audit = Audit::start(Slow(Arc::clone(&barrier), 0), false).expect("a thread");
        let line = AuditLine { wall_ms: 0, who: Some("app"), from: None, what: b"GET /", status: "403" };
        audit.record(&line);
        barrier.wait();
        for _ in 0..QUEUE_LINES_MAX + 10 {
            audit.record(&line);
        }
        assert_eq!(audit.counts(), (0, 10), "one is being written, and the queue is full");
        barrier.wait();
        while audit.counts().0 < QUEUE_LINES_MAX as u64 + 1 {
            thread::yield_now();
        }
        assert_eq!(audit.counts(), (QUEUE_LINES_MAX as u64 + 1, 10));
    }

    /// A file that can be looked at.
    struct Shared(Arc<Mutex<Vec<u8>>>);
    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_closes_it_waits_for_the_last_line() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let audit = Audit::start(Shared(Arc::clone(&written)), false).expect("a thread");
        let line = AuditLine { wall_ms: 0, who: Some("app"), from: None, what: b"GET /", status: "403" };
        (0..1_000).for_each(|_| audit.record(&line));
        audit.close();
        assert_eq!(written.lock().split(|byte| *byte == b'\n').count(), 1_001);
        audit.close();
        audit.record(&line);
        assert_eq!(audit.counts(), (1_000, 1), "nobody writes it");
    }

    /// A disk that is full at first, but for a part of a line.
    struct Full(Shared, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let count = std::mem::replace(&mut self.1, usize::MAX).min(bytes.len());
            if count == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            if count < bytes.len() {
                // The rest of the same write.
                self.1 = 0;
            }
            self.0.write(&bytes[..count])
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The next line was appended to it: nobody could read that, and it was counted as written.
    #[test]
    fn a_line_behind_one_that_was_cut_is_whole() {
        for (room, expected) in
            [(0, "next\n"), (3, "cut\nnext\n"), (9, "cut line\nnext\n"), (10, "cut line\na\nnext\n")]
        {
            let written = Arc::new(Mutex::new(Vec::new()));
            let mut log = Log { file: Full(Shared(Arc::clone(&written)), room), is_torn: false };
            log.append(b"cut line\nanother\n").expect_err("a full disk");
            log.append(b"next\n").expect("room");
            assert_eq!(String::from_utf8_lossy(&written.lock()), expected, "{room}");
        }
    }

    #[test]
    fn strangers_have_so_many_lines_a_second_and_the_rest_is_one() {
        const MAX: usize = STRANGERS_PER_SECOND_MAX as usize;
        let written = Arc::new(Mutex::new(Vec::new()));
        let audit = Audit::start(Shared(Arc::clone(&written)), false).expect("a thread");
        let known = AuditLine { wall_ms: 0, who: Some("app"), from: None, what: b"GET /", status: "403" };
        let stranger = |wall_ms, status| AuditLine { wall_ms, who: None, from: None, what: b"GET /", status };
        (0..MAX + 7).for_each(|_| audit.record(&stranger(5_000, "401")));
        // Who is known, and what is not refused, have theirs.
        (0..MAX + 7).for_each(|_| audit.record(&known));
        (0..MAX + 7).for_each(|_| audit.record(&stranger(5_000, "201")));
        audit.time_passes(5_999);
        audit.time_passes(6_000);
        audit.time_passes(6_000);
        (0..MAX + 2).for_each(|_| audit.record(&stranger(6_001, "refused")));
        audit.close();
        let text = String::from_utf8(written.lock().clone()).expect("text");
        let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!((count("\"401\""), count("\"403\""), count("\"201\"")), (MAX, MAX + 7, MAX + 7));
        assert_eq!(count("\"refused\""), MAX);
        let left_out: Vec<&str> = text.lines().filter(|line| line.contains("left out")).collect();
        let of = |time, count| {
            let when = format!("{{\"time\":\"1970-01-01T00:00:0{time}Z\",\"who\":null,\"from\":null");
            format!("{when},\"what\":\"{count} requests\",\"status\":\"left out\"}}")
        };
        assert_eq!(left_out, [of(5, 7), of(6, 2)]);
    }
}
