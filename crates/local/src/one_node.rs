use std::future::ready;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::{self as model, Cell, Stamp, Ttl, Version};
use ladoga_service::{
    BackupAnswer, BackupStep, ChangeFormat, Changed, Context, Error, Followed, Follower, KeyRange, KeyValue,
    KeyWrite, Later, Lookup, Metric, NUMBER_BYTES_MAX, Pieces, RecordFormat, StoredCell, Sum, Together,
    Transaction, Upload, may_expire, may_write, sum,
};

use crate::admission::Admission;
use crate::one_write::OneWrite;
use crate::store::{LocalStore, NewestCell, Store, WriteKind};

mod together;

/// The service of one node: what it answers, and acknowledges, by itself.
pub struct OneNode<S: Store, A> {
    shared: Arc<S>,
    store: Rc<S::Local>,
    admission: A,
}

/// What a write puts under its key: a value in memory, or a finished upload.
type WrittenValue<S> = model::Value<Bytes, Finished<S>>;
/// A finished upload.
type Finished<S> = <<<S as Store>::Local as LocalStore>::Upload as Upload>::Finished;

impl<S: Store, A: Admission> OneNode<S, A> {
    /// Answers from `store`, which is how one event loop reaches `shared`.
    pub fn new(shared: Arc<S>, store: Rc<S::Local>, admission: A) -> OneNode<S, A> {
        OneNode { shared, store, admission }
    }

    /// The store, as a request reaches it that may ask for a durability of its own.
    fn store_for(&self, context: &Context) -> Rc<S::Local> {
        let asked = context.durability.map(|durability| Rc::new(self.store.with_durability(durability)));
        asked.unwrap_or_else(|| Rc::clone(&self.store))
    }

    /// The one local write, or deletion if there is no value: it gets its version, is admitted and applied. Who applies
    /// it is the store's business: see [`LocalStore::apply`].
    fn write<K: AsRef<[u8]> + 'static, R: 'static>(
        &self,
        context: &Context,
        key: K,
        value: Option<WrittenValue<S>>,
        room: R,
    ) -> OneWrite<<S::Local as LocalStore>::Apply> {
        let (store, admission) = (self.store_for(context), &self.admission);
        let ttl = context.ttl.filter(|_| value.is_some());
        let expires_at_ms = ttl.map_or(0, |ttl| ttl.ends_ms(admission.time_ms()));
        let stamp = Stamp { expires_at_ms, ..admission.stamp() };
        if admission.admits_all() {
            // The store has a copy, and bounds of its own: neither the value nor the room for it is needed any more.
            return OneWrite::Applied(apply(&*store, key.as_ref(), stamp, value), stamp.version);
        }
        let admission = admission.clone();
        OneWrite::Later(Box::pin(async move {
            let admitted = admission.admit(stamp).await?;
            let applied = apply(&*store, key.as_ref(), stamp, value);
            drop(room);
            let applied = applied.await;
            drop(admitted);
            let version = applied?.unwrap_or(stamp.version);
            admission.acknowledge(key.as_ref(), version)?;
            Ok(version)
        }))
    }

