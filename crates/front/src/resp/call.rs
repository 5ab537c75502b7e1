use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use ladoga_model::{Replicas, TraceContext, Ttl, VALUE_BYTES_MAX, check_key};
use ladoga_runtime::{OverCapacity, Permit, Taken};
use ladoga_service::{
    Context, Error, KeyValue, LargeValue, Lookup, Precondition, Seen, StoredCell, Upload, Value,
};

use super::door::RespDoor;
use super::failed::Failed;
use super::found::{Effect, Found, read};
use super::held::HeldPermits;
use super::overlay::{Overlay, note};
use super::pauses::{Pauses, is_full};
use super::request_room::{RequestRoom, RoomPart};
use super::watching::Watching;

/// How often a read-modify-write begins anew if others are faster.
pub(super) const ATTEMPTS_MAX: u32 = 256;

/// One command, and the store that it asks.
pub(super) struct StoreCall<K> {
    pub(super) door: Rc<RespDoor<K>>,
    pub(super) service: Rc<K>,
    pub(super) replicas: Replicas,
    pub(super) waited_ms: u64,
    /// What its connection holds.
    pub(super) held: Rc<HeldPermits>,
    /// For values that it reads; for a large request, it has some already.
    pub(super) room: Rc<RequestRoom>,
    /// The span of the command, if its trace is recorded.
    pub(super) trace: Option<TraceContext>,
    /// In a transaction on a cluster that depends on keys.
    pub(super) watching: Option<Rc<Watching>>,
    /// In a transaction on a node on its own.
    pub(super) overlay: Option<Rc<RefCell<Overlay>>>,
}

impl<K> Clone for StoreCall<K> {
    fn clone(&self) -> StoreCall<K> {
        StoreCall {
            door: Rc::clone(&self.door),
            service: Rc::clone(&self.service),
            replicas: self.replicas,
            waited_ms: self.waited_ms,
            held: Rc::clone(&self.held),
            room: Rc::clone(&self.room),
            trace: self.trace,
            watching: self.watching.clone(),
            overlay: self.overlay.clone(),
        }
    }
}

impl<K: KeyValue> StoreCall<K> {
    pub(super) fn new(
        door: Rc<RespDoor<K>>,
        service: Rc<K>,
        (replicas, waited_ms): (Replicas, u64),
        (held, room): (Rc<HeldPermits>, Rc<RequestRoom>),
    ) -> StoreCall<K> {
        let (trace, watching, overlay) = (None, None, None);
        StoreCall { door, service, replicas, waited_ms, held, room, trace, watching, overlay }
    }

    /// The same as part of a transaction on a cluster, for keys that are watched.
    pub(super) fn watching(self, watching: Rc<Watching>) -> StoreCall<K> {
        StoreCall { watching: Some(watching), ..self }
    }

    /// Whether it is part of a transaction.
    pub(super) const fn is_in_transaction(&self) -> bool {
        self.watching.is_some() || self.overlay.is_some()
    }

    pub(super) fn context(&self) -> Context {
        Context { waited_ms: self.waited_ms, trace: self.trace, ..Context::new(self.replicas) }
    }

    /// Of a write; if its key is watched, it depends on its version.
    fn write_context(&self, key: &[u8], precondition: Precondition, ttl: Option<Ttl>) -> Context {
        let precondition = match (precondition, self.watched(key)) {
            (Precondition::None, Some(seen)) => if_still(seen.of_value()),
            (precondition, _) => precondition,
        };
        Context { precondition, ttl, ..self.context() }
    }

    fn watched(&self, key: &[u8]) -> Option<Seen> {
        self.watching.as_ref()?.of(key)
    }

    /// What a write came to.
    fn written<T>(&self, key: &[u8], written: Result<T, Error>) -> Result<T, Failed> {
        if let Some(watching) = &self.watching {
            watching.note(key, &written);
        }
        match written {
            Err(Error::PreconditionFailed { .. }) if self.watched(key).is_some() => {
                Err(Failed::WatchedKeyChanged)
            }
            written => Ok(written?),
        }
    }

