//! Which hints are kept for a peer, and when they are delivered.
//!
//! ```text
//! calls := new recovered* (keep | peer_is_up | delivered | peer_is_down | expire)*
//! ```
//!
//! The driver keeps the cells themselves, in a log for each peer, which numbers them.

use std::collections::VecDeque;

/// Bytes of hints that are kept for one peer.
pub const HINT_BYTES_MAX: u64 = 256 << 20;
/// How long a hint is kept. What is older is left to anti-entropy.
pub const HINT_AGE_MS_MAX: u64 = 3 * 60 * 60 * 1000;
/// Hints that are on their way to a peer at the same time, so that a peer that comes back is not flooded.
pub const HINTS_IN_FLIGHT_MAX: usize = 32;

/// A hint, without what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    /// Its place in the queue, as the log numbers it: rises from hint to hint.
    pub number: u64,
    /// How much room it takes in the log.
    pub bytes: u64,
    /// The timestamp of its cell.
    pub timestamp: u64,
    /// When it was kept, in milliseconds of a clock that does not jump.
    pub kept_at_ms: u64,
}

/// What the driver has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HintStep {
    /// Send the hint with this number.
    Deliver(u64),
    /// Forget all hints up to this number.
    Forget(u64),
}

#[derive(Debug)]
struct Entry {
    hint: Hint,
    is_done: bool,
}

/// The hints for one peer, in the order of their arrival.
#[derive(Debug)]
pub struct HintQueue {
    waiting: VecDeque<Entry>,
    /// Hints that are older than all behind them: the first is the oldest of all.
    oldest: VecDeque<(u64, u64)>,
    bytes: u64,
    /// The number of the newest one so far.
    newest: u64,
    /// How many from the front are on their way, or done.
    in_flight: usize,
    is_up: bool,
    dropped: u64,
}

impl Default for HintQueue {
    fn default() -> HintQueue {
        HintQueue::new()
    }
}

impl HintQueue {
    /// A queue of nothing.
    pub const fn new() -> HintQueue {
        HintQueue {
            waiting: VecDeque::new(),
            oldest: VecDeque::new(),
            bytes: 0,
            newest: 0,
            in_flight: 0,
            is_up: false,
            dropped: 0,
        }
    }

    /// A hint was found on disk at the start. In the order of their numbers.
    pub fn recovered(&mut self, hint: Hint) {
        self.push(hint);
    }

    /// Whether there is room for a hint of this size. One for which there is none is counted, and left to anti-entropy.
    pub fn admit(&mut self, bytes: u64) -> bool {
        let fits = self.bytes + bytes <= HINT_BYTES_MAX;
        self.dropped += u64::from(!fits);
        fits
    }

    /// A hint is durable. In the order of their numbers.
    pub fn kept(&mut self, hint: Hint, mut step: impl FnMut(HintStep)) {
        self.push(hint);
        self.deliver(&mut step);
    }

    /// The peer is connected.
    pub fn peer_is_up(&mut self, mut step: impl FnMut(HintStep)) {
        self.is_up = true;
        self.deliver(&mut step);
    }

    /// The connection to the peer is lost, or it refused a hint: hints in flight are sent again when it is back.
    pub const fn peer_is_down(&mut self) {
        self.is_up = false;
        self.in_flight = 0;
    }

    /// The peer has this hint, or needs it no longer. Hints are answered in any order, and forgotten in theirs.
    pub fn delivered(&mut self, number: u64, mut step: impl FnMut(HintStep)) {
        let on_their_way = self.waiting.iter_mut().take(self.in_flight);
        let Some(entry) = on_their_way.into_iter().find(|entry| entry.hint.number == number) else { return };
        entry.is_done = true;
        self.forget_front(|entry| entry.is_done, &mut step);
        self.deliver(&mut step);
    }

    /// Gives up hints that are too old.
    pub fn expire(&mut self, now_ms: u64, mut step: impl FnMut(HintStep)) {
        let is_old = |hint: &Hint| hint.kept_at_ms.saturating_add(HINT_AGE_MS_MAX) < now_ms;
        let before = self.waiting.len();
        self.forget_front(|entry| entry.is_done || is_old(&entry.hint), &mut step);
        self.dropped += (before - self.waiting.len()) as u64;
        self.deliver(&mut step);
    }