    /// The same if it has a precondition: it gets its version when that is found true, inside the commit. What has expired by then is
    /// gone, since clients may have been told so, although the request came before.
    fn write_if(
        &self,
        context: &Context,
        key: &[u8],
        value: Option<WrittenValue<S>>,
    ) -> Later<Result<Version, Error>> {
        let (precondition, admission) = (context.precondition.clone(), self.admission.clone());
        let ttl = context.ttl.filter(|_| value.is_some());
        let expires_at_ms = ttl.map_or(0, |ttl| ttl.ends_ms(admission.time_ms()));
        let stamp = self.admission.stamp_of_update(key);
        let stamp = match stamp {
            Ok(stamp) => stamp,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        let value_bytes = value.as_ref().map_or(0, model::Value::inline_bytes);
        let updated = self.store_for(context).update(key, value_bytes, move |newest| {
            if let Err(error) = may_write(&precondition, newest.as_ref(), admission.time_ms()) {
                return (None, Err(error));
            }
            let stamp = Stamp { expires_at_ms, ..stamp() };
            (Some(Cell { stamp, value }), Ok(stamp.version))
        });
        Box::pin(async move { updated.await? })
    }

    fn add(&self, context: &Context, key: &[u8], by: i64) -> Later<Result<(i64, Stamp), Error>> {
        let admitted = self.store.admit(WriteKind::Put, NUMBER_BYTES_MAX as u64).map_err(Error::from);
        let stamp = match admitted.and_then(|()| self.admission.stamp_of_update(key)) {
            Ok(stamp) => stamp,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        let (precondition, admission) = (context.precondition.clone(), self.admission.clone());
        let updated = self.store_for(context).update(key, NUMBER_BYTES_MAX as u64, move |newest| {
            let sum = sum(&precondition, newest.as_ref(), by, admission.time_ms());
            let Sum { number, expires_at_ms } = match sum {
                Ok(sum) => sum,
                Err(error) => return (None, Err(error)),
            };
            let (stamp, text) = (Stamp { expires_at_ms, ..stamp() }, Bytes::from(number.to_string()));
            (Some(Cell { stamp, value: Some(model::Value::Inline(text)) }), Ok((number, stamp)))
        });
        Box::pin(async move { updated.await? })
    }

    fn change_expiry(&self, context: &Context, key: &[u8], ttl: Option<Ttl>) -> Later<Result<Stamp, Error>> {
        let admitted = self.store.admit(WriteKind::Put, 0).map_err(Error::from);
        let stamp = match admitted.and_then(|()| self.admission.stamp_of_update(key)) {
            Ok(stamp) => stamp,
            Err(error) => return Box::pin(ready(Err(error))),
        };
        let (precondition, admission) = (context.precondition.clone(), self.admission.clone());
        let expires_at_ms = ttl.map_or(0, |ttl| ttl.ends_ms(admission.time_ms()));
        let changed = self.store_for(context).restamp(key, move |newest| {
            if let Err(error) = may_expire(&precondition, newest.as_ref(), admission.time_ms()) {
                return (None, Err(error));
            }
            let stamp = Stamp { expires_at_ms, ..stamp() };
            (Some(stamp), Ok(stamp))
        });
        Box::pin(async move { changed.await? })
    }
}

fn apply<S: LocalStore>(
    store: &S,
    key: &[u8],
    stamp: Stamp,
    value: Option<model::Value<Bytes, <S::Upload as Upload>::Finished>>,
) -> S::Apply {
    let apply = |value| store.apply([(key, Cell { stamp, value })]);
    match value {
        Some(model::Value::Inline(bytes)) => apply(Some(model::Value::Inline(&bytes[..]))),
        Some(model::Value::Large(upload)) => apply(Some(model::Value::Large(upload))),
        None => apply(None),
    }
}

impl<S: Store, A: Admission> KeyValue for OneNode<S, A> {
    type Upload = <S::Local as LocalStore>::Upload;

    fn until_ready(&self) -> Option<Later<Result<u64, Error>>> {
        None
    }

    fn fetch_ahead(&self, keys: &[&[u8]]) {
        self.store.fetch_ahead(keys);
    }

    fn get(
        &self,
        _: &Context,
        key: &[u8],
    ) -> Lookup<
        StoredCell,
        Error,
        impl Future<Output = Result<Option<StoredCell>, Error>> + use<S, A> + 'static,
    > {
        match self.store.get_cell(key) {
            Lookup::Now(found) => {
                Lookup::Now(found.map(|cell| as_of_now(cell, &self.admission)).map_err(Error::from))
            }
            Lookup::Later(found) => {
                let admission = self.admission.clone();
                Lookup::Later(async move { Ok(as_of_now(found.await?, &admission)) })
            }
        }
    }

    fn admit_put(&self, _: &Context, _: &[u8], value_bytes: u64) -> Result<(), Error> {
        Ok(self.store.admit(WriteKind::Put, value_bytes)?)
    }

    fn admit_conditional(
        &self,
        context: &Context,
        key: &[u8],
        _: u64,
    ) -> impl Future<Output = Result<(), Error>> + use<S, A> + 'static {
        let (precondition, found) = (context.precondition.clone(), self.store.get_cell(key));
        let (store, key, admission) =
            (self.store_for(context), Bytes::copy_from_slice(key), self.admission.clone());
        async move {
            if may_write(&precondition, found.wait().await?.as_ref(), admission.time_ms()).is_ok() {
                return Ok(());
            }
            // Decided as the write itself would be: who is refused is told of a cell that is as durable as the write was to be.
            let decide = move |newest: Option<NewestCell>| {
                may_write(&precondition, newest.as_ref(), admission.time_ms())
            };
            store.update(&key, 0, move |newest| (None, decide(newest))).await?
        }
    }

    fn put<K: AsRef<[u8]> + 'static, R: 'static>(
        &self,
        context: &Context,
        key: K,
        value: Bytes,
        room: R,
    ) -> impl Future<Output = Result<Version, Error>> + use<S, A, K, R> + 'static {
        let value = Some(model::Value::Inline(value));
        if context.precondition.is_none() {
            return self.write(context, key, value, room);
        }
        let written = self.write_if(context, key.as_ref(), value);
        OneWrite::Later(Box::pin(async move {
            let written = written.await;
            // The value itself is what was queued.
            drop(room);
            written
        }))
    }

