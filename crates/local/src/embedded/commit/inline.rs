use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use ladoga_env::Clock;
use ladoga_storage::Durability;

use super::super::write_error;
use super::inbox::{CommitResult, Outcome, WaitingWrite};
use super::shared::{CommitShared, panicked};
use super::unit_cost::Cost;
use super::write_queue::{Pending, PendingUpdates, PendingWrites, Waiters, WriteQueue};
use super::{passing, update};
use crate::store::WriteKind;

/// What a loop commits itself at most: more takes it longer than it takes to wake another thread.
const INLINE_BYTES_MAX: u64 = 64 << 10;
/// A commit that took longer than this waited for something after all.
const INLINE_NS_MAX: u64 = 1_000_000;
/// After a slow commit, for how long the committer thread takes over, at least and at most. The pause doubles if the next slow
/// commit comes soon after it. Usually the processor was busy elsewhere, which says nothing about the next commit; but a disk
/// that is behind stays behind.
const INLINE_PAUSE_NS_MIN: u64 = 50_000_000;
const INLINE_PAUSE_NS_MAX: u64 = 1_600_000_000;

/// Commits what a few turns of an event loop brought, on the loop itself, if the engine can do that without waiting: no sync
/// comes before the answer, and neither a flush nor another writer is in the way. Otherwise the committer thread commits.
///
/// A sync is waited for on the loop if it would keep nobody waiting but those who write: handing writes to the committer and their
/// outcome back takes two threads to be woken, one after the other, and those who write would wait for the sync that is under way anyway.
pub(in super::super) struct InlineCommitter {
    clock: Arc<dyn Clock>,
    queue: Arc<CommitShared>,
    write_queue: Arc<WriteQueue>,
    waiters: Rc<Waiters>,
    /// The system may block a write that the engine would not, for example if too many pages are dirty. Then the loop leaves
    /// commits to the committer for a while.
    paused: Cell<Pause>,
}

/// Who commits what a turn of the loop brings, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// The loop, at once: nobody is kept waiting, or one who writes alone.
    Now { may_sync: bool },
    /// The loop, with a sync that all share who write, so not before a turn brings nothing more.
    Together,
    /// The committer, which is not woken before a turn brings nothing more.
    HandOver,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause {
    until_ns: u64,
    lasts_ns: u64,
}

impl Pause {
    /// The one after a slow commit, which ended now.
    fn next(self, now_ns: u64) -> Pause {
        let is_soon = now_ns.saturating_sub(self.until_ns) < self.lasts_ns;
        let longer_ns = (self.lasts_ns * 2).min(INLINE_PAUSE_NS_MAX);
        let lasts_ns = if is_soon { longer_ns } else { INLINE_PAUSE_NS_MIN };
        Pause { until_ns: now_ns + lasts_ns, lasts_ns }
    }
}

impl InlineCommitter {
    pub(in super::super) fn new(
        clock: Arc<dyn Clock>,
        queue: Arc<CommitShared>,
        write_queue: Arc<WriteQueue>,
        waiters: Rc<Waiters>,
    ) -> InlineCommitter {
        let paused = Cell::new(Pause { until_ns: 0, lasts_ns: 0 });
        InlineCommitter { clock, queue, write_queue, waiters, paused }
    }

    /// Commits what each turn of the event loop brings, for as long as it runs.
    pub(in super::super) async fn run(self, trigger: Rc<CommitTrigger>) {
        let plan_trigger = Rc::clone(&trigger);
        trigger.run(|| self.plan(&plan_trigger), |plan| self.commit(plan)).await;
    }

    fn plan(&self, trigger: &CommitTrigger) -> Plan {
        // Other nodes are served by the same loop, and measure how long it takes to answer.
        let may_sync = trigger.has_writes_only() && !self.queue.writer().is_observed();
        let takes_sync = self.queue.syncs_each_group()
            && self.write_queue.durabilities().all(|durability| self.queue.syncs_group(durability));
        let is_paused = || self.clock.monotonic_ns() < self.paused.get().until_ns;
        if (takes_sync && !may_sync) || is_paused() {
            return Plan::HandOver;
        }
        if takes_sync && !trigger.is_alone() { Plan::Together } else { Plan::Now { may_sync } }
    }

    /// Commits what the write queue has, or has the committer do it. On the event loop.
    fn commit(&self, plan: Plan) {
        let may_sync = match plan {
            Plan::Now { may_sync } => may_sync,
            Plan::Together => true,
            Plan::HandOver => return self.queue.pushed(),
        };
        if self.write_queue.queued().bytes > INLINE_BYTES_MAX {
            return self.queue.pushed();
        }
        let started_ns = self.clock.monotonic_ns();
        let mut is_done = true;
        for durability in self.write_queue.durabilities() {
            let may_commit = may_sync || !self.queue.syncs_group(durability);
            is_done &= may_commit && self.commit_all_of(durability);
        }
        if !is_done {
            self.queue.pushed();
        }
        let ended_ns = self.clock.monotonic_ns();
        if ended_ns - started_ns > INLINE_NS_MAX {
            self.paused.set(self.paused.get().next(ended_ns));
        }
    }

