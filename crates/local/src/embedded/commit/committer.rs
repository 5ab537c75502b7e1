use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ladoga_env::Clock;
use ladoga_storage::{Error, WriteBatch};

use super::super::write_error;
use super::lane::{Lane, Part, Receipt};
use super::pace::{Load, Pace};
use super::queue::{Shared, panicked};
use crate::store::StoreError;

/// The thread that writes to the log what event loops do not: takes all that is queued, writes it as one group with one
/// sync, says what became of it, and begins again. What arrives meanwhile is the next group, so groups grow as the disk is slow.
pub(super) struct Committer {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    lanes: Vec<Arc<Lane>>,
    group: Group,
    pace: Pace,
}

/// What is written at once: first the puts, then the deletes, which a full disk still takes.
#[derive(Default)]
struct Group {
    batches: Vec<WriteBatch>,
    /// Where the deletes begin.
    puts: usize,
    put_shares: Vec<Share>,
    delete_shares: Vec<Share>,
    load: Load,
    entries: u64,
}

/// A lane's part of a group.
struct Share {
    lane: usize,
    waiters: Vec<u32>,
    load: Load,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, clock: Arc<dyn Clock>) -> Committer {
        Committer { shared, clock, lanes: Vec::new(), group: Group::default(), pace: Pace::new() }
    }

    /// Commits until the queue is closed and empty. After a panic, nobody knows what of a group is in the log and what in
    /// memory: then it refuses whatever is queued.
    pub(super) fn run(mut self) {
        if catch_unwind(AssertUnwindSafe(|| self.commit_until_closed())).is_err() {
            self.shared.has_panicked();
            self.refuse_until_closed();
        }
    }

    fn commit_until_closed(&mut self) {
        loop {
            self.shared.begin_to_tell();
            self.collect();
            if !self.group.batches.is_empty() {
                self.commit();
            } else if self.shared.is_closed() {
                return;
            } else {
                self.wait();
            }
        }
    }

    /// Begins with the group that it was at.
    fn refuse_until_closed(&mut self) {
        let refused = Err(panicked());
        loop {
            let Group { put_shares, delete_shares, .. } = std::mem::take(&mut self.group);
            self.deliver(put_shares, &refused);
            self.deliver(delete_shares, &refused);
            self.shared.tell_nobody();
            self.collect();
            if !self.group.batches.is_empty() {
                continue;
            }
            if self.shared.is_closed() {
                return;
            }
            self.wait();
        }
    }

    /// Takes what all lanes have.
    fn collect(&mut self) {
        if self.lanes.len() != self.shared.lanes_count() {
            self.lanes = self.shared.lanes();
        }
        let mut deletes = Vec::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            let pending = lane.take();
            self.group.add(index, pending.puts, pending.deletes, &mut deletes);
        }
        self.group.puts = self.group.batches.len();
        self.group.batches.append(&mut deletes);
    }

    fn commit(&mut self) {
        let started_ns = self.clock.monotonic_ns();
        let outcome = self.shared.writer().write(&self.group.batches);
        self.pace.observe(self.group.load.units, self.clock.monotonic_ns().saturating_sub(started_ns));
        self.shared.count_group(self.group.entries);
        self.shared.set_unit_ns(self.pace.unit_ns());
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
        for Share { lane, waiters, load } in shares {
            self.lanes[lane].deliver(Receipt { waiters, load, outcome: outcome.clone() });
        }
    }

    fn wait(&mut self) {
        self.shared.park_if(|| {
            // Under the locks of the lanes, so that no push is missed.
            let has_all_lanes = self.lanes.len() == self.shared.lanes_count();
            has_all_lanes && self.lanes.iter().all(|lane| lane.is_empty()) && !self.shared.is_to_tell()
        });
    }
}

impl Drop for Committer {
    /// Whoever waits for it does so no longer.
    fn drop(&mut self) {
        self.shared.ends();
    }
}

impl Group {
    fn add(&mut self, lane: usize, mut puts: Part, mut deletes: Part, delete_batches: &mut Vec<WriteBatch>) {
        if !puts.is_empty() {
            self.batches.append(&mut puts.batches);
            let share = self.share(lane, puts);
            self.put_shares.push(share);
        }
        if !deletes.is_empty() {
            delete_batches.append(&mut deletes.batches);
            let share = self.share(lane, deletes);
            self.delete_shares.push(share);
        }
    }

    fn share(&mut self, lane: usize, part: Part) -> Share {
        self.load = self.load + part.load;
        self.entries += part.waiters.len() as u64;
        Share { lane, waiters: part.waiters, load: part.load }
    }
}

#[cfg(test)]
#[path = "committer_tests.rs"]
mod tests;