    /// What time it is, in milliseconds since 1970: for all commands of a transaction, when that began.
    pub(super) fn now_ms(&self) -> u64 {
        self.overlay.as_ref().map_or_else(|| self.door.now_ms(), |overlay| overlay.borrow().began_ms)
    }

    /// Asks for a cell: memory may have it.
    pub(super) fn look_up(
        &self,
        key: &[u8],
    ) -> Lookup<StoredCell, Error, impl Future<Output = Result<Option<StoredCell>, Error>> + use<K> + 'static>
    {
        if check_key(key).is_err() {
            // Redis has no bound that a read could run into: under such a key there is nothing.
            return Lookup::Now(Ok(None));
        }
        let kept = |overlay: &Rc<RefCell<Overlay>>| overlay.borrow().kept(key, self.now_ms());
        if let Some(kept) = self.overlay.as_ref().and_then(kept) {
            return Lookup::Now(Ok(kept.into_cell()));
        }
        let found = match self.service.get(&self.context(), key) {
            Lookup::Now(found) => {
                if let Some(overlay) = &self.overlay {
                    note(overlay, key, &found);
                }
                return Lookup::Now(found);
            }
            Lookup::Later(found) => found,
        };
        let noted = self.overlay.as_ref().map(|overlay| (Rc::clone(overlay), Bytes::copy_from_slice(key)));
        Lookup::Later(async move {
            let found = found.await;
            if let Some((overlay, key)) = noted {
                note(&overlay, &key, &found);
            }
            found
        })
    }

    /// The newest cell of a key.
    pub(super) async fn cell(&self, key: &[u8]) -> Result<Option<StoredCell>, Failed> {
        let found = self.look_up(key).wait().await;
        self.unless_full(key, found).await
    }

    /// The same after a first attempt, which may have met too many other reads.
    pub(super) async fn unless_full(
        &self,
        key: &[u8],
        mut found: Result<Option<StoredCell>, Error>,
    ) -> Result<Option<StoredCell>, Failed> {
        let mut pauses = self.pauses();
        while found.as_ref().is_err_and(is_full) && pauses.wait().await {
            found = self.look_up(key).wait().await;
        }
        if let Ok(found) = &found {
            self.held.expected.found(found.as_ref().map_or(0, inline_bytes));
        }
        found.map_err(|error| self.failed(error))
    }

    /// What is under a key, with its value if that is wanted.
    pub(super) async fn find(&self, key: &[u8], with_value: bool) -> Result<Option<Found>, Failed> {
        let cell = self.cell(key).await?;
        let Some((stamp, value)) = cell.and_then(|cell| Some((cell.stamp, cell.value?))) else {
            return Ok(None);
        };
        let (bytes, value, room) = match value {
            Value::Inline(value) => (value.len() as u64, value, None),
            Value::Large(LargeValue { bytes, .. }) if !with_value => (bytes, Bytes::new(), None),
            Value::Large(large) => {
                let room = self.take_room(large.bytes).await?;
                let value = read(large).await.map_err(|failed| self.noted(failed))?;
                (value.len() as u64, value, Some(Rc::new(room)))
            }
        };
        Ok(Some(Found { version: stamp.version, expires_at_ms: stamp.expires_at_ms, bytes, value, room }))
    }

    /// The same for a command that writes by what it finds: a key that is watched has to be as it was.
    pub(super) async fn find_unchanged(&self, key: &[u8], with_value: bool) -> Result<Option<Found>, Failed> {
        let found = self.find(key, with_value).await?;
        let version = found.as_ref().map(|found| found.version);
        if self.watched(key).is_some_and(|seen| seen.of_value() != version) {
            return Err(Failed::WatchedKeyChanged);
        }
        Ok(found)
    }

