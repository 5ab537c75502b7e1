use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ladoga_env::{Clock, Turn, Worker};
use ladoga_storage::{Durability, WriteBatch};

use super::super::write_error;
use super::inbox::{CommitResult, Outcome, WaitingWrite};
use super::shared::{CommitShared, panicked};
use super::unit_cost::{Cost, UnitCost};
use super::write_queue::{Pending, WriteQueue};
use super::writer::{WriteGroup, WrittenGroup};
use super::{passing, update};

/// The worker that commits the writes that event loops do not commit themselves. It takes all that is queued, writes it as one
/// group with one sync, reports the result, and begins again. What arrives during a sync is the next group, so groups grow as
/// the disk gets slower. Writes of each durability are a group.
pub(super) struct Committer {
    shared: Arc<CommitShared>,
    clock: Arc<dyn Clock>,
    write_queues: Vec<Arc<WriteQueue>>,
    group: SharedGroup,
    unit_cost: UnitCost,
    has_panicked: bool,
}

/// The writes of all event loops that are committed together, and who waits for them.
#[derive(Default)]
struct SharedGroup {
    group: WriteGroup,
    put_shares: Vec<Share>,
    delete_shares: Vec<Share>,
    update_shares: Vec<Share>,
    load: Cost,
    entries: u64,
}

/// A write queue's part of a group.
struct Share {
    write_queue: usize,
    waiting: Vec<WaitingWrite>,
    load: Cost,
}

impl Committer {
    pub(super) fn new(shared: Arc<CommitShared>, clock: Arc<dyn Clock>) -> Committer {
        Committer {
            shared,
            clock,
            write_queues: Vec::new(),
            group: SharedGroup::default(),
            unit_cost: UnitCost::new(),
            has_panicked: false,
        }
    }

    fn commit_next(&mut self) -> Turn {
        let mut is_idle = true;
        // The weakest first: it does not wait for the sync of the strongest.
        for durability in Durability::ALL {
            self.collect(durability);
            if !self.group.is_empty() {
                self.commit(durability);
                is_idle = false;
            }
        }
        if is_idle { self.wait() } else { Turn::Again }
    }

    /// Begins with the group that it was at.
    fn refuse_next(&mut self) -> Turn {
        let SharedGroup { put_shares, delete_shares, update_shares, .. } = std::mem::take(&mut self.group);
        for share in [put_shares, delete_shares, update_shares].into_iter().flatten() {
            // Nothing that is refused waits for a sync.
            self.deliver(share, Durability::Never, Err(panicked()), Vec::new());
        }
        Durability::ALL.into_iter().for_each(|durability| self.collect(durability));
        if self.group.is_empty() { self.wait() } else { Turn::Again }
    }

    /// Takes what all write queues have of a durability.
    fn collect(&mut self, durability: Durability) {
        if self.write_queues.len() != self.shared.write_queues_count() {
            self.write_queues = self.shared.write_queues();
        }
        let mut deletes = Vec::new();
        for (index, write_queue) in self.write_queues.iter().enumerate() {
            self.group.add(index, write_queue.take(durability), &mut deletes);
        }
        let WriteGroup { batches, puts, .. } = &mut self.group.group;
        *puts = batches.len();
        batches.append(&mut deletes);
    }

    fn commit(&mut self, durability: Durability) {
        let started_ns = self.clock.monotonic_ns();
        // Only the batches are moved out: if the write panics, the list of who waits for them is still here to be answered.
        let group = std::mem::take(&mut self.group.group);
        let written = self.shared.writer().write(group, self.shared.written_as(durability));
        self.unit_cost.observe(self.group.load.units, self.clock.monotonic_ns().saturating_sub(started_ns));
        self.shared.count_group(self.group.entries);
        self.shared.set_unit_ns(self.unit_cost.unit_ns());
        let shares = std::mem::take(&mut self.group);
        match written {
            Ok(written) => self.deliver_all(shares, durability, &written),
            Err(error) => {
                let SharedGroup { put_shares, delete_shares, update_shares, .. } = shares;
                for share in [put_shares, delete_shares, update_shares].into_iter().flatten() {
                    self.deliver(share, durability, Err(write_error(&error)), Vec::new());
                }
            }
        }
    }

