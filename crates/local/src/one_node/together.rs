//! Writes of several keys that happen all or none: one update of all of them.

use std::future::ready;

use ladoga_model::{self as model, Cell, Stamp};
use ladoga_service::{
    Changed, Context, Error, KeyChange, KeyWrite, Later, Seen, Together, Transaction, decide_together,
};

use super::{Finished, OneNode};
use crate::admission::Admission;
use crate::distinct_keys::DistinctKeys;
use crate::store::{LocalStore, Store, WriteKind};

impl<S: Store, A: Admission> OneNode<S, A> {
    /// Writes that happen all or none: one update of all their keys.
    pub(super) fn write_all(
        &self,
        context: &Context,
        writes: Vec<KeyWrite>,
    ) -> Later<Result<Together, Error>> {
        let value_bytes = writes.iter().map(|write| write.change.value_bytes_max()).sum();
        let only_deletes = writes.iter().all(|write| matches!(write.change, KeyChange::Delete));
        let kind = if only_deletes { WriteKind::Delete } else { WriteKind::Put };
        if let Err(error) = self.store.admit(kind, value_bytes) {
            return Box::pin(ready(Err(error.into())));
        }
        let (mut keys, mut room) = (DistinctKeys::default(), Vec::with_capacity(writes.len()));
        let mut numbered = Vec::with_capacity(writes.len());
        // Each write gets its version when it is decided, as an update of its key alone would.
        let named: Vec<&[u8]> = writes.iter().map(|write| &*write.key).collect();
        let stamps = match self.admission.stamps_together(&named) {
            Ok(stamps) => stamps,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        for (write, stamp) in writes.into_iter().zip(stamps) {
            let number = keys.number(&write.key);
            room.push((number, write.change.value_bytes_max()));
            numbered.push((number, write, stamp));
        }
        let admission = self.admission.clone();
        let decide = move |newest| decide_together(numbered, newest, admission.time_ms());
        let written = self.store_for(context).update_together(keys.keys, &room, decide);
        Box::pin(async move { Ok(written.await?) })
    }

    /// What was seen is looked at again inside the commit, where all cells get their versions.
    pub(super) fn write_transaction(
        &self,
        Transaction { seen, writes }: Transaction<Finished<S>>,
    ) -> Later<Result<Result<(), Changed>, Error>> {
        let mut keys = DistinctKeys::default();
        let seen: Vec<_> = seen.iter().map(|(key, seen)| (keys.number(key), *seen)).collect();
        let (mut cells, mut room) = (Vec::with_capacity(writes.len()), Vec::with_capacity(writes.len()));
        let named: Vec<&[u8]> = writes.iter().map(|(key, _)| &**key).collect();
        let stamps = match self.admission.stamps_together(&named) {
            Ok(stamps) => stamps,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        for ((key, written), stamp) in writes.into_iter().zip(stamps) {
            let number = keys.number(&key);
            room.push((number, written.value.as_ref().map_or(0, model::Value::inline_bytes)));
            cells.push((number, written, stamp));
        }
        let admission = self.admission.clone();
        let decided = self.store.update_together(keys.keys, &room, move |newest| {
            let now_ms = admission.time_ms();
            let is_changed =
                |(number, before): &(usize, Seen)| !Seen::of(newest[*number].as_ref(), now_ms).is_as(*before);
            if let Some(number) = seen.iter().position(is_changed) {
                return (Vec::new(), Err(Changed(number)));
            }
            let cells = cells.into_iter().map(|(number, written, stamp)| {
                let stamp = Stamp { expires_at_ms: written.expires_at_ms, ..stamp() };
                (number, Cell { stamp, value: written.value })
            });
            (cells.collect(), Ok(()))
        });
        Box::pin(async move { Ok(decided.await?) })
    }
}
