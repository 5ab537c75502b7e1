use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::wire::FRAME_BYTES_MAX;

/// What a connection of a peer may hold without asking: enough for greetings, statements and small requests.
pub(crate) const SESSION_OWN_BYTES: usize = 32 << 10;
/// What the making of hashes of a tree takes, or of a list, and the answer.
const REPAIR_BYTES: usize = 512 << 10;
/// What a connection that needs more than its own gets at once: with it any request can be taken in and answered. So who waits
/// for it holds nothing that others wait for.
pub(crate) const SESSION_LEASE_BYTES: usize = 896 << 10;
/// What one connection may have of the shared part, however many it could use: one that does not read its answers leaves the
/// rest to the others.
const SESSION_SHARE: usize = 3;
/// The part of the budget that connections have as their own, all together.
const OWN_SHARE: usize = 4;
/// The part for what serves repair, which takes its time: requests of clients do not wait for that.
const REPAIR_SHARE: usize = 4;
/// The part of the connections that may not have greeted yet. One more than that, and the oldest of them goes: a peer sends its
/// greeting with its first bytes.
const STRANGERS_SHARE: usize = 4;
/// However little there is, so many connections can be served at the same time.
const LEASES_MIN: usize = 4;

const _: () = assert!(SESSION_LEASE_BYTES > 2 * FRAME_BYTES_MAX + (32 << 10));

/// The memory of all connections that peers make to this node: a little for each, and a part that they share, first come,
/// first served.
#[derive(Debug)]
pub(crate) struct SessionBudget {
    /// Of those that have greeted.
    sessions_max: usize,
    sessions: AtomicUsize,
    strangers_max: usize,
    shared_bytes: usize,
    session_bytes_max: usize,
    shared: Mutex<Shared>,
    /// What there is room for that serves repair.
    repairs_left: AtomicUsize,
    /// Whether anybody waits.
    is_contended: AtomicBool,
}

#[derive(Debug)]
struct Shared {
    free_bytes: usize,
    waiting: VecDeque<Arc<SessionEntry>>,
    /// Those that have not greeted yet, the oldest first.
    strangers: VecDeque<Arc<SessionEntry>>,
}

/// Where others reach a connection.
#[derive(Debug, Default)]
struct SessionEntry {
    is_granted: AtomicBool,
    has_to_go: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl SessionBudget {
    pub(crate) fn new(bytes: usize) -> Arc<SessionBudget> {
        let (own_bytes, repair_bytes) = (bytes / OWN_SHARE, bytes / REPAIR_SHARE);
        let connections = (own_bytes / SESSION_OWN_BYTES).max(2);
        let strangers_max = (connections / STRANGERS_SHARE).max(1);
        let shared_bytes = (bytes - own_bytes - repair_bytes).max(LEASES_MIN * SESSION_LEASE_BYTES);
        Arc::new(SessionBudget {
            sessions_max: connections - strangers_max,
            sessions: AtomicUsize::new(0),
            strangers_max,
            shared_bytes,
            session_bytes_max: (shared_bytes / SESSION_SHARE).max(SESSION_LEASE_BYTES),
            shared: Mutex::new(Shared {
                free_bytes: shared_bytes,
                waiting: VecDeque::new(),
                strangers: VecDeque::new(),
            }),
            repairs_left: AtomicUsize::new((repair_bytes / REPAIR_BYTES).max(1)),
            is_contended: AtomicBool::new(false),
        })
    }

    /// Whether there are as many connections as there may be.
    pub(crate) fn is_full(&self) -> bool {
        self.sessions() >= self.sessions_max
    }

    /// Connections of peers that have greeted.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    /// What connections have taken of the shared part.
    pub(crate) fn taken_bytes(&self) -> usize {
        self.shared_bytes - self.shared.lock().free_bytes
    }

    /// An account for one more connection.
    pub(crate) fn open(self: &Arc<Self>) -> SessionAccount {
        let seat = Arc::<SessionEntry>::default();
        let mut shared = self.shared.lock();
        shared.strangers.push_back(Arc::clone(&seat));
        if shared.strangers.len() > self.strangers_max
            && let Some(oldest) = shared.strangers.pop_front()
        {
            oldest.has_to_go.store(true, Ordering::Release);
            oldest.wake();
        }
        drop(shared);
        SessionAccount {
            budget: Arc::clone(self),
            seat,
            has_greeted: Cell::new(false),
            taken_bytes: Cell::new(0),
            is_waiting: Cell::new(false),
            is_repairing: Cell::new(false),
            is_repair_answered: Cell::new(false),
            yields: Cell::new(false),
        }
    }

    fn give_back(&self, bytes: usize) {
        let mut shared = self.shared.lock();
        shared.free_bytes += bytes;
        self.grant(&mut shared);
    }

    /// Gives those their leases who have waited the longest.
    fn grant(&self, shared: &mut Shared) {
        while shared.free_bytes >= SESSION_LEASE_BYTES
            && let Some(seat) = shared.waiting.pop_front()
        {
            shared.free_bytes -= SESSION_LEASE_BYTES;
            seat.is_granted.store(true, Ordering::Release);
            seat.wake();
        }
        self.is_contended.store(!shared.waiting.is_empty(), Ordering::Relaxed);
    }
}

impl SessionEntry {
    fn wake(&self) {
        if let Some(task) = self.task.lock().take() {
            task.wake();
        }
    }
}

/// What one connection has of the budget.
#[derive(Debug)]
pub(crate) struct SessionAccount {
    budget: Arc<SessionBudget>,
    seat: Arc<SessionEntry>,
    has_greeted: Cell<bool>,
    taken_bytes: Cell<usize>,
    /// Whether it is in the queue, or its lease was granted and not taken note of.
    is_waiting: Cell<bool>,
    /// Whether it has room for something that serves repair.
    is_repairing: Cell<bool>,
    is_repair_answered: Cell<bool>,
    /// Whether it has had its lease for long enough, while others wait for theirs.
    yields: Cell<bool>,
}

impl SessionAccount {
    /// How many bytes it may hold now.
    pub(crate) fn bytes(&self) -> usize {
        let repair_bytes = if self.is_repairing.get() { REPAIR_BYTES } else { 0 };
        SESSION_OWN_BYTES + repair_bytes + self.taken_bytes.get()
    }

