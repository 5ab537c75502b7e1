use std::cell::Cell as Counter;
use std::rc::Rc;
use std::sync::Arc;

use ladoga_model::Cell;
use ladoga_storage::{Durability, FinishedBlob};

use super::commit::{Applied, CommitTrigger, Update, Waiters, WriteQueue};
use crate::store::WriteKind;

/// The writes that are queued on this loop, and who waits for them.
#[derive(Clone)]
pub(super) struct Queued {
    pub(super) write_queue: Arc<WriteQueue>,
    pub(super) waiters: Rc<Waiters>,
    pub(super) commit_trigger: Rc<CommitTrigger>,
    /// How durable what is queued has to be before it is answered.
    pub(super) durability: Durability,
}

impl Queued {
    pub(super) fn push<'c>(
        &self,
        kind: WriteKind,
        cells: impl IntoIterator<Item = (&'c [u8], Cell<&'c [u8], FinishedBlob>)>,
    ) -> Applied {
        self.wait_for(|waiter| self.write_queue.push((kind, self.durability), cells, waiter))
    }

    pub(super) fn push_update(&self, update: Update) -> Applied {
        self.wait_for(|waiter| self.write_queue.push_update(update, self.durability, waiter))
    }

    fn wait_for(&self, push: impl FnOnce(u32)) -> Applied {
        let waiter = self.waiters.enter();
        push(waiter);
        self.commit_trigger.notify();
        Applied::waiting(Rc::clone(&self.waiters), waiter)
    }
}

/// An update that is not queued yet.
pub(super) struct Unqueued(Rc<Counter<u64>>);

impl Unqueued {
    pub(super) fn begin(unqueued: &Rc<Counter<u64>>) -> Unqueued {
        unqueued.set(unqueued.get() + 1);
        Unqueued(Rc::clone(unqueued))
    }
}

impl Drop for Unqueued {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
