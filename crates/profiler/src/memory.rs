//! Allocation profile: samples by bytes. Whether an allocation is sampled depends on its size alone, as if each byte
//! were drawn with a probability of 1 / interval (a Poisson process), so that large and small ones are seen in
//! proportion to what they ask for, and every sample can be weighted back without bias.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::kind::Kind;
use crate::options::Options;
use crate::recorder::Recorder;
use crate::ring::{Event, Ring};
use crate::source::Source;
use crate::stack::RawStack;
use crate::sys::calls;
use crate::thinning::RawSample;
use crate::{FRAME_POINTERS, ProfileError};

/// Mean bytes between samples; 0 while no profile runs.
static INTERVAL_BYTES: AtomicU64 = AtomicU64::new(0);
/// Rings are never freed: an allocator may still use one after its profile has ended.
static RING: OnceLock<Ring> = OnceLock::new();
/// Set by the first allocation that is counted: whether the allocator is installed at all.
static INSTALLED: AtomicBool = AtomicBool::new(false);

const DRAIN_INTERVAL: Duration = Duration::from_millis(20);
/// 20,000 a second, at a microsecond each: 2 % of one core, while one core can allocate 10 GB/s.
const SAMPLES_PER_DRAIN_MAX: u64 = 400;

thread_local! {
    /// Bytes until the next sample. Without a destructor and constant: usable inside the allocator at any time.
    static BYTES_LEFT: Cell<i64> = const { Cell::new(0) };
    /// The interval that `BYTES_LEFT` was drawn with: a profile with another one, also an earlier one, may have left it.
    static DRAWN_WITH: Cell<u64> = const { Cell::new(0) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static NOT_NOW: Cell<bool> = const { Cell::new(false) };
}

/// Counts an allocation of so many bytes.
#[inline]
pub(crate) fn count(bytes: usize) {
    let interval = INTERVAL_BYTES.load(Ordering::Relaxed);
    if interval != 0 {
        count_while_on(bytes as u64, interval);
    }
}

#[inline]
fn count_while_on(bytes: u64, interval: u64) {
    if DRAWN_WITH.get() != interval {
        restart_countdown(interval);
    }
    let left = BYTES_LEFT.get() - bytes as i64;
    BYTES_LEFT.set(left);
    if left <= 0 {
        countdown_ended(bytes, interval);
    }
}

#[cold]
#[inline(never)]
fn restart_countdown(interval: u64) {
    DRAWN_WITH.set(interval);
    BYTES_LEFT.set(draw_interval(interval));
}

#[cold]
#[inline(never)]
fn countdown_ended(bytes: u64, interval: u64) {
    BYTES_LEFT.set(draw_interval(interval));
    if bytes > 0 {
        sample(bytes, interval);
    }
}

fn sample(bytes: u64, interval: u64) {
    if NOT_NOW.replace(true) {
        return;
    }
    INSTALLED.store(true, Ordering::Relaxed);
    if let Some(ring) = RING.get() {
        // The chance that at least one byte of it was drawn.
        let chance = -(-(bytes as f64) / interval as f64).exp_m1();
        let event = Event {
            thread: calls::thread_id(),
            at_ns: calls::monotonic_ns(),
            weight: (bytes as f64 / chance).round() as u64,
            count: (1.0 / chance).round() as u64,
        };
        ring.push(event, &RawStack::capture());
    }
    NOT_NOW.set(false);
}

/// Exponentially distributed: the distance of a Poisson process has no memory, so it may start afresh at any time.
fn draw_interval(mean: u64) -> i64 {
    let mut state = RANDOM.get();
    if state == 0 {
        state = calls::monotonic_ns() ^ (u64::from(calls::thread_id()) << 32) | 1;
    }
    // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    RANDOM.set(state);
    let uniform = ((state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) + 1) as f64 / (1u64 << 53) as f64;
    (-uniform.ln() * mean as f64).max(1.0) as i64
}

/// While this lives, nothing that the thread allocates is sampled: what the profiler allocates for itself is not the program's.
#[derive(Debug)]
pub(crate) struct NotSampled {
    was_sampled: bool,
    /// It is the state of one thread, and stays there.
    _of_thread: PhantomData<*const ()>,
}

impl NotSampled {
    pub(crate) fn begin() -> Self {
        NotSampled { was_sampled: !NOT_NOW.replace(true), _of_thread: PhantomData }
    }
}

impl Drop for NotSampled {
    fn drop(&mut self) {
        NOT_NOW.set(!self.was_sampled);
    }
}

struct AllocSource;

pub(crate) fn source(options: &Options) -> Result<Box<dyn Source>, ProfileError> {
    let ring = RING.get_or_init(Ring::new);
    INTERVAL_BYTES.store(options.alloc_interval_bytes, Ordering::Release);
    if !is_installed() {
        INTERVAL_BYTES.store(0, Ordering::Release);
        let reason = "the binary does not use ladoga_profiler::ProfilingAllocator as its global allocator";
        return Err(ProfileError::Unavailable { kind: Kind::Alloc, reason: reason.to_owned() });
    }
    // What an earlier profile left, and the test allocation.
    ring.drain(|_, _| {});
    ring.take_dropped();
    Ok(Box::new(AllocSource))
}

/// Allocates something that is certain to be sampled, and sees whether it was.
fn is_installed() -> bool {
    if !INSTALLED.load(Ordering::Relaxed) {
        // The thread may be one of the profiler's own.
        let not_now = NOT_NOW.replace(false);
        // Twice: the first one may start the thread's countdown.
        for _ in 0..2 {
            BYTES_LEFT.set(0);
            drop(std::hint::black_box(Box::new([0u8; 64])));
        }
        NOT_NOW.set(not_now);
    }
    INSTALLED.load(Ordering::Relaxed)
}

impl Source for AllocSource {
    fn drain(&mut self, recorder: &mut Recorder) {
        if !FRAME_POINTERS {
            recorder
                .note_once("built without frame pointers: stacks were unwound by tables, which costs more");
        }
        recorder.note_once(
            "growth by realloc counts, freed memory does not: this does not show what is in the heap",
        );
        let before = recorder.taken + recorder.dropped;
        drain_ring(RING.get(), recorder);
        let taken = recorder.taken + recorder.dropped - before;
        // Each sample knows the interval that it was drawn with, so the interval may change as it goes.
        if taken > SAMPLES_PER_DRAIN_MAX {
            INTERVAL_BYTES.store(INTERVAL_BYTES.load(Ordering::Relaxed).saturating_mul(2), Ordering::Relaxed);
            recorder.note_once("the interval between samples was raised, because too much was allocated");
        }
    }

    fn stop(&mut self, _recorder: &mut Recorder) {
        INTERVAL_BYTES.store(0, Ordering::Release);
    }

    fn interval(&self) -> Duration {
        DRAIN_INTERVAL
    }
}

impl Drop for AllocSource {
    fn drop(&mut self) {
        INTERVAL_BYTES.store(0, Ordering::Release);
    }
}

/// Moves all samples of a ring into the recorder.
pub(crate) fn drain_ring(ring: Option<&Ring>, recorder: &mut Recorder) {
    let Some(ring) = ring else { return };
    ring.drain(|event, addresses| match recorder.intern(addresses) {
        Some(node) => recorder.record(RawSample {
            thread: event.thread,
            node,
            at_ns: event.at_ns,
            weight: event.weight,
            count: event.count,
        }),
        None => recorder.dropped += 1,
    });
    recorder.dropped += ring.take_dropped();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_the_asked_mean() {
        let sum: i64 = (0..20_000).map(|_| draw_interval(1000)).sum();
        assert!((970..1030).contains(&(sum / 20_000)), "{sum}");
    }
}