    fn has_taken(&self) -> bool {
        self.taken_bytes.get() > 0
    }

    /// Whether it has what others wait for, or may: few can be served at a time where repair is concerned.
    pub(crate) fn holds_others_up(&self) -> bool {
        self.is_repairing.get() || (self.has_taken() && self.is_contended())
    }

    /// Time has passed: who has a lease that others wait for takes on nothing more, gives it back once all is answered, and waits
    /// behind them for the next.
    pub(crate) fn time_passes(&self) {
        self.yields.set(self.has_taken() && self.is_contended());
    }

    pub(crate) fn yields(&self) -> bool {
        self.yields.get() && self.has_taken()
    }

    /// Takes room for something that serves repair and for its answer, until that is written: one thing at a time. `false` where
    /// there is none.
    ///
    /// Protocol: `(repair_begins repair_is_answered answers_are_written)*`.
    pub(crate) fn repair_begins(&self) -> bool {
        let left = |left: usize| left.checked_sub(1);
        let is_room =
            || self.budget.repairs_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok();
        let begins = !self.is_repairing.get() && is_room();
        self.is_repairing.set(begins || self.is_repairing.get());
        begins
    }

    /// The answer to what served repair is about to be among those to be written.
    pub(crate) fn repair_is_answered(&self) {
        self.is_repair_answered.set(true);
    }

    /// All answers are written.
    pub(crate) fn answers_are_written(&self) {
        if self.is_repair_answered.replace(false) {
            self.repair_ends();
        }
    }