    /// The oldest version that waits; see [`crate::StabilityTracker::tick`].
    pub fn oldest_timestamp(&self) -> Option<u64> {
        self.oldest.front().map(|&(_, timestamp)| timestamp)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How much room they take.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many were given up, for lack of room or for their age.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn push(&mut self, hint: Hint) {
        assert!(hint.number > self.newest, "hints come in their order");
        self.newest = hint.number;
        while self.oldest.back().is_some_and(|&(_, timestamp)| timestamp >= hint.timestamp) {
            self.oldest.pop_back();
        }
        self.oldest.push_back((hint.number, hint.timestamp));
        self.bytes += hint.bytes;
        self.waiting.push_back(Entry { hint, is_done: false });
    }

    fn forget_front(&mut self, mut goes: impl FnMut(&Entry) -> bool, step: &mut impl FnMut(HintStep)) {
        let mut forgotten = None;
        while let Some(entry) = self.waiting.pop_front_if(|entry| goes(entry)) {
            let number = entry.hint.number;
            self.bytes -= entry.hint.bytes;
            self.in_flight = self.in_flight.saturating_sub(1);
            self.oldest.pop_front_if(|&mut (oldest, _)| oldest == number);
            forgotten = Some(number);
        }
        if let Some(number) = forgotten {
            step(HintStep::Forget(number));
        }
    }

    fn deliver(&mut self, step: &mut impl FnMut(HintStep)) {
        while self.is_up && self.in_flight < HINTS_IN_FLIGHT_MAX && self.in_flight < self.waiting.len() {
            let entry = &self.waiting[self.in_flight];
            self.in_flight += 1;
            if !entry.is_done {
                step(HintStep::Deliver(entry.hint.number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(timestamps: &[u64]) -> HintQueue {
        let mut queue = HintQueue::new();
        for (number, &timestamp) in (1..).zip(timestamps) {
            let hint = Hint { number, bytes: 10, timestamp, kept_at_ms: 0 };
            queue.kept(hint, |step| panic!("the peer is down: {step:?}"));
        }
        queue
    }

    fn up(queue: &mut HintQueue) -> Vec<HintStep> {
        let mut steps = Vec::new();
        queue.peer_is_up(|step| steps.push(step));
        steps
    }

    fn delivered(queue: &mut HintQueue, number: u64) -> Vec<HintStep> {
        let mut steps = Vec::new();
        queue.delivered(number, |step| steps.push(step));
        steps
    }

    use HintStep::{Deliver, Forget};

    #[test]
    fn delivers_in_order_when_the_peer_is_back_and_forgets_in_order() {
        let mut queue = queue(&[5, 6, 7]);
        assert_eq!(up(&mut queue), [Deliver(1), Deliver(2), Deliver(3)]);
        assert_eq!(delivered(&mut queue, 2), []);
        assert_eq!(queue.oldest_timestamp(), Some(5));
        assert_eq!(delivered(&mut queue, 1), [Forget(2)]);
        assert_eq!((queue.oldest_timestamp(), queue.bytes()), (Some(7), 10));
        assert_eq!(delivered(&mut queue, 3), [Forget(3)]);
        assert_eq!((queue.oldest_timestamp(), queue.bytes(), queue.is_empty()), (None, 0, true));
    }

    #[test]
    fn resumes_with_what_was_not_delivered() {
        let mut queue = queue(&[5, 6, 7]);
        up(&mut queue);
        delivered(&mut queue, 2);
        queue.peer_is_down();
        assert_eq!(delivered(&mut queue, 1), [], "an answer from before does not count");
        assert_eq!(up(&mut queue), [Deliver(1), Deliver(3)]);
        assert_eq!(delivered(&mut queue, 1), [Forget(2)]);
    }

    #[test]
    fn only_so_many_are_on_their_way() {
        let mut queue = queue(&vec![1; HINTS_IN_FLIGHT_MAX + 2]);
        assert_eq!(up(&mut queue).len(), HINTS_IN_FLIGHT_MAX);
        assert_eq!(delivered(&mut queue, 1), [Forget(1), Deliver(HINTS_IN_FLIGHT_MAX as u64 + 1)]);
    }

    #[test]
    fn what_is_too_much_or_too_old_is_given_up_and_counted() {
        let mut queue = queue(&[9, 3]);
        assert!(queue.admit(HINT_BYTES_MAX - 20));
        assert!(!queue.admit(HINT_BYTES_MAX - 19));
        queue.expire(HINT_AGE_MS_MAX, |step| panic!("not yet: {step:?}"));
        let mut steps = Vec::new();
        queue.expire(HINT_AGE_MS_MAX + 1, |step| steps.push(step));
        assert_eq!(steps, [Forget(2)]);
        assert_eq!((queue.dropped(), queue.is_empty(), queue.oldest_timestamp()), (3, true, None));
    }

    #[test]
    fn the_oldest_is_known_whatever_the_order() {
        let mut queue = queue(&[9, 3, 7, 5]);
        up(&mut queue);
        let oldest: Vec<Option<u64>> = (1..=4)
            .map(|number| {
                let oldest = queue.oldest_timestamp();
                delivered(&mut queue, number);
                oldest
            })
            .collect();
        assert_eq!(oldest, [Some(3), Some(3), Some(5), Some(5)]);
    }

    #[test]
    fn goes_on_where_it_was_after_a_restart() {
        let mut queue = HintQueue::new();
        queue.recovered(Hint { number: 7, bytes: 1, timestamp: 2, kept_at_ms: 0 });
        assert_eq!(up(&mut queue), [Deliver(7)]);
        let mut steps = Vec::new();
        // The log may have had hints in between that are gone.
        queue.kept(Hint { number: 9, bytes: 1, timestamp: 3, kept_at_ms: 0 }, |step| steps.push(step));
        assert_eq!(steps, [Deliver(9)]);
    }
}
