use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::audit_line::AuditLine;

/// Lines that wait for the disk.
const QUEUE_LINES_MAX: usize = 4_096;
/// Lines that are written by one call.
const LINES_A_WRITE: usize = 256;

/// The audit log. An event loop only puts a line into a queue; if that is full, the line is lost and counted.
pub struct Audit {
    lines: SyncSender<Vec<u8>>,
    has_writes: bool,
    counts: Arc<Counts>,
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
        thread::Builder::new().name("audit".to_owned()).spawn(move || write_lines(&queue, file, &counted))?;
        Ok(Audit { lines, has_writes, counts })
    }

    /// Whether every write is wanted, and not only what is refused and what operators do.
    pub(crate) const fn has_writes(&self) -> bool {
        self.has_writes
    }

    /// Has a line written, unless there are too many.
    pub(crate) fn record(&self, line: &AuditLine<'_>) {
        if self.lines.try_send(line.to_bytes()).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.counts.written.load(Ordering::Relaxed), self.counts.dropped.load(Ordering::Relaxed))
    }
}

/// Until the last who could record something is gone.
fn write_lines(queue: &Receiver<Vec<u8>>, mut file: impl Write, counts: &Counts) {
    let mut is_told = false;
    while let Ok(mut bytes) = queue.recv() {
        let mut lines = 1;
        while lines < LINES_A_WRITE
            && let Ok(more) = queue.try_recv()
        {
            bytes.extend_from_slice(&more);
            lines += 1;
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
}
