use std::io::{ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use ladoga_runtime::LineLimit;
use memchr::memchr_iter;
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
    /// Writes to `log`, on a thread of its own; with writes, if these are wanted too.
    pub fn start(log: AuditLog<impl Write + Send + 'static>, has_writes: bool) -> std::io::Result<Audit> {
        let (lines, queue) = sync_channel(QUEUE_LINES_MAX);
        let counts = Arc::new(Counts::default());
        let counted = Arc::clone(&counts);
        let thread = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_lines(&queue, log, &counted))?;
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
pub struct AuditLog<W> {
    /// What is appended to.
    pub file: W,
    /// Whether it ends within a line: a write failed after a part of it, now or before a restart.
    pub is_torn: bool,
}

impl<W: Write> AuditLog<W> {
    /// Appends lines, on lines of their own whatever a failed write has left. Answers how many of them are whole in the file, also if it
    /// fails.
    fn append(&mut self, lines: &[u8]) -> (usize, std::io::Result<()>) {
        let mut rest = lines;
        let appended = self.append_rest(&mut rest);
        let written = &lines[..lines.len() - rest.len()];
        (memchr_iter(b'\n', written).count(), appended)
    }

    fn append_rest(&mut self, rest: &mut &[u8]) -> std::io::Result<()> {
        if self.is_torn {
            self.write(&mut &b"\n"[..])?;
        }
        self.write(rest)?;
        self.file.flush()
    }

    /// Writes the bytes, and leaves those that it could not write.
    fn write(&mut self, bytes: &mut &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.is_torn = bytes[count - 1] != b'\n';
                    *bytes = &bytes[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Until the end is told, or the last who could record something is gone.
fn write_lines(queue: &Receiver<Message>, mut log: AuditLog<impl Write>, counts: &Counts) {
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
        let (written, appended) = log.append(&bytes);
        counts.written.fetch_add(written as u64, Ordering::Relaxed);
        counts.dropped.fetch_add((lines - written) as u64, Ordering::Relaxed);
        match appended {
            Ok(()) => is_told = false,
            Err(error) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::error!(%error, "the audit log cannot be written");
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
