use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::pacing::FlushPace;

/// What tells whether a flush may take its time.
pub(super) struct FlushTime {
    /// What a full memtable has.
    memtable_bytes: usize,
    /// Of the last flush that did not wait for others; 0 before the first.
    flush_bytes_per_s: AtomicU64,
    rotation: Mutex<Rotation>,
    /// Who waits for flushes, other than writers.
    waiters: AtomicUsize,
}

/// The last time that a memtable was sealed.
#[derive(Default)]
struct Rotation {
    at_ns: u64,
    /// How long it took to be filled.
    fill_ns: u64,
    /// The bytes of all memtables that were sealed.
    sealed_bytes: u64,
}

/// Flushes hurry while it lives.
pub(super) struct FlushWaiter<'a>(&'a FlushTime);

impl Drop for FlushWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FlushTime {
    pub(super) fn new(memtable_bytes: usize) -> FlushTime {
        FlushTime {
            memtable_bytes,
            flush_bytes_per_s: AtomicU64::new(0),
            rotation: Mutex::default(),
            waiters: AtomicUsize::new(0),
        }
    }

    /// So fast was a flush that did not wait for others.
    pub(super) fn flushes_at(&self, bytes_per_s: u64) {
        self.flush_bytes_per_s.store(bytes_per_s, Ordering::Relaxed);
    }

    pub(super) fn flush_bytes_per_s(&self) -> u64 {
        self.flush_bytes_per_s.load(Ordering::Relaxed)
    }

    /// A memtable was sealed, with so many bytes.
    pub(super) fn rotated(&self, bytes: u64, now_ns: u64) {
        let mut rotation = self.rotation.lock();
        rotation.fill_ns = now_ns.saturating_sub(rotation.at_ns);
        rotation.at_ns = now_ns;
        rotation.sealed_bytes += bytes;
    }

    /// The bytes of all memtables that were sealed.
    pub(super) fn sealed_bytes(&self) -> u64 {
        self.rotation.lock().sealed_bytes
    }

    pub(super) fn wait(&self) -> FlushWaiter<'_> {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        FlushWaiter(self)
    }

    /// Whether there is time, with so many memtables, the one that is being filled included, and writers that are so fast.
    pub(super) fn is_enough(&self, memtables: f64, written_bytes_per_s: f64) -> bool {
        let pace =
            FlushPace { memtable_bytes: self.memtable_bytes, flush_bytes_per_s: self.flush_bytes_per_s() };
        let fill_ns = self.rotation.lock().fill_ns;
        self.waiters.load(Ordering::Relaxed) == 0 && pace.has_time(memtables, fill_ns, written_bytes_per_s)
    }
}
