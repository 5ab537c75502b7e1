//! Updates with what was decided for whoever asked.

use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::Cell;
use ladoga_storage::FinishedBlob;
use parking_lot::Mutex;

use super::commit::{Decision, Update};
use crate::store::NewestCell;

/// A cell that an update writes.
type Written = Cell<Bytes, FinishedBlob>;

/// What an update has decided.
pub(super) struct Answer<R>(Arc<Mutex<Option<R>>>);

impl<R> Answer<R> {
    /// The same twice: for the update, and for who waits.
    fn pair() -> (Answer<R>, Answer<R>) {
        let answer = Arc::default();
        (Answer(Arc::clone(&answer)), Answer(answer))
    }

    fn give(&self, decided: R) {
        *self.0.lock() = Some(decided);
    }

    /// After what was decided is written.
    pub(super) fn take(&self) -> R {
        self.0.lock().take().expect("what is written was decided")
    }
}

/// Writes the cell that is decided on, if any.
pub(super) fn of_one<R: Send + 'static>(
    key: &[u8],
    value_bytes_max: u64,
    decide: impl FnOnce(Option<NewestCell>) -> (Option<Written>, R) + Send + 'static,
) -> (Update, Answer<R>) {
    let (given, answer) = Answer::pair();
    let update = Update::new(key, value_bytes_max, move |newest| {
        let (cell, decided) = decide(newest);
        given.give(decided);
        cell.map_or(Decision::Keep, Decision::Write)
    });
    (update, answer)
}

/// Writes nothing, and is decided by the whole value.
pub(super) fn of_nothing<R: Send + 'static>(
    key: &[u8],
    decide: impl FnOnce(Option<NewestCell>) -> R + Send + 'static,
) -> (Update, Answer<R>) {
    let (given, answer) = Answer::pair();
    let update = Update::by_value(key, 0, move |newest| {
        given.give(decide(newest));
        Decision::Keep
    });
    (update, answer)
}

/// Writes the cells that are decided on, of which there are at most so many, with so many encoded bytes.
pub(super) fn of_several<R: Send + 'static>(
    keys: Vec<Bytes>,
    room: (usize, usize),
    decide: impl FnOnce(Vec<Option<NewestCell>>) -> (Vec<(usize, Written)>, R) + Send + 'static,
) -> (Update, Answer<R>) {
    let (given, answer) = Answer::pair();
    let update = Update::together(keys, room, move |newest| {
        let (cells, decided) = decide(newest);
        given.give(decided);
        cells
    });
    (update, answer)
}
