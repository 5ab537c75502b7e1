use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use super::budget::{REPAIR_BYTES, SESSION_LEASE_BYTES, SESSION_OWN_BYTES, SessionBudget, SessionEntry};

impl SessionBudget {
    /// An account for one more connection.
    pub(crate) fn open(self: &Arc<Self>) -> SessionAccount {
        let entry = Arc::<SessionEntry>::default();
        let mut shared = self.shared.lock();
        shared.strangers.push_back(Arc::clone(&entry));
        if shared.strangers.len() > self.strangers_max
            && let Some(oldest) = shared.strangers.pop_front()
        {
            oldest.has_to_go.store(true, Ordering::Release);
            oldest.wake();
        }
        drop(shared);
        SessionAccount::new(Arc::clone(self), entry)
    }
}

/// What one connection has of the budget.
#[derive(Debug)]
pub(crate) struct SessionAccount {
    budget: Arc<SessionBudget>,
    entry: Arc<SessionEntry>,
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
    /// An account that has taken nothing yet.
    fn new(budget: Arc<SessionBudget>, entry: Arc<SessionEntry>) -> SessionAccount {
        SessionAccount {
            budget,
            entry,
            has_greeted: Cell::new(false),
            taken_bytes: Cell::new(0),
            is_waiting: Cell::new(false),
            is_repairing: Cell::new(false),
            is_repair_answered: Cell::new(false),
            yields: Cell::new(false),
        }
    }

    /// How many bytes it may hold now.
    pub(crate) fn bytes(&self) -> usize {
        let repair_bytes = if self.is_repairing.get() { REPAIR_BYTES } else { 0 };
        SESSION_OWN_BYTES + repair_bytes + self.taken_bytes.get()
    }

    fn has_taken(&self) -> bool {
        self.taken_bytes.get() > 0
    }

    /// Whether it holds room that other connections wait for, or may wait for: few can be served at a time if repair is
    /// concerned.
    pub(crate) fn holds_others_up(&self) -> bool {
        self.is_repairing.get() || (self.has_taken() && self.is_contended())
    }

    /// Time has passed: a connection with a lease that others wait for takes on nothing more, gives the lease back once
    /// everything is answered, and queues behind them for the next.
    pub(crate) fn time_passes(&self) {
        self.yields.set(self.has_taken() && self.is_contended());
    }

    pub(crate) fn yields(&self) -> bool {
        self.yields.get() && self.has_taken()
    }

    /// Takes room for a request that serves repair and for its answer, until that is written: one at a time. `false` if there
    /// is none.
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

    /// The peer has greeted; `false` if there may not be one more.
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
        shared.strangers.retain(|entry| !Arc::ptr_eq(entry, &self.entry));
    }

    /// Whether it has to make room for a connection that came later. Until it has greeted, `task` is woken when that happens.
    pub(crate) fn has_to_go(&self, task: &Waker) -> bool {
        if self.has_greeted.get() {
            return false;
        }
        *self.entry.task.lock() = Some(task.clone());
        self.entry.has_to_go.load(Ordering::Acquire)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.get()
    }

    /// Whether others wait for what there is too little of.
    pub(super) fn is_contended(&self) -> bool {
        self.budget.is_contended.load(Ordering::Relaxed)
    }

    pub(crate) fn is_one_of_too_many(&self) -> bool {
        self.budget.is_full()
    }

    /// Makes room for `bytes`, if that is possible now. If it has no lease it waits for one: `task` is woken.
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
            *self.entry.task.lock() = Some(task.clone());
            // Looked at after the waker is there: who grants it finds it, or it is granted already.
            let is_granted = self.entry.is_granted.swap(false, Ordering::AcqRel);
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
        *self.entry.task.lock() = Some(task.clone());
        shared.waiting.push_back(Arc::clone(&self.entry));
        self.budget.is_contended.store(true, Ordering::Relaxed);
        self.is_waiting.set(true);
        false
    }

    /// It goes on without the lease that it waited for, if any: who is behind it in the queue is next, and what was granted
    /// meanwhile is for them. Who still waits keeps its place, however little it holds.
    pub(crate) fn waits_no_more(&self) {
        if !self.is_waiting.replace(false) {
            return;
        }
        let mut shared = self.budget.shared.lock();
        shared.waiting.retain(|entry| !Arc::ptr_eq(entry, &self.entry));
        if self.entry.is_granted.swap(false, Ordering::AcqRel) {
            shared.free_bytes += SESSION_LEASE_BYTES;
        }
        self.budget.grant(&mut shared);
    }

    /// Takes more than the lease, if no other connection waits for it: this one could do without.
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
        self.repair_ends();
        self.waits_no_more();
        if self.has_greeted.get() {
            self.budget.sessions.fetch_sub(1, Ordering::Relaxed);
        } else {
            self.leave_the_strangers();
        }
        self.budget.give_back(self.taken_bytes.get());
    }
}