    fn repair_ends(&self) {
        if self.is_repairing.replace(false) {
            self.budget.repairs_left.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It has greeted; `false` where there may not be one more.
    pub(crate) fn greeted(&self) -> bool {
        if self.has_greeted.get() {
            return true;
        }
        let may_be = self.budget.sessions.fetch_add(1, Ordering::Relaxed) < self.budget.sessions_max;
        if may_be {
            self.has_greeted.set(true);
            self.leave_the_strangers();
        } else {
            self.budget.sessions.fetch_sub(1, Ordering::Relaxed);
        }
        may_be
    }

    fn leave_the_strangers(&self) {
        let mut shared = self.budget.shared.lock();
        shared.strangers.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
    }

    /// Whether it has to make room for one that came later. Until it has greeted, `task` is woken where that comes to be.
    pub(crate) fn has_to_go(&self, task: &Waker) -> bool {
        if self.has_greeted.get() {
            return false;
        }
        *self.seat.task.lock() = Some(task.clone());
        self.seat.has_to_go.load(Ordering::Acquire)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.get()
    }

    /// Whether others wait for what there is too little of.
    fn is_contended(&self) -> bool {
        self.budget.is_contended.load(Ordering::Relaxed)
    }

    pub(crate) fn is_one_of_too_many(&self) -> bool {
        self.budget.is_full()
    }

    /// Sees to it that it may hold `bytes`, if that can be now. Where it has no lease it waits for one: `task` is woken.
    pub(crate) fn reserve(&self, bytes: usize, task: &Waker) -> bool {
        if bytes <= self.bytes() {
            return true;
        }
        if !self.has_taken() && !self.lease(task) {
            return false;
        }
        let missing = bytes.saturating_sub(self.bytes());
        missing == 0 || self.extend(missing)
    }

    fn lease(&self, task: &Waker) -> bool {
        if self.is_waiting.get() {
            *self.seat.task.lock() = Some(task.clone());
            // Looked at after the waker is there: who grants it finds it, or it is granted already.
            let is_granted = self.seat.is_granted.swap(false, Ordering::AcqRel);
            if is_granted {
                self.is_waiting.set(false);
                self.taken_bytes.set(SESSION_LEASE_BYTES);
            }
            return is_granted;
        }
        let mut shared = self.budget.shared.lock();
        if shared.waiting.is_empty() && shared.free_bytes >= SESSION_LEASE_BYTES {
            shared.free_bytes -= SESSION_LEASE_BYTES;
            self.taken_bytes.set(SESSION_LEASE_BYTES);
            return true;
        }
        *self.seat.task.lock() = Some(task.clone());
        shared.waiting.push_back(Arc::clone(&self.seat));
        self.budget.is_contended.store(true, Ordering::Relaxed);
        self.is_waiting.set(true);
        false
    }

    /// More than the lease, where nobody waits for that: it can do without.
    fn extend(&self, bytes: usize) -> bool {
        if self.taken_bytes.get() + bytes > self.budget.session_bytes_max {
            return false;
        }
        let mut shared = self.budget.shared.lock();
        if !shared.waiting.is_empty() || shared.free_bytes < bytes {
            return false;
        }
        shared.free_bytes -= bytes;
        self.taken_bytes.set(self.taken_bytes.get() + bytes);
        true
    }

    /// Gives back what it does not need to hold `bytes`: all but its lease, or that too.
    pub(crate) fn release(&self, bytes: usize) {
        let needed = match bytes.saturating_sub(SESSION_OWN_BYTES) {
            0 => 0,
            bytes => bytes.max(SESSION_LEASE_BYTES),
        };
        let surplus = self.taken_bytes.get().saturating_sub(needed);
        if surplus > 0 {
            self.yields.set(self.yields.get() && needed > 0);
            self.taken_bytes.set(needed);
            self.budget.give_back(surplus);
        }
    }
}

impl Drop for SessionAccount {
    fn drop(&mut self) {
        let mut bytes = self.taken_bytes.get();
        self.repair_ends();
        if self.is_waiting.get() {
            let mut shared = self.budget.shared.lock();
            shared.waiting.retain(|seat| !Arc::ptr_eq(seat, &self.seat));
            if self.seat.is_granted.load(Ordering::Acquire) {
                bytes += SESSION_LEASE_BYTES;
            }
        }
        if self.has_greeted.get() {
            self.budget.sessions.fetch_sub(1, Ordering::Relaxed);
        } else {
            self.leave_the_strangers();
        }
        self.budget.give_back(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 8 << 20;

    fn accounts(budget: &Arc<SessionBudget>, count: usize) -> Vec<SessionAccount> {
        let greeted = |account: SessionAccount| account.greeted().then_some(account);
        (0..count).map(|_| greeted(budget.open()).expect("one more")).collect()
    }

    fn leases(budget: &SessionBudget) -> usize {
        budget.shared_bytes / SESSION_LEASE_BYTES
    }

    #[test]
    fn there_are_only_so_many_connections() {
        let budget = SessionBudget::new(BYTES);
        let mut all = accounts(&budget, BYTES / OWN_SHARE / SESSION_OWN_BYTES / 4 * 3);
        let one_more = budget.open();
        assert!(budget.is_full() && !one_more.greeted());
        all.pop();
        assert!(!budget.is_full() && one_more.greeted() && one_more.greeted());
        assert!(budget.is_full());
    }

    #[test]
    fn the_oldest_of_those_that_do_not_greet_makes_room() {
        let budget = SessionBudget::new(BYTES);
        let has_to_go = |account: &SessionAccount| account.has_to_go(Waker::noop());
        let strangers: Vec<_> = (0..budget.strangers_max).map(|_| budget.open()).collect();
        assert!(strangers[0].greeted() && !strangers.iter().any(has_to_go));
        let _in_its_place = budget.open();
        assert!(!strangers.iter().any(has_to_go));
        let _one_more = budget.open();
        let gone: Vec<usize> = (0..strangers.len()).filter(|&index| has_to_go(&strangers[index])).collect();
        assert_eq!(gone, [1]);
    }

    #[test]
    fn what_is_its_own_a_connection_has_whatever_the_others_do() {
        let budget = SessionBudget::new(BYTES);
        let all = accounts(&budget, leases(&budget) + 2);
        let task = Waker::noop();
        let with_lease = all.iter().filter(|account| account.reserve(SESSION_OWN_BYTES + 1, task)).count();
        assert_eq!(with_lease, leases(&budget));
        assert!(all.iter().all(|account| account.reserve(SESSION_OWN_BYTES, task)));
        assert!(all[0].is_contended() && all[leases(&budget)].is_waiting());
    }

    #[test]
    fn who_waited_the_longest_is_next() {
        let budget = SessionBudget::new(BYTES);
        let all = accounts(&budget, leases(&budget) + 2);
        let reserve = |account: &SessionAccount| account.reserve(SESSION_LEASE_BYTES, Waker::noop());
        all.iter().for_each(|account| _ = reserve(account));
        let (first, second) = (&all[leases(&budget)], &all[leases(&budget) + 1]);
        all[0].release(SESSION_OWN_BYTES);
        assert!(!reserve(second) && reserve(first), "in turn");
        assert!(!reserve(&all[0]), "behind the second");
        all[1].release(0);
        assert!(reserve(second) && !reserve(&all[0]));
        all[2].release(0);
        assert!(reserve(&all[0]) && !first.is_contended());
    }

    #[test]
    fn one_connection_leaves_most_to_the_others() {
        let budget = SessionBudget::new(64 << 20);
        let greedy = budget.open();
        let step = 320 << 10;
        let most = (1..1_000).take_while(|count| greedy.reserve(count * step, Waker::noop())).count() * step;
        assert!(most > SESSION_LEASE_BYTES && most <= budget.session_bytes_max + SESSION_OWN_BYTES);
        assert!(budget.taken_bytes() * SESSION_SHARE <= budget.shared_bytes);
        greedy.release(0);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[test]
    fn who_has_had_a_lease_for_long_is_told_where_others_wait() {
        let budget = SessionBudget::new(BYTES);
        let all = accounts(&budget, leases(&budget) + 1);
        let reserve = |account: &SessionAccount| account.reserve(SESSION_LEASE_BYTES, Waker::noop());
        assert!(reserve(&all[0]));
        all[0].time_passes();
        assert!(!all[0].yields(), "nobody waits");
        all.iter().for_each(|account| _ = reserve(account));
        all[0].time_passes();
        assert!(all[0].yields());
        all[0].release(0);
        assert!(!all[0].yields() && !reserve(&all[0]) && reserve(&all[leases(&budget)]));
    }

    #[test]
    fn what_serves_repair_has_its_own_room_one_thing_for_each_connection() {
        let budget = SessionBudget::new(BYTES);
        let repairs = BYTES / REPAIR_SHARE / REPAIR_BYTES;
        let all = accounts(&budget, repairs + 1);
        assert!(all[0].repair_begins() && !all[0].repair_begins());
        assert_eq!(all[1..].iter().filter(|account| account.repair_begins()).count(), repairs - 1);
        all[0].answers_are_written();
        assert!(!all[repairs].repair_begins(), "it is not answered");
        all[0].repair_is_answered();
        all[0].answers_are_written();
        all[0].answers_are_written();
        assert!(all[repairs].repair_begins() && !all[0].repair_begins());
    }

    #[test]
    fn who_goes_gives_everything_back() {
        let budget = SessionBudget::new(BYTES);
        let mut all = accounts(&budget, leases(&budget) + 2);
        let reserve = |account: &SessionAccount| account.reserve(SESSION_LEASE_BYTES, Waker::noop());
        all.iter().for_each(|account| _ = reserve(account));
        // One that waits, and one that was granted its lease and never heard of it.
        drop(all.pop());
        all[0].release(0);
        drop(all);
        assert_eq!((budget.taken_bytes(), budget.sessions()), (0, 0));
    }
}
