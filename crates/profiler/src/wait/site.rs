//! Waits that the program marks itself: for systems that refuse to show context switches.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::collector::Source;
use crate::memory::drain_ring;
use crate::recorder::Recorder;
use crate::ring::{Event, Ring};
use crate::stack::RawStack;
use crate::sys::calls;

static ON: AtomicBool = AtomicBool::new(false);
static RING: OnceLock<Ring> = OnceLock::new();

/// Shorter waits than this are not worth a stack.
const WAIT_NS_MIN: u64 = 5_000;
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);

/// Runs what may wait, such as taking a lock after `try_lock` failed. While a lock profile runs that the kernel does not
/// feed, a wait of 5 µs or more becomes a sample; else this is one relaxed load.
#[inline]
pub fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    if !ON.load(Ordering::Relaxed) {
        return wait();
    }
    let started_ns = calls::monotonic_ns();
    let result = wait();
    record_since(started_ns);
    result
}

#[cold]
#[inline(never)]
fn record_since(started_ns: u64) {
    let now_ns = calls::monotonic_ns();
    let waited_ns = now_ns - started_ns;
    if waited_ns < WAIT_NS_MIN {
        return;
    }
    if let Some(ring) = RING.get() {
        let event = Event { thread: calls::thread_id(), at_ns: now_ns, weight: waited_ns, count: 1 };
        ring.push(event, &RawStack::capture());
    }
}

pub(super) struct SiteSource {
    why: Option<String>,
}

impl SiteSource {
    pub(super) fn start(why: Option<String>) -> Self {
        let ring = RING.get_or_init(Ring::new);
        ring.drain(|_, _| {});
        ring.take_dropped();
        ON.store(true, Ordering::Release);
        SiteSource { why }
    }
}

impl Source for SiteSource {
    fn drain(&mut self, recorder: &mut Recorder) {
        recorder.note_once("only waits that the program marks are seen, from 5 µs on");
        if let Some(why) = self.why.take() {
            recorder.note_once(&why);
        }
        drain_ring(RING.get(), recorder);
    }

    fn stop(&mut self, _recorder: &mut Recorder) {
        ON.store(false, Ordering::Release);
    }

    fn interval(&self) -> Duration {
        DRAIN_INTERVAL
    }
}

impl Drop for SiteSource {
    fn drop(&mut self) {
        ON.store(false, Ordering::Release);
    }
}
