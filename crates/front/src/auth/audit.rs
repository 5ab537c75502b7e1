use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;

use super::audit_line::AuditLine;

/// Lines that wait for the disk.
const QUEUE_LINES_MAX: usize = 4_096;
/// Lines that are written by one call.
const LINES_A_WRITE: usize = 256;

/// The audit log. An event loop only puts a line into a queue; if that is full, the line is lost and counted.
pub struct Audit {
    lines: SyncSender<Message>,
    has_writes: bool,
    counts: Arc<Counts>,
    /// Until it is closed.
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the thread that writes is told.
enum Message {
    Line(Vec<u8>),
    /// Nothing comes behind it.
    End,
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
        Ok(Audit { lines, has_writes, counts, thread: Mutex::new(Some(thread)) })
    }

    /// Whether every write is wanted, and not only what is refused and what operators do.
    pub(crate) const fn has_writes(&self) -> bool {
        self.has_writes
    }

    /// Has a line written, unless there are too many.
    pub(crate) fn record(&self, line: &AuditLine<'_>) {
        if self.lines.try_send(Message::Line(line.to_bytes())).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines are written. What is recorded later is lost and counted.
    pub fn close(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        // If the thread is gone, it has told why.
        if self.lines.send(Message::End).is_ok() {
            let _ = thread.join();
        }
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.counts.written.load(Ordering::Relaxed), self.counts.dropped.load(Ordering::Relaxed))
    }
}

/// Until the end is told, or the last who could record something is gone.
fn write_lines(queue: &Receiver<Message>, mut file: impl Write, counts: &Counts) {
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
        match file.write_all(&bytes).and_then(|()| file.flush()) {
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
        let line = AuditLine { wall_ms: 0, who: None, from: None, what: b"GET /", status: "401" };
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
        let line = AuditLine { wall_ms: 0, who: None, from: None, what: b"GET /", status: "401" };
        (0..1_000).for_each(|_| audit.record(&line));
        audit.close();
        assert_eq!(written.lock().split(|byte| *byte == b'\n').count(), 1_001);
        audit.close();
        audit.record(&line);
        assert_eq!(audit.counts(), (1_000, 1), "nobody writes it");
    }
}
