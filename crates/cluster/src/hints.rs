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
/// How long those that were put off rest before they are sent again, at most.
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
    /// How many from the front have had their turn: they are on their way, done, or put off. Of those behind them, some may be on their
    /// way or done as well: they had theirs before it was that of those put off.
    passed: usize,
    in_flight: usize,
    done: usize,
    /// When those that were put off have their turn again; none if there are none.
    rest_until_ms: Option<u64>,
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
            rest_until_ms: None,
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
        let have_had_their_turn = self.passed == self.waiting.len();
        // Some may still be on their way: with a peer that gets hints all the time, there are always such.
        if self.rest_until_ms.take_if(|until_ms| have_had_their_turn && now_ms >= *until_ms).is_some() {
            self.passed = 0;
        }
        self.deliver(&mut step);
    }

    /// The connection to the peer is lost, or it refused a hint: hints in flight are sent again when it is back.
    pub fn peer_is_down(&mut self) {
        for entry in &mut self.waiting {
            if entry.state == EntryState::OnItsWay {
                entry.state = EntryState::Waiting;
            }
        }
        (self.is_up, self.passed, self.in_flight, self.rest_until_ms) = (false, 0, 0, None);
    }

    /// The peer has this hint, or needs it no longer, whichever attempt brought it. Hints are answered in any order, and
    /// forgotten in theirs.
    pub fn delivered(&mut self, number: u64, mut step: impl FnMut(HintStep)) {
        self.answered(number, EntryState::Done);
        self.forget_front(Entry::is_done, &mut step);
        self.deliver(&mut step);
    }

    /// This hint cannot be delivered for now, which need not be because of the peer: those behind it go first.
    pub fn put_off(&mut self, number: u64, now_ms: u64, mut step: impl FnMut(HintStep)) {
        // Counted from the first of them: others may be put off all the time.
        self.rest_until_ms.get_or_insert(now_ms + HINT_REST_MS);
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
        self.len() == 0
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
#[path = "hints_tests.rs"]
mod tests;