    fn deliver_all(&self, shares: SharedGroup, durability: Durability, written: &WrittenGroup) {
        let WrittenGroup { outcome, of_deletes, puts_stored, deletes_stored, passed, verdicts } = written;
        let [outcome, of_deletes] = [outcome, of_deletes].map(|outcome| match outcome {
            Ok(()) => Ok(None),
            Err(error) => Err(write_error(error)),
        });
        let mut first_cell = 0;
        let puts = shares.put_shares.into_iter().map(|share| (share, &outcome, *puts_stored));
        let deletes = shares.delete_shares.into_iter().map(|share| (share, &of_deletes, *deletes_stored));
        for (share, outcome, stored) in puts.chain(deletes) {
            let (first, mut exceptions) = (first_cell, Vec::new());
            if !passed.is_empty() || outcome.is_err() {
                exceptions = passing::exceptions(&share.waiting, &mut first_cell, passed);
            }
            if outcome.is_err() {
                exceptions = passing::exceptions_of_stored(&share.waiting, first, stored, exceptions);
            }
            self.deliver(share, durability, outcome.clone(), exceptions);
        }
        let mut verdicts = verdicts.iter();
        for share in shares.update_shares {
            let of_share = verdicts.by_ref().take(share.waiting.len());
            let exceptions = update::exceptions(&share.waiting, of_share, &outcome, &of_deletes);
            self.deliver(share, durability, outcome.clone(), exceptions);
        }
    }

    fn deliver(
        &self,
        share: Share,
        durability: Durability,
        outcome: Outcome,
        exceptions: Vec<(u32, Outcome)>,
    ) {
        let Share { write_queue, waiting, load } = share;
        let result = CommitResult { waiting, load, outcome, exceptions };
        let write_queue = &self.write_queues[write_queue];
        write_queue.end_of_commit();
        self.shared.deliver(write_queue, durability, result);
    }

    /// There is nothing to commit.
    fn wait(&self) -> Turn {
        if self.shared.is_closed() {
            return Turn::Over;
        }
        let may_wait = self.shared.may_wait(|| {
            // Under the locks of the write queues, so that no push is missed.
            let has_all_queues = self.write_queues.len() == self.shared.write_queues_count();
            has_all_queues && self.write_queues.iter().all(|write_queue| write_queue.is_empty())
        });
        if may_wait { Turn::Wait } else { Turn::Again }
    }
}

impl Worker for Committer {
    /// Commits a group, until the queue is closed and empty. After a panic it is unknown which writes of the group are in the
    /// log and which in memory, so everything that is queued is refused.
    fn turn(&mut self) -> Turn {
        self.shared.goes_on();
        if !self.has_panicked {
            match catch_unwind(AssertUnwindSafe(|| self.commit_next())) {
                Ok(turn) => return turn,
                Err(_) => {
                    self.has_panicked = true;
                    self.shared.mark_panicked();
                }
            }
        }
        self.refuse_next()
    }
}

impl SharedGroup {
    fn is_empty(&self) -> bool {
        self.group.batches.is_empty() && self.group.updates.is_empty()
    }

    /// Adds what a write queue had, but for the batches of its deletes.
    fn add(&mut self, write_queue: usize, pending: Pending, deletes: &mut Vec<WriteBatch>) {
        let Pending { puts, deletes: mut of_deletes, mut updates } = pending;
        if !puts.is_empty() {
            self.group.batches.extend(puts.batches);
            let share = self.share(write_queue, puts.waiting, puts.load);
            self.put_shares.push(share);
        }
        if !of_deletes.is_empty() {
            deletes.append(&mut of_deletes.batches);
            let share = self.share(write_queue, of_deletes.waiting, of_deletes.load);
            self.delete_shares.push(share);
        }
        if !updates.updates.is_empty() {
            self.group.updates.append(&mut updates.updates);
            let share = self.share(write_queue, updates.waiting, updates.load);
            self.update_shares.push(share);
        }
    }

    fn share(&mut self, write_queue: usize, waiting: Vec<WaitingWrite>, load: Cost) -> Share {
        self.load = self.load + load;
        self.entries += waiting.len() as u64;
        Share { write_queue, waiting, load }
    }
}

#[cfg(test)]
#[path = "committer_tests.rs"]
mod tests;