    /// The right to hold so many bytes of a value.
    pub(super) async fn take_room(&self, bytes: u64) -> Result<RoomPart, Failed> {
        if let Some(overlay) = self.overlay.as_ref().filter(|overlay| overlay.borrow().is_counted()) {
            let taken = self.room.take_if_room(bytes, |bytes| overlay.borrow().check(bytes));
            return taken.map_err(|none| self.noted(none.into()));
        }
        Ok(self.room.take(bytes).await?)
    }

    /// Why the store did not answer: a transaction does not happen then.
    pub(super) fn failed(&self, error: Error) -> Failed {
        self.noted(error.into())
    }

    /// The same of what was refused.
    pub(super) fn noted(&self, failed: Failed) -> Failed {
        let Some(overlay) = &self.overlay else { return failed };
        match &failed {
            Failed::Service(error) => overlay.borrow_mut().fail(Failed::Service(error.clone())),
            Failed::TooLarge(error) => overlay.borrow_mut().fail(Failed::TooLarge(*error)),
            Failed::Told(_) | Failed::WatchedKeyChanged => {}
        }
        failed
    }

    /// The right to read a value that is not in memory.
    pub(super) async fn stream_permit(&self) -> Result<Rc<Permit>, OverCapacity> {
        let permit = self.held.enter(&self.door.door.streams, 1, Taken::Stream)?;
        permit.granted().await;
        Ok(permit)
    }

    fn pauses(&self) -> Pauses {
        Pauses::new(&self.door.paused)
    }

    /// Waits until the store has room for a value of so many bytes.
    pub(super) async fn admit(&self, context: &Context, key: &[u8], bytes: u64) -> Result<(), Error> {
        let mut pauses = self.pauses();
        let mut admitted = self.service.admit_put(context, key, bytes);
        while admitted.as_ref().is_err_and(is_full) && pauses.wait().await {
            admitted = self.service.admit_put(context, key, bytes);
        }
        admitted
    }

    /// A write that a node on its own refuses before anything is written, while too much is queued.
    async fn admitted<T, F: Future<Output = Result<T, Error>>>(
        &self,
        write: impl Fn() -> F,
    ) -> Result<T, Error> {
        let mut pauses = self.pauses();
        let mut written = write().await;
        while self.door.door.is_alone && written.as_ref().is_err_and(is_full) && pauses.wait().await {
            written = write().await;
        }
        written
    }

    /// Stores a value.
    pub(super) async fn put(
        &self,
        key: Bytes,
        value: Bytes,
        precondition: Precondition,
        ttl: Option<Ttl>,
    ) -> Result<(), Failed> {
        check_write(&key, value.len() as u64)?;
        if self.overlay.is_some() {
            let expires_at_ms = ttl.map_or(0, |ttl| ttl.ends_ms(self.now_ms()));
            return self.write_over(key, (Some(value), expires_at_ms), &precondition).await;
        }
        let context = self.write_context(&key, precondition, ttl);
        self.admit(&context, &key, value.len() as u64).await?;
        if value.len() as u64 >= self.service.upload_bytes_min() {
            let finished = self.upload(&key, value).await?;
            return self.put_uploaded(key, finished, context.precondition, context.ttl).await;
        }
        let written = self.service.put(&context, key.clone(), value, ()).await;
        self.written(&key, written).map(drop)
    }

    /// Uploads a large value that is in memory.
    pub(super) async fn upload(
        &self,
        key: &[u8],
        value: Bytes,
    ) -> Result<<K::Upload as Upload>::Finished, Failed> {
        let _permit = self.upload_permit().await?;
        let upload = self.service.upload(&self.context(), key).await?;
        Ok(upload.write(value).await?.finish().await?)
    }

    /// Stores a value that was uploaded.
    pub(super) async fn put_uploaded(
        &self,
        key: Bytes,
        value: <K::Upload as Upload>::Finished,
        precondition: Precondition,
        ttl: Option<Ttl>,
    ) -> Result<(), Failed> {
        let context = self.write_context(&key, precondition, ttl);
        let written = self.service.put_uploaded(&context, key.clone(), value).await;
        self.written(&key, written).map(drop)
    }

