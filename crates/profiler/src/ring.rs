//! A bounded ring of stacks, from many threads to the one that collects. Writers never wait, allocate or lock: they are
//! signal handlers and allocators. A full ring drops and counts.
//!
//! Vyukov's bounded queue; the payload is words of relaxed atomics, so a torn read would be a wrong sample and never
//! undefined behaviour. The sequence of a slot is its ticket when free, ticket + 1 when filled.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::stack::RawStack;
use crate::sys::FRAMES_MAX;

const SLOTS: usize = 2048;
const HEADER_WORDS: usize = 5;

/// One sample as it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) thread: u32,
    pub(crate) at_ns: u64,
    pub(crate) weight: u64,
    pub(crate) count: u64,
}

struct Slot {
    sequence: AtomicU64,
    words: [AtomicU64; HEADER_WORDS + FRAMES_MAX],
}

pub(crate) struct Ring {
    slots: Box<[Slot]>,
    next_write: AtomicU64,
    next_read: AtomicU64,
    dropped: AtomicU64,
}

impl Ring {
    pub(crate) fn new() -> Self {
        let slot = |ticket| Slot {
            sequence: AtomicU64::new(ticket),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Ring {
            slots: (0..SLOTS as u64).map(slot).collect(),
            next_write: AtomicU64::new(0),
            next_read: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn slot(&self, ticket: u64) -> &Slot {
        &self.slots[ticket as usize % SLOTS]
    }

    pub(crate) fn push(&self, event: Event, stack: &RawStack) {
        let mut ticket = self.next_write.load(Ordering::Relaxed);
        loop {
            let sequence = self.slot(ticket).sequence.load(Ordering::Acquire);
            if sequence < ticket {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            if sequence > ticket {
                ticket = self.next_write.load(Ordering::Relaxed);
                continue;
            }
            match self.next_write.compare_exchange_weak(
                ticket,
                ticket + 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => ticket = now,
            }
        }
        let slot = self.slot(ticket);
        let addresses = stack.as_slice();
        let header =
            [u64::from(event.thread), event.at_ns, event.weight, event.count, addresses.len() as u64];
        for (word, value) in slot.words.iter().zip(header.iter().chain(addresses)) {
            word.store(*value, Ordering::Relaxed);
        }
        slot.sequence.store(ticket + 1, Ordering::Release);
    }

    /// Takes out all events. One thread at a time may call this: the session of the ring's kind.
    pub(crate) fn drain(&self, mut take: impl FnMut(Event, &[u64])) {
        loop {
            let ticket = self.next_read.load(Ordering::Relaxed);
            let slot = self.slot(ticket);
            if slot.sequence.load(Ordering::Acquire) != ticket + 1 {
                return;
            }
            let words: [u64; HEADER_WORDS + FRAMES_MAX] =
                std::array::from_fn(|at| slot.words[at].load(Ordering::Relaxed));
            let [thread, at_ns, weight, count, len, addresses @ ..] = &words;
            let event = Event { thread: *thread as u32, at_ns: *at_ns, weight: *weight, count: *count };
            take(event, &addresses[..(*len as usize).min(FRAMES_MAX)]);
            slot.sequence.store(ticket + SLOTS as u64, Ordering::Release);
            self.next_read.store(ticket + 1, Ordering::Relaxed);
        }
    }

    /// How many were dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack_of(addresses: &[u64]) -> RawStack {
        let mut stack = RawStack::new();
        addresses.iter().for_each(|address| assert!(stack.push(*address)));
        stack
    }

    #[test]
    fn a_full_ring_drops_the_newest_and_counts() {
        let ring = Ring::new();
        let stack = stack_of(&[1, 2, 3]);
        for at_ns in 0..SLOTS as u64 + 10 {
            ring.push(Event { thread: 1, at_ns, weight: 2, count: 3 }, &stack);
        }
        let mut seen = 0;
        ring.drain(|event, addresses| {
            assert_eq!((event.at_ns, addresses), (seen, [1, 2, 3].as_slice()));
            seen += 1;
        });
        assert_eq!((seen, ring.take_dropped(), ring.take_dropped()), (SLOTS as u64, 10, 0));
    }

    #[test]
    fn many_writers_lose_nothing_that_is_not_counted() {
        let ring = Ring::new();
        let mut taken = 0u64;
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4u32)
                .map(|thread| {
                    let ring = &ring;
                    scope.spawn(move || {
                        let stack = stack_of(&[u64::from(thread); 9]);
                        for at_ns in 0..5000 {
                            ring.push(Event { thread, at_ns, weight: 1, count: 1 }, &stack);
                        }
                    })
                })
                .collect();
            while writers.iter().any(|writer| !writer.is_finished()) {
                ring.drain(|event, addresses| {
                    assert_eq!(addresses, [u64::from(event.thread); 9]);
                    taken += 1;
                });
            }
        });
        ring.drain(|_, _| taken += 1);
        assert_eq!(taken + ring.take_dropped(), 20_000);
    }
}