    fn delete<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
    ) -> impl Future<Output = Result<Version, Error>> + use<S, A, K> + 'static {
        if let Err(error) = self.store.admit(WriteKind::Delete, 0) {
            return OneWrite::Refused(Some(error.into()));
        }
        if context.precondition.is_none() {
            self.write(context, key, None, ())
        } else {
            OneWrite::Later(self.write_if(context, key.as_ref(), None))
        }
    }

    fn increment<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        by: i64,
    ) -> impl Future<Output = Result<(i64, Stamp), Error>> + use<S, A, K> + 'static {
        self.add(context, key.as_ref(), by)
    }

    fn expire<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        ttl: Option<Ttl>,
    ) -> impl Future<Output = Result<Stamp, Error>> + use<S, A, K> + 'static {
        self.change_expiry(context, key.as_ref(), ttl)
    }

    /// It may be that they only delete.
    fn admit_together(&self) -> Result<(), Error> {
        Ok(self.store.admit(WriteKind::Delete, 0)?)
    }

    fn write_together(&self, context: &Context, writes: Vec<KeyWrite>) -> Later<Result<Together, Error>> {
        self.write_all(context, writes)
    }

    fn transact(
        &self,
        transaction: Transaction<<Self::Upload as Upload>::Finished>,
    ) -> Option<Later<Result<Result<(), Changed>, Error>>> {
        Some(self.write_transaction(transaction))
    }

    fn unordered_writes(&self) -> u64 {
        self.store.unqueued_updates()
    }

    fn upload_bytes_min(&self) -> u64 {
        self.store.upload_bytes_min()
    }

    fn upload(
        &self,
        _: &Context,
        _: &[u8],
    ) -> impl Future<Output = Result<Self::Upload, Error>> + use<S, A> + 'static {
        let upload = self.store.upload();
        async move { Ok(upload.await?) }
    }

    fn put_uploaded<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        value: <Self::Upload as Upload>::Finished,
    ) -> impl Future<Output = Result<Version, Error>> + use<S, A, K> + 'static {
        let value = Some(model::Value::Large(value));
        if context.precondition.is_none() {
            self.write(context, key, value, ())
        } else {
            OneWrite::Later(self.write_if(context, key.as_ref(), value))
        }
    }

    fn range(
        &self,
        _: &Context,
        range: KeyRange,
        format: Box<dyn RecordFormat>,
    ) -> impl Future<Output = Result<Box<dyn Pieces>, Error>> + use<S, A> + 'static {
        let KeyRange { span, limit, .. } = range;
        ready(Ok(self.store.range(span, limit, self.admission.time_ms(), format)))
    }

    fn backup(&self, step: BackupStep) -> Later<Result<BackupAnswer, Error>> {
        let BackupStep::Log { .. } = step else { return self.store.backup(step) };
        // Before the log is sealed: what is acknowledged by then was committed before, and what comes later has later versions.
        let up_to_ms = self.admission.given_up_to_ms();
        let answered = self.store.backup(step);
        Box::pin(async move {
            let mut answer = answered.await?;
            if let BackupAnswer::Log(log) = &mut answer {
                log.reaches_ms = up_to_ms;
            }
            Ok(answer)
        })
    }

    fn follow(
        &self,
        followed: Followed,
        format: Box<dyn ChangeFormat>,
    ) -> Later<Result<Box<dyn Follower>, Error>> {
        self.store.follow(followed, format)
    }

    fn failure(&self) -> Option<String> {
        self.shared.failure()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.shared.metrics()
    }
}

/// What was found, without its value if that has expired.
fn as_of_now<A: Admission>(found: Option<StoredCell>, admission: &A) -> Option<StoredCell> {
    found.map(|cell| cell.as_of_ms(|| admission.time_ms()))
}

#[cfg(test)]
#[path = "asked_tests.rs"]
mod asked_tests;
#[cfg(test)]
mod clock_tests;
#[cfg(test)]
mod passed_over_tests;
#[cfg(test)]
#[path = "one_node_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "together_tests.rs"]
mod together_tests;
#[cfg(test)]
mod transact_tests;