    /// Commits what is there of a durability. True if that was all.
    pub(super) fn commit_all_of(&self, durability: Durability) -> bool {
        let Some(Pending { puts, deletes, updates }) = self.write_queue.take_in_turn(durability) else {
            return false;
        };
        let is_done = self.commit_part((WriteKind::Put, durability), puts)
            & self.commit_part((WriteKind::Delete, durability), deletes);
        is_done & self.commit_updates(durability, updates)
    }

    /// True if all of it was committed, or there was nothing.
    fn commit_part(&self, (kind, durability): (WriteKind, Durability), mut part: PendingWrites) -> bool {
        if part.is_empty() {
            return true;
        }
        // A panic would end the task that commits, and no write of this loop would ever be answered.
        let (writer, written_as) = (self.queue.writer(), self.queue.written_as(durability));
        let (outcome, exceptions) =
            match catch_unwind(AssertUnwindSafe(|| writer.try_write(&mut part.batches, written_as))) {
                Ok(Ok(Some(passed))) if passed.is_empty() => (Ok(None), Vec::new()),
                Ok(Ok(Some(passed))) => (Ok(None), passing::exceptions(&part.waiting, &mut 0, &passed)),
                Ok(Ok(None)) => {
                    self.write_queue.put_back((kind, durability), part);
                    return false;
                }
                Ok(Err(error)) => (Err(write_error(&error)), Vec::new()),
                Err(_) => {
                    self.queue.mark_panicked();
                    (Err(panicked()), Vec::new())
                }
            };
        self.tell(durability, (part.waiting, part.load), outcome, exceptions);
        true
    }

    /// The same for updates.
    fn commit_updates(&self, durability: Durability, mut part: PendingUpdates) -> bool {
        if part.updates.is_empty() {
            return true;
        }
        let (writer, written_as) = (self.queue.writer(), self.queue.written_as(durability));
        let (outcome, verdicts) =
            match catch_unwind(AssertUnwindSafe(|| writer.try_update(&mut part.updates, written_as))) {
                Ok(Ok(Some(verdicts))) => (Ok(None), verdicts),
                Ok(Ok(None)) => {
                    self.write_queue.put_back_updates(durability, part);
                    return false;
                }
                Ok(Err(error)) => (Err(write_error(&error)), Vec::new()),
                Err(_) => {
                    self.queue.mark_panicked();
                    (Err(panicked()), Vec::new())
                }
            };
        let exceptions = update::exceptions(&part.waiting, verdicts.iter(), &outcome, &outcome);
        self.tell(durability, (part.waiting, part.load), outcome, exceptions);
        true
    }

    /// Says what became of a group, or has it said after a sync.
    fn tell(
        &self,
        durability: Durability,
        (waiting, load): (Vec<WaitingWrite>, Cost),
        outcome: Outcome,
        exceptions: Vec<(u32, Outcome)>,
    ) {
        self.queue.count_inline_group(waiting.len() as u64);
        if self.queue.waits_for_sync(durability) {
            // As on the committer.
            self.write_queue.leave(load);
            let result = CommitResult { waiting, load: Cost::default(), outcome, exceptions };
            return self.queue.unsynced().push(Arc::clone(&self.write_queue), result);
        }
        self.waiters.receive(&self.write_queue, CommitResult { waiting, load, outcome, exceptions });
    }
}

/// Notifications after which it commits although more are coming.
const NOTIFICATIONS_MAX: u32 = 64;
/// After so many commits with nothing read in between, nobody is there but those who write; and if each was of one write, only one.
const COMMITS_MIN: u32 = 4;

/// Starts one commit for all that an event loop does while it is busy.
///
/// The first write that notifies it wakes a task of the loop, which commits what this turn of the loop brought. If the
/// committer thread has to be woken for that, or a sync is waited for, the task waits for the first turn without new writes. So
/// a hundred connections with a write each cost one wake-up of that thread, or one sync, not a hundred; a single write waits
/// for one look at the sockets.
#[derive(Default)]
pub(in super::super) struct CommitTrigger {
    notifications: Cell<u32>,
    task: RefCell<Option<Waker>>,
    /// Commits since anything was read.
    commits: Cell<u32>,
    /// The last of them that were of one write each.
    lone_commits: Cell<u32>,
}

impl CommitTrigger {
    /// Starts a commit at the end of the turn.
    pub(in super::super) fn notify(&self) {
        let notifications = self.notifications.get();
        self.notifications.set(notifications + 1);
        if notifications == 0
            && let Some(task) = &*self.task.borrow()
        {
            task.wake_by_ref();
        }
    }

    /// Something is read on the loop.
    pub(in super::super) fn note_read(&self) {
        self.commits.set(0);
        self.lone_commits.set(0);
    }

