use std::sync::Arc;

use ladoga_model::Stamp;
use parking_lot::Mutex;

use super::commit::{Applied, Decision, Update};
use super::queued::Queued;
use crate::store::NewestCell;

/// A decision about the stamp of a cell, which is not taken if the value in memory is longer than there is room for.
pub(super) struct Restamp<D, R> {
    decide: Mutex<Option<D>>,
    answer: Mutex<Option<R>>,
}

impl<R, D> Restamp<D, R>
where
    R: Send + 'static,
    D: FnOnce(Option<NewestCell>) -> (Option<Stamp>, R) + Send + 'static,
{
    pub(super) const fn new(decide: D) -> Restamp<D, R> {
        Restamp { decide: Mutex::new(Some(decide)), answer: Mutex::new(None) }
    }

    /// Queues it, with room for a value of so many bytes.
    pub(super) fn queue(self: &Arc<Self>, queued: &Queued, key: &[u8], value_bytes_max: u64) -> Applied {
        let restamp = Arc::clone(self);
        queued.push_update(Update::by_value(key, value_bytes_max, move |newest| {
            restamp.decide(newest, value_bytes_max)
        }))
    }

    /// What was decided, once; `None` if the value was longer.
    pub(super) fn take_answer(&self) -> Option<R> {
        self.answer.lock().take()
    }

    fn decide(&self, newest: Option<NewestCell>, value_bytes_max: u64) -> Decision {
        if newest.as_ref().is_some_and(|newest| newest.inline_bytes() > value_bytes_max) {
            return Decision::Keep;
        }
        let decide = self.decide.lock().take().expect("it is decided once");
        let (stamp, answer) = decide(newest);
        *self.answer.lock() = Some(answer);
        stamp.map_or(Decision::Keep, Decision::Stamp)
    }
}
