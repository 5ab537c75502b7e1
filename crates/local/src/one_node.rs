use std::future::{Future, ready};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::{self as model, Cell, Stamp, Ttl, Version};
use ladoga_service::{
    Context, Error, KeyRange, KeyValue, Later, Lookup, Metric, Pieces, RecordFormat, StoredCell, Upload,
};

use crate::store::{LocalStore, Store, WriteKind};
use crate::versions::VersionClock;

/// The service of one node: what it answers, and acknowledges, by itself.
pub struct OneNode<S: Store, A> {
    shared: Arc<S>,
    store: Rc<S::Local>,
    admission: A,
}

/// What a write puts under its key: a value in memory, or a finished upload.
type WrittenValue<S> = model::Value<Bytes, <<<S as Store>::Local as LocalStore>::Upload as Upload>::Finished>;

impl<S: Store, A: Admission> OneNode<S, A> {
    /// Answers from `store`, which is how one event loop reaches `shared`.
    pub fn new(shared: Arc<S>, store: Rc<S::Local>, admission: A) -> OneNode<S, A> {
        OneNode { shared, store, admission }
    }

    /// The one local write, or deletion if there is no value: it gets its version, is admitted and applied. Who applies
    /// it is the store's business: see [`LocalStore::apply`].
    fn write<K: AsRef<[u8]> + 'static, R: 'static>(
        &self,
        key: K,
        (value, ttl): (Option<WrittenValue<S>>, Option<Ttl>),
        room: R,
    ) -> impl Future<Output = Result<(), Error>> + use<S, A, K, R> + 'static {
        let (store, admission) = (Rc::clone(&self.store), self.admission.clone());
        async move {
            let expires_at_ms = ttl.map_or(0, |ttl| ttl.ends_ms(admission.time_ms()));
            let stamp = Stamp { expires_at_ms, ..admission.stamp() };
            let admitted = admission.admit(stamp).await?;
            let key = key.as_ref();
            let apply = |value| store.apply([(key, Cell { stamp, value })]);
            let applied = match value {
                Some(model::Value::Inline(bytes)) => apply(Some(model::Value::Inline(&bytes[..]))),
                Some(model::Value::Large(upload)) => apply(Some(model::Value::Large(upload))),
                None => apply(None),
            };
            // The store has a copy, and bounds of its own: the value, gone by now, needs no room any more.
            drop(room);
            let applied = applied.await;
            drop(admitted);
            Ok(applied?)
        }
    }
}

impl<S: Store, A: Admission> KeyValue for OneNode<S, A> {
    type Upload = <S::Local as LocalStore>::Upload;

    fn until_ready(&self) -> Option<Later<Result<u64, Error>>> {
        None
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

    fn put<K: AsRef<[u8]> + 'static, R: 'static>(
        &self,
        context: &Context,
        key: K,
        value: Bytes,
        room: R,
    ) -> impl Future<Output = Result<(), Error>> + use<S, A, K, R> + 'static {
        self.write(key, (Some(model::Value::Inline(value)), context.ttl), room)
    }

    fn delete<K: AsRef<[u8]> + 'static>(
        &self,
        _: &Context,
        key: K,
    ) -> impl Future<Output = Result<(), Error>> + use<S, A, K> + 'static {
        let admitted = self.store.admit(WriteKind::Delete, 0);
        let written = self.write(key, (None, None), ());
        async move {
            admitted?;
            written.await
        }
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
    ) -> impl Future<Output = Result<(), Error>> + use<S, A, K> + 'static {
        self.write(key, (Some(model::Value::Large(value)), context.ttl), ())
    }

    fn range(
        &self,
        _: &Context,
        range: KeyRange,
        format: RecordFormat,
    ) -> impl Future<Output = Result<Box<dyn Pieces>, Error>> + use<S, A> + 'static {
        ready(Ok(self.store.range((range.start, range.end), self.admission.time_ms(), format)))
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

/// How a node gives its own writes their versions, and lets them in.
///
/// Protocol of a write: `stamp admit`, then the write; what was admitted is dropped once the write is applied or has failed.
pub trait Admission: Clone + 'static {
    /// Held while a write is under way.
    type Admitted: 'static;

    /// The version of a write that happens now.
    fn stamp(&self) -> Stamp;

    /// What time it is, in milliseconds since 1970: values expire by that.
    fn time_ms(&self) -> u64;

    /// Waits until a write with this stamp may be applied.
    fn admit(&self, stamp: Stamp) -> impl Future<Output = Result<Self::Admitted, Error>>;
}

/// Nothing keeps a node on its own from a write.
impl Admission for Arc<VersionClock> {
    type Admitted = ();

    fn stamp(&self) -> Stamp {
        Stamp::new(Version { timestamp: self.next(), node: 0 })
    }

    fn time_ms(&self) -> u64 {
        self.wall_ms()
    }

    async fn admit(&self, _: Stamp) -> Result<(), Error> {
        Ok(())
    }
}