    /// Whether nothing has been asked of the loop for a while but writes.
    fn has_writes_only(&self) -> bool {
        self.commits.get() >= COMMITS_MIN
    }

    /// Whether all that has been asked of the loop for a while is one write after the other.
    fn is_alone(&self) -> bool {
        self.notifications.get() == 1 && self.lone_commits.get() >= COMMITS_MIN
    }

    /// Commits, for as long as the event loop runs: at once, or after the first turn without notifications.
    async fn run(self: Rc<Self>, plan: impl Fn() -> Plan, commit: impl Fn(Plan)) {
        loop {
            self.notified().await;
            let (plan, mut seen) = (plan(), 0);
            while !matches!(plan, Plan::Now { .. })
                && seen < self.notifications.get()
                && self.notifications.get() < NOTIFICATIONS_MAX
            {
                seen = self.notifications.get();
                // Comes back after a look at the sockets, and after what that made ready.
                tokio::task::yield_now().await;
            }
            let is_lone = self.notifications.replace(0) == 1;
            self.commits.set(self.commits.get().saturating_add(1));
            self.lone_commits.set(if is_lone { self.lone_commits.get().saturating_add(1) } else { 0 });
            commit(plan);
        }
    }

    async fn notified(&self) {
        poll_fn(|context| {
            let mut task = self.task.borrow_mut();
            if !task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
                *task = Some(context.waker().clone());
            }
            if self.notifications.get() == 0 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    #[test]
    fn slow_commits_one_soon_after_another_pause_for_longer() {
        let mut pause = Pause { until_ns: 0, lasts_ns: 0 };
        let mut now_ns = 7_000_000_000;
        for lasts_ms in [50, 100, 200, 400, 800, 1_600, 1_600] {
            pause = pause.next(now_ns);
            assert_eq!(
                pause,
                Pause { until_ns: now_ns + lasts_ms * 1_000_000, lasts_ns: lasts_ms * 1_000_000 }
            );
            now_ns = pause.until_ns + pause.lasts_ns - 1;
        }
        pause = pause.next(now_ns + 1);
        assert_eq!(pause.lasts_ns, INLINE_PAUSE_NS_MIN, "it was well for as long as it had been paused");
    }

    #[test]
    fn notifications_that_come_together_are_one_commit_and_none_is_lost() {
        let (trigger, commits) = (Rc::new(CommitTrigger::default()), Cell::new(0));
        let plan = Cell::new(Plan::HandOver);
        trigger.notify();
        let mut running = pin!(Rc::clone(&trigger).run(
            || plan.get(),
            |of| {
                assert_eq!(of, plan.get());
                commits.set(commits.get() + 1);
            }
        ));
        let mut context = Context::from_waker(Waker::noop());
        let mut turn = || assert!(running.as_mut().poll(&mut context).is_pending());
        turn();
        turn();
        assert_eq!(commits.get(), 1, "notified before anybody listened");
        plan.set(Plan::Together);
        trigger.notify();
        turn();
        trigger.notify();
        turn();
        assert_eq!(commits.get(), 1, "the last turn brought one more");
        turn();
        turn();
        assert_eq!(commits.get(), 2);
        (0..NOTIFICATIONS_MAX).for_each(|_| trigger.notify());
        turn();
        assert_eq!(commits.get(), 3, "many do not wait for more");
        plan.set(Plan::Now { may_sync: false });
        trigger.notify();
        trigger.notify();
        turn();
        assert_eq!(commits.get(), 4, "what costs no wake-up does not wait either");
    }

    #[test]
    fn who_writes_alone_and_that_nobody_reads_is_known_after_a_few_commits() {
        let trigger = Rc::new(CommitTrigger::default());
        let (alone, writes_only) = (RefCell::new(Vec::new()), Cell::new(false));
        let mut running = pin!(Rc::clone(&trigger).run(
            || {
                alone.borrow_mut().push(trigger.is_alone());
                writes_only.set(trigger.has_writes_only());
                Plan::Now { may_sync: true }
            },
            |_| {},
        ));
        let mut context = Context::from_waker(Waker::noop());
        let mut commit = |writes: u32| {
            (0..writes).for_each(|_| trigger.notify());
            assert!(running.as_mut().poll(&mut context).is_pending());
            alone.borrow_mut().pop().expect("it was asked")
        };
        for _ in 0..2 {
            let found: Vec<_> = (0..COMMITS_MIN + 2).map(|_| commit(1)).collect();
            assert_eq!(found.iter().position(|alone| *alone), Some(COMMITS_MIN as usize));
            assert!(!commit(2), "another one is there");
            assert!(writes_only.get(), "and writes as well");
        }
        commit(1);
        let found: Vec<_> = (0..COMMITS_MIN).map(|_| commit(1)).collect();
        assert_eq!(found.last(), Some(&true));
        trigger.note_read();
        assert!(!commit(1), "a sync would keep who reads waiting");
        assert!(!writes_only.get());
    }
}
