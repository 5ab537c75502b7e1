use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use ladoga_model::Version;
use parking_lot::Mutex;

use super::unit_cost::Cost;
use crate::store::StoreError;

/// What became of a write; the version that it was given in place of its own, if it was.
pub(in super::super) type Outcome = Result<Option<Version>, StoreError>;

/// A request that waits for the result of its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct WaitingWrite {
    /// The place where the outcome is waited for.
    pub(super) waiter: u32,
    /// How many cells it has; none if they are not decided yet.
    pub(super) cells: u32,
}

/// What became of writes.
pub(in super::super) struct CommitResult {
    pub(super) waiting: Vec<WaitingWrite>,
    pub(super) load: Cost,
    /// Of all but the exceptions.
    pub(super) outcome: Outcome,
    /// In the order in which they wait.
    pub(super) exceptions: Vec<(u32, Outcome)>,
}

impl CommitResult {
    /// Writes have left the queue, and nobody is told of them yet.
    pub(super) fn of_none(load: Cost) -> CommitResult {
        CommitResult { waiting: Vec::new(), load, outcome: Ok(None), exceptions: Vec::new() }
    }

    /// Nobody is told of success: what was written may not be on disk.
    pub(super) fn fail(&mut self, error: &StoreError) {
        let of_exceptions = self.exceptions.iter_mut().map(|(_, outcome)| outcome);
        for outcome in std::iter::once(&mut self.outcome).chain(of_exceptions) {
            if outcome.is_ok() {
                *outcome = Err(error.clone());
            }
        }
    }
}

/// Results that other threads hand to an event loop.
///
/// Waking a loop from another thread takes a system call. So only the first result that is delivered before the loop looks does
/// it; the loop itself then wakes the tasks that wait, which takes none.
#[derive(Default)]
pub(crate) struct Inbox {
    delivered: Mutex<Delivered>,
}

#[derive(Default)]
struct Delivered {
    results: Vec<CommitResult>,
    wakers: Vec<Waker>,
    /// The task that looks, once it has.
    reader: Option<Waker>,
}

impl Inbox {
    /// Delivers the outcome of writes.
    pub(crate) fn deliver(&self, result: CommitResult) {
        self.add(|delivered| delivered.results.push(result));
    }

    /// Wakes a task of the loop, from any thread.
    pub(crate) fn wake(&self, waker: Waker) {
        self.add(|delivered| delivered.wakers.push(waker));
    }

    fn add(&self, push: impl FnOnce(&mut Delivered)) {
        let mut delivered = self.delivered.lock();
        let is_first = delivered.results.is_empty() && delivered.wakers.is_empty();
        push(&mut delivered);
        let reader = if is_first { delivered.reader.clone() } else { None };
        drop(delivered);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Hands on what is delivered, on the thread of the event loop, until the loop ends.
    pub(crate) async fn read(self: Arc<Self>, on_result: impl Fn(CommitResult)) {
        let mut results = Vec::new();
        let mut wakers = Vec::new();
        poll_fn(|context| {
            let mut delivered = self.delivered.lock();
            std::mem::swap(&mut delivered.results, &mut results);
            std::mem::swap(&mut delivered.wakers, &mut wakers);
            if !delivered.reader.as_ref().is_some_and(|reader| reader.will_wake(context.waker())) {
                delivered.reader = Some(context.waker().clone());
            }
            drop(delivered);
            results.drain(..).for_each(&on_result);
            wakers.drain(..).for_each(Waker::wake);
            Poll::<()>::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn what_failed_before_the_sync_keeps_its_reason() {
        let [full, failed] = ["full", "the sync"].map(|reason| StoreError::NoRoom { reason: reason.into() });
        let renewed = Some(Version { timestamp: 7, node: 0 });
        for (outcome, expected) in [(Ok(None), Err(failed.clone())), (Err(full.clone()), Err(full.clone()))] {
            let exceptions = vec![(1, Ok(renewed)), (2, Err(full.clone())), (3, Ok(None))];
            let mut result = CommitResult { waiting: Vec::new(), load: Cost::default(), outcome, exceptions };
            result.fail(&failed);
            assert_eq!(result.outcome, expected);
            let told = [(1, Err(failed.clone())), (2, Err(full.clone())), (3, Err(failed.clone()))];
            assert_eq!(result.exceptions, told);
        }
    }

    #[test]
    fn many_deliveries_take_one_wake_up() {
        let inbox = Arc::new(Inbox::default());
        let (reader, waiter) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let mut reading = pin!(Arc::clone(&inbox).read(|_| {}));
        let waker = Waker::from(Arc::clone(&reader));
        let mut context = Context::from_waker(&waker);
        assert!(reading.as_mut().poll(&mut context).is_pending());
        for _ in 0..3 {
            inbox.wake(Waker::from(Arc::clone(&waiter)));
        }
        assert_eq!((reader.0.load(Ordering::SeqCst), waiter.0.load(Ordering::SeqCst)), (1, 0));
        assert!(reading.as_mut().poll(&mut context).is_pending());
        assert_eq!(waiter.0.load(Ordering::SeqCst), 3);
        inbox.wake(Waker::from(waiter));
        assert_eq!(reader.0.load(Ordering::SeqCst), 2);
    }
}
