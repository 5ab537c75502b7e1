//! What happens in one step on a node on its own, and commands that write several keys.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use ladoga_model::Value;
use ladoga_resp::Request;
use ladoga_service::{Changed, Error, KeyValue, NewValue, Precondition, Transaction, incremented};

use super::call::{ATTEMPTS_MAX, StoreCall, contended};
use super::failed::Failed;
use super::found::NewLifetime;
use super::overlay::{Overlay, Watched};
use super::pauses::is_full;
use super::served::CommandResult;
use super::table::Verb;
use super::transaction_room::TransactionRoom;
use super::{keys, strings};

/// A command with more keys, or longer ones and values, writes each key by itself: together, they could be more than the log takes at
/// once with the least memory that a node has.
const KEYS_MAX: usize = 1_024;
const REQUEST_BYTES_MAX: usize = 256 << 10;

impl<K: KeyValue> StoreCall<K> {
    /// The same as part of a transaction on a node on its own. If it was queued, what it holds is counted as well, and it never waits
    /// for room.
    pub(super) fn overlaid(
        &self,
        watched: Vec<Watched>,
        queued: Option<&TransactionRoom>,
    ) -> (StoreCall<K>, Rc<RefCell<Overlay>>) {
        let counted = queued.map(|queued| (TransactionRoom::beside(queued), Rc::clone(&self.held)));
        let overlay = Rc::new(RefCell::new(Overlay::new(watched, counted, self.door.now_ms())));
        let part = StoreCall { overlay: Some(Rc::clone(&overlay)), ..self.clone() };
        (part, overlay)
    }

    /// Whether several keys can be written in one step, and this is no part of such a step.
    pub(super) fn may_transact(&self) -> bool {
        self.door.door.is_alone && self.overlay.is_none()
    }

    /// A transaction holds so many bytes of replies.
    pub(super) fn hold(&self, bytes: u64) -> Result<(), Failed> {
        let Some(overlay) = &self.overlay else { return Ok(()) };
        let held = overlay.borrow_mut().hold(bytes);
        held.map_err(|full| self.noted(full.into()))
    }

    /// Writes in a transaction.
    pub(super) async fn write_over(
        &self,
        key: Bytes,
        (value, expires_at_ms): (Option<Bytes>, u64),
        precondition: &Precondition,
    ) -> Result<(), Failed> {
        let is_to_be_there = match precondition {
            // What was found is still so: nobody comes in between.
            Precondition::None | Precondition::IfMatch(_) => None,
            Precondition::IfMatchAny => Some(true),
            Precondition::IfNoneMatchAny | Precondition::Never => Some(false),
        };
        if let Some(is_to_be_there) = is_to_be_there
            && self.find(&key, false).await?.is_some() != is_to_be_there
        {
            return Err(Error::PreconditionFailed { current: None }.into());
        }
        let Some(overlay) = &self.overlay else { unreachable!("it is part of a transaction") };
        let written = overlay.borrow_mut().write(key, value, expires_at_ms);
        written.map_err(|full| self.noted(full.into()))
    }

    /// The value stays as it is, and is written again with another end.
    pub(super) async fn expire_over(&self, key: Bytes, life: NewLifetime) -> Result<(), Failed> {
        let Some(found) = self.find(&key, true).await? else { return Ok(()) };
        let ttl = life.ttl(found.expires_at_ms);
        self.put(key, found.value, Precondition::None, ttl).await
    }

    /// Adds to a number in a transaction.
    pub(super) async fn increment_over(&self, key: Bytes, by: i64) -> Result<i64, Failed> {
        let found = self.find(&key, true).await?;
        let number = found.as_ref().map(|found| Value::<_, ()>::Inline(found.value.clone()));
        let sum = incremented(number.as_ref(), by)?;
        let expires_at_ms = found.map_or(0, |found| found.expires_at_ms);
        self.write_over(key, (Some(Bytes::from(sum.to_string())), expires_at_ms), &Precondition::None)
            .await?;
        Ok(sum)
    }

    /// Has everything in an overlay happen, or nothing if something that was seen has changed.
    pub(super) async fn commit(&self, overlay: &RefCell<Overlay>) -> Result<Result<(), Changed>, Failed> {
        let mut overlay = std::mem::take(&mut *overlay.borrow_mut());
        let (seen, written) = (std::mem::take(&mut overlay.seen), std::mem::take(&mut overlay.written));
        if let Some(number) = overlay.torn {
            return Ok(Err(Changed(number)));
        }
        if written.is_empty() && seen.len() < 2 {
            // Reads of one key that found the same are a step by themselves.
            return Ok(Ok(()));
        }
        if let Some((key, _)) = written.first_key_value() {
            let admitted = self.admit(&self.context(), key, 0).await;
            // What only deletes needs no room on the disk.
            let has_values = written.values().any(|written| written.value.is_some());
            match admitted {
                Err(error) if has_values || is_full(&error) => return Err(error.into()),
                Err(_) | Ok(()) => {}
            }
        }
        let mut writes = Vec::with_capacity(written.len());
        for (key, of_key) in written {
            let value = match of_key.value {
                Some(value) if value.len() as u64 >= self.service.upload_bytes_min() => {
                    Some(Value::Large(self.upload(&key, value).await?))
                }
                value => value.map(Value::Inline),
            };
            writes.push((key, NewValue { value, expires_at_ms: of_key.expires_at_ms }));
        }
        match self.service.transact(Transaction { seen, writes }) {
            Some(written) => Ok(written.await?),
            None => unreachable!("a node on its own has transactions"),
        }
    }
}

/// Whether a command writes several keys, but not too many for one step.
pub(super) fn writes_several(verb: Verb, request: &Request) -> bool {
    match verb {
        Verb::Rename | Verb::RenameNx | Verb::Copy => true,
        Verb::MSet | Verb::MSetNx => {
            request.len() <= 1 + 2 * KEYS_MAX && request.memory_bytes() <= REQUEST_BYTES_MAX
        }
        Verb::Del | Verb::Unlink => {
            (3..=1 + KEYS_MAX).contains(&request.len()) && request.memory_bytes() <= REQUEST_BYTES_MAX
        }
        _ => false,
    }
}

/// Serves such a command: anew, if others have written its keys meanwhile.
pub(super) async fn alone<K: KeyValue>(call: StoreCall<K>, verb: Verb, request: Request) -> CommandResult {
    for _ in 0..ATTEMPTS_MAX {
        let (part, overlay) = call.overlaid(Vec::new(), None);
        let request = request.clone();
        let served = match verb {
            Verb::MSet => strings::mset(part, request).await,
            Verb::MSetNx => strings::msetnx(part, request).await,
            Verb::Copy => keys::copy(part, request).await,
            Verb::Rename | Verb::RenameNx => keys::rename(part, request, verb == Verb::RenameNx).await,
            _ => keys::del(part, request).await,
        }?;
        if call.commit(&overlay).await?.is_ok() {
            return Ok(served);
        }
    }
    Err(contended())
}
