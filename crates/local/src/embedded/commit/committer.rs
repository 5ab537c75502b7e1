use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ladoga_env::{Clock, Turn, Worker};
use ladoga_storage::{Error, WriteBatch};

use super::super::write_error;
use super::inbox::CommitResult;
use super::shared::{CommitShared, panicked};
use super::unit_cost::{Cost, UnitCost};
use super::write_queue::{PendingWrites, WriteQueue};
use crate::store::StoreError;

/// The worker that writes to the log what event loops do not: takes all that is queued, writes it as one group with one
/// sync, says what became of it, and begins again. What arrives meanwhile is the next group, so groups grow as the disk is slow.
pub(super) struct Committer {
    shared: Arc<CommitShared>,
    clock: Arc<dyn Clock>,
    write_queues: Vec<Arc<WriteQueue>>,
    group: Group,
    unit_cost: UnitCost,
    has_panicked: bool,
}

/// What is written at once: first the puts, then the deletes, which a full disk still takes.
#[derive(Default)]
struct Group {
    batches: Vec<WriteBatch>,
    /// Where the deletes begin.
    puts: usize,
    put_shares: Vec<Share>,
    delete_shares: Vec<Share>,
    load: Cost,
    entries: u64,
}

/// A write queue's part of a group.
struct Share {
    write_queue: usize,
    waiters: Vec<u32>,
    load: Cost,
}

impl Committer {
    pub(super) fn new(shared: Arc<CommitShared>, clock: Arc<dyn Clock>) -> Committer {
        Committer {
            shared,
            clock,
            write_queues: Vec::new(),
            group: Group::default(),
            unit_cost: UnitCost::new(),
            has_panicked: false,
        }
    }

    fn commit_next(&mut self) -> Turn {
        self.collect();
        if self.group.batches.is_empty() {
            return self.wait();
        }
        self.commit();
        Turn::Again
    }

    /// Begins with the group that it was at.
    fn refuse_next(&mut self) -> Turn {
        let refused = Err(panicked());
        let Group { put_shares, delete_shares, .. } = std::mem::take(&mut self.group);
        self.deliver(put_shares, &refused);
        self.deliver(delete_shares, &refused);
        self.collect();
        if self.group.batches.is_empty() { self.wait() } else { Turn::Again }
    }

    /// Takes what all write queues have.
    fn collect(&mut self) {
        if self.write_queues.len() != self.shared.write_queues_count() {
            self.write_queues = self.shared.write_queues();
        }
        let mut deletes = Vec::new();
        for (index, write_queue) in self.write_queues.iter().enumerate() {
            let pending = write_queue.take();
            self.group.add(index, pending.puts, pending.deletes, &mut deletes);
        }
        self.group.puts = self.group.batches.len();
        self.group.batches.append(&mut deletes);
    }

    fn commit(&mut self) {
        let started_ns = self.clock.monotonic_ns();
        let outcome = self.shared.writer().write(&self.group.batches);
        self.unit_cost.observe(self.group.load.units, self.clock.monotonic_ns().saturating_sub(started_ns));
        self.shared.count_group(self.group.entries);
        self.shared.set_unit_ns(self.unit_cost.unit_ns());
        let of_deletes = self.outcome_of_deletes(&outcome, &self.group.batches[self.group.puts..]);
        let group = std::mem::take(&mut self.group);
        self.deliver(group.put_shares, &outcome.map_err(|error| write_error(&error)));
        self.deliver(group.delete_shares, &of_deletes.map_err(|error| write_error(&error)));
    }

    /// A disk that has no room for a group may have some for its deletes alone.
    fn outcome_of_deletes(&self, outcome: &Result<(), Error>, deletes: &[WriteBatch]) -> Result<(), Error> {
        match outcome {
            Err(error) if error.is_disk_full() && !deletes.is_empty() => self.shared.writer().write(deletes),
            outcome => outcome.clone(),
        }
    }

    fn deliver(&self, shares: Vec<Share>, outcome: &Result<(), StoreError>) {
        for Share { write_queue, waiters, load } in shares {
            self.write_queues[write_queue].deliver(CommitResult { waiters, load, outcome: outcome.clone() });
        }
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
    /// Commits a group, until the queue is closed and empty. After a panic, nobody knows what of a group is in the log and what
    /// in memory: then it refuses whatever is queued.
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

impl Group {
    fn add(
        &mut self,
        write_queue: usize,
        mut puts: PendingWrites,
        mut deletes: PendingWrites,
        delete_batches: &mut Vec<WriteBatch>,
    ) {
        if !puts.is_empty() {
            self.batches.append(&mut puts.batches);
            let share = self.share(write_queue, puts);
            self.put_shares.push(share);
        }
        if !deletes.is_empty() {
            delete_batches.append(&mut deletes.batches);
            let share = self.share(write_queue, deletes);
            self.delete_shares.push(share);
        }
    }

    fn share(&mut self, write_queue: usize, part: PendingWrites) -> Share {
        self.load = self.load + part.load;
        self.entries += part.waiters.len() as u64;
        Share { write_queue, waiters: part.waiters, load: part.load }
    }
}

#[cfg(test)]
#[path = "committer_tests.rs"]
mod tests;
