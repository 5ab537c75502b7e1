//! Which hints are kept for a peer, and when they are delivered.
//!
//! ```text
//! calls := new recovered* (admit | kept | peer_is_up | delivered | put_off | peer_is_down | expire)*
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
/// How long those that were put off rest before they are sent again.
const HINT_REST_MS: u64 = 5_000;

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
    state: EntryState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryState {
    Waiting,
    OnItsWay,
    Done,
}

impl Entry {
    fn is_done(&self) -> bool {
        self.state == EntryState::Done
    }
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
    /// How many from the front have had their turn: they are on their way, done, or put off.
    passed: usize,
    in_flight: usize,
    done: usize,
    /// When those that were put off have their turn again.
    rest_until_ms: u64,
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
            passed: 0,
            in_flight: 0,
            done: 0,
            rest_until_ms: 0,
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

    /// The peer is connected. Once all others have had their turn, it is that of the hints that were put off.
    pub fn peer_is_up(&mut self, now_ms: u64, mut step: impl FnMut(HintStep)) {
        self.is_up = true;
        if self.passed == self.waiting.len() && self.in_flight == 0 && now_ms >= self.rest_until_ms {
            self.passed = 0;
        }
        self.deliver(&mut step);
    }

    /// The connection to the peer is lost, or it refused a hint: hints in flight are sent again when it is back.
    pub fn peer_is_down(&mut self) {
        for entry in self.waiting.iter_mut().take(self.passed) {
            if entry.state == EntryState::OnItsWay {
                entry.state = EntryState::Waiting;
            }
        }
        (self.is_up, self.passed, self.in_flight) = (false, 0, 0);
    }

    /// The peer has this hint, or needs it no longer, whichever attempt brought it. Hints are answered in any order, and
    /// forgotten in theirs.
    pub fn delivered(&mut self, number: u64, mut step: impl FnMut(HintStep)) {
        self.answered(number, EntryState::Done);
        self.forget_front(Entry::is_done, &mut step);
        self.deliver(&mut step);
    }

    /// This hint cannot be delivered for now, which is not because of the peer: those behind it go first.
    pub fn put_off(&mut self, number: u64, now_ms: u64, mut step: impl FnMut(HintStep)) {
        self.rest_until_ms = now_ms + HINT_REST_MS;
        self.answered(number, EntryState::Waiting);
        self.deliver(&mut step);
    }

    /// Gives up hints that are too old.
    pub fn expire(&mut self, now_ms: u64, mut step: impl FnMut(HintStep)) {
        let is_old = |hint: &Hint| hint.kept_at_ms.saturating_add(HINT_AGE_MS_MAX) < now_ms;
        let before = self.len();
        self.forget_front(|entry| entry.is_done() || is_old(&entry.hint), &mut step);
        self.dropped += (before - self.len()) as u64;
        self.deliver(&mut step);
    }

    /// The oldest version that waits; see [`crate::StabilityTracker::tick`].
    pub fn oldest_timestamp(&self) -> Option<u64> {
        self.oldest.front().map(|&(_, timestamp)| timestamp)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len() - self.done
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How much room they take, with those behind them that are done.
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
        self.waiting.push_back(Entry { hint, state: EntryState::Waiting });
    }

    /// What is done stays so: another attempt may have been on its way.
    fn answered(&mut self, number: u64, state: EntryState) {
        let Ok(place) = self.waiting.binary_search_by_key(&number, |entry| entry.hint.number) else { return };
        let entry = &mut self.waiting[place];
        if !entry.is_done() {
            self.in_flight -= usize::from(entry.state == EntryState::OnItsWay);
            entry.state = state;
            self.done += usize::from(entry.is_done());
        }
    }

    fn forget_front(&mut self, mut goes: impl FnMut(&Entry) -> bool, step: &mut impl FnMut(HintStep)) {
        let mut forgotten = None;
        while let Some(entry) = self.waiting.pop_front_if(|entry| goes(entry)) {
            let number = entry.hint.number;
            self.bytes -= entry.hint.bytes;
            self.passed = self.passed.saturating_sub(1);
            self.in_flight -= usize::from(entry.state == EntryState::OnItsWay);
            self.done -= usize::from(entry.is_done());
            self.oldest.pop_front_if(|&mut (oldest, _)| oldest == number);
            forgotten = Some(number);
        }
        if let Some(number) = forgotten {
            step(HintStep::Forget(number));
        }
    }

    fn deliver(&mut self, step: &mut impl FnMut(HintStep)) {
        while self.is_up && self.in_flight < HINTS_IN_FLIGHT_MAX && self.passed < self.waiting.len() {
            let entry = &mut self.waiting[self.passed];
            self.passed += 1;
            if entry.state == EntryState::Waiting {
                entry.state = EntryState::OnItsWay;
                self.in_flight += 1;
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
        queue.peer_is_up(0, |step| steps.push(step));
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
        assert_eq!(up(&mut queue), [Deliver(1), Deliver(3)]);
        assert_eq!(delivered(&mut queue, 1), [Forget(2)]);
    }

    /// One that was refused had all others sent again, for as long as it was refused.
    #[test]
    fn an_answer_counts_although_another_hint_was_refused_meanwhile() {
        let mut queue = queue(&[5, 6, 7]);
        up(&mut queue);
        queue.peer_is_down();
        assert_eq!(delivered(&mut queue, 2), []);
        assert_eq!(up(&mut queue), [Deliver(1), Deliver(3)]);
        assert_eq!(delivered(&mut queue, 2), [], "once more");
        queue.peer_is_down();
        assert_eq!(delivered(&mut queue, 3), []);
        assert_eq!(delivered(&mut queue, 1), [Forget(3)]);
        assert_eq!(up(&mut queue), []);
    }

    #[test]
    fn hints_that_are_put_off_hold_up_none_and_are_sent_again() {
        let stuck = HINTS_IN_FLIGHT_MAX as u64;
        let mut queue = queue(&vec![1; HINTS_IN_FLIGHT_MAX + 2]);
        up(&mut queue);
        let mut steps = Vec::new();
        (1..=stuck).for_each(|number| queue.put_off(number, 0, |step| steps.push(step)));
        assert_eq!(steps, [Deliver(stuck + 1), Deliver(stuck + 2)]);
        assert_eq!(up(&mut queue), [], "others are on their way");
        assert_eq!([delivered(&mut queue, stuck + 2), delivered(&mut queue, stuck + 1)], [[], []]);
        assert_eq!(up(&mut queue), [], "they rest");
        queue.peer_is_up(HINT_REST_MS, |step| steps.push(step));
        assert_eq!(queue.len(), HINTS_IN_FLIGHT_MAX, "those behind them are done");
        assert_eq!(steps[2..], (1..=stuck).map(Deliver).collect::<Vec<_>>());
        (1..stuck).for_each(|number| assert_eq!(delivered(&mut queue, number), [Forget(number)]));
        assert_eq!(delivered(&mut queue, stuck), [Forget(stuck + 2)]);
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