    pub(super) async fn upload_permit(&self) -> Result<Rc<Permit>, OverCapacity> {
        let permit = self.held.enter(&self.door.door.uploads, 1, Taken::Upload)?;
        permit.granted().await;
        Ok(permit)
    }

    pub(super) async fn delete(&self, key: Bytes, precondition: Precondition) -> Result<(), Failed> {
        check_write(&key, 0)?;
        if self.overlay.is_some() {
            return self.write_over(key, (None, 0), &precondition).await;
        }
        let context = self.write_context(&key, precondition, None);
        let written = self.admitted(|| self.service.delete(&context, key.clone())).await;
        self.written(&key, written).map(drop)
    }

    pub(super) async fn increment(&self, key: Bytes, by: i64) -> Result<i64, Failed> {
        check_write(&key, 0)?;
        if self.overlay.is_some() {
            return self.increment_over(key, by).await;
        }
        let context = self.write_context(&key, Precondition::None, None);
        let written = self.admitted(|| self.service.increment(&context, key.clone(), by)).await;
        self.written(&key, written).map(|(sum, _)| sum)
    }

    /// Read-modify-write: `decide` by what is there, then write if it is still so, else begin anew. A bound keeps it from going on
    /// for ever if others write all the time.
    pub(super) async fn update<T>(
        &self,
        key: Bytes,
        with_value: bool,
        mut decide: impl FnMut(Option<&Found>) -> Result<(Effect, T), Failed>,
    ) -> Result<T, Failed> {
        for _ in 0..ATTEMPTS_MAX {
            let found = self.find_unchanged(&key, with_value).await?;
            let (effect, answer) = decide(found.as_ref())?;
            match self.apply(key.clone(), found.as_ref(), effect).await {
                Ok(()) => return Ok(answer),
                Err(Failed::Service(Error::PreconditionFailed { .. } | Error::NotFound { .. })) => {}
                Err(failed) => return Err(failed),
            }
        }
        Err(contended())
    }

    async fn apply(&self, key: Bytes, found: Option<&Found>, effect: Effect) -> Result<(), Failed> {
        let precondition = if_still(found.map(|found| found.version));
        let before_ms = found.map_or(0, |found| found.expires_at_ms);
        match effect {
            Effect::Nothing => Ok(()),
            Effect::Delete if found.is_none() => Ok(()),
            Effect::Delete => self.delete(key, precondition).await,
            Effect::Put(value, life) => self.put(key, value, precondition, life.ttl(before_ms)).await,
            Effect::Expire(life) if self.overlay.is_some() => self.expire_over(key, life).await,
            Effect::Expire(life) => {
                let (context, ttl) = (self.write_context(&key, precondition, None), life.ttl(before_ms));
                let written = self.admitted(|| self.service.expire(&context, key.clone(), ttl)).await;
                self.written(&key, written).map(drop)
            }
        }
    }
}

/// What is in memory of the value of a cell.
fn inline_bytes(cell: &StoredCell) -> u64 {
    match &cell.value {
        Some(Value::Inline(value)) => value.len() as u64,
        Some(Value::Large(_)) | None => 0,
    }
}

/// Others are faster each time.
pub(super) fn contended() -> Failed {
    Error::Contended("others write the key all the time; nothing was written").into()
}

/// That a key and a value can be stored.
pub(super) fn check_write(key: &[u8], value_bytes: u64) -> Result<(), Failed> {
    if let Err(error) = check_key(key) {
        return Err(Failed::err(&error.to_string()));
    }
    if value_bytes > VALUE_BYTES_MAX { Err(Failed::value_too_large()) } else { Ok(()) }
}

/// That a key still has the version that was found.
fn if_still(version: Option<ladoga_model::Version>) -> Precondition {
    match version {
        Some(version) => Precondition::IfMatch([version].into()),
        None => Precondition::IfNoneMatchAny,
    }
}
