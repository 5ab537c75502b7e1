use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::Inner;
use crate::batch::WriteBatch;
use crate::error::Error;

/// Bytes of batches that one group takes from the queue; keeps a group's latency near that of its sync.
const GROUP_BYTES: usize = 1 << 20;

/// Writers on threads: the first becomes the leader and writes for all that came meanwhile, then hands over.
#[derive(Default)]
pub(super) struct CommitQueue {
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    has_leader: bool,
    waiting: Vec<(WriteBatch, Arc<Waiter>)>,
}

#[derive(Default)]
struct Waiter {
    outcome: Mutex<Outcome>,
    changed: Condvar,
}

#[derive(Default)]
enum Outcome {
    #[default]
    Waiting,
    /// The waiter writes the next group, its own batch among it.
    Lead(Vec<(WriteBatch, Arc<Waiter>)>),
    Done(Result<(), Error>),
}

impl CommitQueue {
    pub(super) fn write(&self, inner: &Inner, batch: WriteBatch) -> Result<(), Error> {
        // Before it is in a group, which would fail as a whole.
        inner.check_fits(&batch)?;
        let mut state = self.state.lock();
        if !state.has_leader {
            state.has_leader = true;
            drop(state);
            let result = self.or_give_up(inner, &[], || inner.write_group(std::slice::from_ref(&batch)));
            self.hand_over();
            return result;
        }
        let waiter = Arc::new(Waiter::default());
        state.waiting.push((batch, waiter.clone()));
        drop(state);
        match waiter.wait() {
            Outcome::Done(result) => result,
            Outcome::Lead(group) => self.lead(inner, group, &waiter),
            Outcome::Waiting => unreachable!("the wait ends with an outcome"),
        }
    }

    fn lead(
        &self,
        inner: &Inner,
        group: Vec<(WriteBatch, Arc<Waiter>)>,
        own: &Arc<Waiter>,
    ) -> Result<(), Error> {
        let (mut batches, waiters): (Vec<WriteBatch>, Vec<Arc<Waiter>>) = group.into_iter().unzip();
        let has_puts: Vec<bool> = batches.iter().map(WriteBatch::has_puts).collect();
        let (result, of_deletes) = self.or_give_up(inner, &waiters, || {
            let result = inner.write_group(&batches);
            let mut of_deletes = result.clone();
            if matches!(result, Err(Error::DiskFull { .. })) {
                // The puts are refused, and must not take with them what may go on.
                batches.retain(|batch| !batch.has_puts());
                of_deletes = inner.write_group(&batches);
            }
            (result, of_deletes)
        });
        self.hand_over();
        let mut own_result = result.clone();
        for (waiter, has_puts) in waiters.iter().zip(has_puts) {
            let result = if has_puts { &result } else { &of_deletes };
            if Arc::ptr_eq(waiter, own) {
                own_result.clone_from(result);
            } else {
                waiter.set(Outcome::Done(result.clone()));
            }
        }
        own_result
    }

    /// Writes as the leader. After a panic nobody leads those that wait: they get the error, and so do all that come after
    /// them, from the engine, which refuses writes then.
    fn or_give_up<T>(&self, inner: &Inner, group: &[Arc<Waiter>], write: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(write)).unwrap_or_else(|panic| {
            let error = inner.poison(&Error::WritePanicked);
            let mut state = self.state.lock();
            state.has_leader = false;
            let waiting = std::mem::take(&mut state.waiting);
            drop(state);
            for waiter in group.iter().chain(waiting.iter().map(|(_, waiter)| waiter)) {
                waiter.set(Outcome::Done(Err(error.clone())));
            }
            resume_unwind(panic)
        })
    }

    /// Makes the longest-waiting writer the leader of those that wait.
    fn hand_over(&self) {
        let mut state = self.state.lock();
        let mut bytes = 0;
        let fitting = state.waiting.iter().take_while(|(batch, _)| {
            let fits = bytes == 0 || bytes + batch.encoded_bytes() <= GROUP_BYTES;
            bytes += batch.encoded_bytes();
            fits
        });
        let count = fitting.count();
        let group: Vec<_> = state.waiting.drain(..count).collect();
        let Some((_, leader)) = group.first() else {
            state.has_leader = false;
            return;
        };
        let leader = leader.clone();
        drop(state);
        leader.set(Outcome::Lead(group));
    }
}

impl Waiter {
    fn set(&self, outcome: Outcome) {
        *self.outcome.lock() = outcome;
        self.changed.notify_one();
    }

    fn wait(&self) -> Outcome {
        let mut outcome = self.outcome.lock();
        while matches!(*outcome, Outcome::Waiting) {
            self.changed.wait(&mut outcome);
        }
        std::mem::take(&mut *outcome)
    }
}
