use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use ladoga_model::{Replicas, Ttl, VALUE_BYTES_MAX, Version, check_key};
use ladoga_runtime::{Address, OverCapacity, Permit};
use ladoga_service::{Context, Error, KeyValue, LargeValue, Lookup, Precondition, StoredCell, Upload, Value};

use super::door::RespDoor;
use super::failed::Failed;

/// How often a read-modify-write begins anew if others are faster.
const ATTEMPTS_MAX: u32 = 256;

/// One command, and the store that it asks.
pub(super) struct StoreCall<K> {
    pub(super) door: Rc<RespDoor<K>>,
    pub(super) service: Rc<K>,
    pub(super) replicas: Replicas,
    waited_ms: u64,
    address: Address,
    /// Of keys that are watched and were not written since, which version there was.
    watched: Option<Rc<RefCell<Vec<Watched>>>>,
}

/// A key that is watched, and what it was like then.
pub(super) type Watched = (Bytes, Seen);

/// What a key is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Also of a deletion, as far as one is known of.
    pub(super) version: Option<Version>,
    pub(super) is_there: bool,
}

impl Seen {
    /// The version of the value; none if there was none.
    fn of_value(self) -> Option<Version> {
        self.version.filter(|_| self.is_there)
    }

    /// Whether nobody has written the key since then. A deletion may be forgotten meanwhile.
    pub(super) fn is_as(self, before: Seen) -> bool {
        let is_forgotten = !self.is_there && self.version.is_none();
        self.is_there == before.is_there && (self.version == before.version || is_forgotten)
    }
}

impl<K> Clone for StoreCall<K> {
    fn clone(&self) -> StoreCall<K> {
        StoreCall {
            door: Rc::clone(&self.door),
            service: Rc::clone(&self.service),
            replicas: self.replicas,
            waited_ms: self.waited_ms,
            address: self.address,
            watched: self.watched.clone(),
        }
    }
}

/// What is stored under a key.
pub(super) struct Found {
    pub(super) version: Version,
    /// In milliseconds since 1970; 0 if it does not expire.
    pub(super) expires_at_ms: u64,
    pub(super) bytes: u64,
    /// Empty if it was not asked for.
    pub(super) value: Bytes,
    /// The right to hold a large one.
    _room: Option<Permit>,
}

/// What becomes of a key.
pub(super) enum Effect {
    Nothing,
    Put(Bytes, NewLifetime),
    /// It stays as it is, for so long.
    Expire(NewLifetime),
    Delete,
}

/// For how long a value lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewLifetime {
    Forever,
    /// As long as the one before it.
    Kept,
    For(Ttl),
}

impl NewLifetime {
    /// The time to live of a value that takes the place of one that expires then; 0 if that never does.
    pub(super) fn ttl(self, before_ms: u64) -> Option<Ttl> {
        match self {
            NewLifetime::Forever => None,
            NewLifetime::For(ttl) => Some(ttl),
            NewLifetime::Kept => Ttl::until_ms(before_ms),
        }
    }
}

impl<K: KeyValue> StoreCall<K> {
    pub(super) fn new(
        door: Rc<RespDoor<K>>,
        service: Rc<K>,
        (replicas, waited_ms): (Replicas, u64),
        address: Address,
    ) -> StoreCall<K> {
        StoreCall { door, service, replicas, waited_ms, address, watched: None }
    }

    /// The same as part of a transaction, for keys that are watched.
    pub(super) fn watching(self, watched: Rc<RefCell<Vec<Watched>>>) -> StoreCall<K> {
        StoreCall { watched: Some(watched), ..self }
    }

    /// Whether keys are watched that are not ours yet.
    pub(super) const fn is_in_transaction(&self) -> bool {
        self.watched.is_some()
    }

    pub(super) fn context(&self) -> Context {
        Context { waited_ms: self.waited_ms, ..Context::new(self.replicas) }
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
        let watched = self.watched.as_ref()?.borrow();
        watched.iter().find(|(known, _)| known == key).map(|(_, seen)| *seen)
    }

    /// What a write came to. If it happened, its key is watched no more: from now on, it is ours.
    fn written<T>(&self, key: &[u8], written: Result<T, Error>) -> Result<T, Failed> {
        match written {
            Ok(done) => {
                if let Some(watched) = &self.watched {
                    watched.borrow_mut().retain(|(known, _)| known != key);
                }
                Ok(done)
            }
            Err(Error::PreconditionFailed { .. }) if self.watched(key).is_some() => {
                Err(Failed::WatchedKeyChanged)
            }
            Err(error) => Err(error.into()),
        }
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
        self.service.get(&self.context(), key)
    }

    /// What is under a key, with its value if that is wanted.
    pub(super) async fn find(&self, key: &[u8], with_value: bool) -> Result<Option<Found>, Failed> {
        let cell = self.look_up(key).wait().await?;
        let Some((stamp, value)) = cell.and_then(|cell| Some((cell.stamp, cell.value?))) else {
            return Ok(None);
        };
        let (bytes, value, room) = match value {
            Value::Inline(value) => (value.len() as u64, value, None),
            Value::Large(LargeValue { bytes, .. }) if !with_value => (bytes, Bytes::new(), None),
            Value::Large(large) => {
                let room = self.room(large.bytes).await?;
                (large.bytes, read(large).await?, Some(room))
            }
        };
        Ok(Some(Found {
            version: stamp.version,
            expires_at_ms: stamp.expires_at_ms,
            bytes,
            value,
            _room: room,
        }))
    }

    /// The right to hold so many bytes of a value.
    async fn room(&self, bytes: u64) -> Result<Permit, OverCapacity> {
        let permit = self.door.door.core.bodies.enter(self.address, bytes)?;
        permit.granted().await;
        Ok(permit)
    }

    /// The right to read a value that is not in memory.
    pub(super) async fn stream_permit(&self) -> Result<Permit, OverCapacity> {
        let permit = self.door.door.streams.enter(self.address, 1)?;
        permit.granted().await;
        Ok(permit)
    }

    /// Stores a value.
    pub(super) async fn put(
        &self,
        key: Bytes,
        value: Bytes,
        precondition: Precondition,
        ttl: Option<Ttl>,
    ) -> Result<Version, Failed> {
        check_write(&key, value.len() as u64)?;
        let context = self.write_context(&key, precondition, ttl);
        self.service.admit_put(&context, &key, value.len() as u64)?;
        if value.len() as u64 >= self.service.upload_bytes_min() {
            return self.put_large(key, value, &context).await;
        }
        let written = self.service.put(&context, key.clone(), value, ()).await;
        self.written(&key, written)
    }

    async fn put_large(&self, key: Bytes, value: Bytes, context: &Context) -> Result<Version, Failed> {
        let permit = self.upload_permit().await?;
        let upload = self.service.upload(context, &key).await?;
        let finished = upload.write(value).await?.finish().await?;
        drop(permit);
        self.put_uploaded(key, finished, context.precondition.clone(), context.ttl).await
    }

    /// Stores a value that was uploaded.
    pub(super) async fn put_uploaded(
        &self,
        key: Bytes,
        value: <K::Upload as Upload>::Finished,
        precondition: Precondition,
        ttl: Option<Ttl>,
    ) -> Result<Version, Failed> {
        let context = self.write_context(&key, precondition, ttl);
        let written = self.service.put_uploaded(&context, key.clone(), value).await;
        self.written(&key, written)
    }

    pub(super) async fn upload_permit(&self) -> Result<Permit, OverCapacity> {
        let permit = self.door.door.uploads.enter(self.address, 1)?;
        permit.granted().await;
        Ok(permit)
    }

    pub(super) async fn delete(&self, key: Bytes, precondition: Precondition) -> Result<Version, Failed> {
        check_write(&key, 0)?;
        let context = self.write_context(&key, precondition, None);
        let written = self.service.delete(&context, key.clone()).await;
        self.written(&key, written)
    }

    pub(super) async fn increment(&self, key: Bytes, by: i64) -> Result<i64, Failed> {
        check_write(&key, 0)?;
        let context = self.write_context(&key, Precondition::None, None);
        let written = self.service.increment(&context, key.clone(), by).await;
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
            let found = self.find(&key, with_value).await?;
            let version = found.as_ref().map(|found| found.version);
            if self.watched(&key).is_some_and(|seen| seen.of_value() != version) {
                return Err(Failed::WatchedKeyChanged);
            }
            let (change, answer) = decide(found.as_ref())?;
            match self.apply(key.clone(), found.as_ref(), change).await {
                Ok(()) => return Ok(answer),
                Err(Failed::Service(Error::PreconditionFailed { .. } | Error::NotFound { .. })) => {}
                Err(failed) => return Err(failed),
            }
        }
        Err(Error::Contended("others write the key all the time; nothing was written").into())
    }

    async fn apply(&self, key: Bytes, found: Option<&Found>, change: Effect) -> Result<(), Failed> {
        let precondition = if_still(found.map(|found| found.version));
        match change {
            Effect::Nothing => Ok(()),
            Effect::Delete if found.is_none() => Ok(()),
            Effect::Delete => self.delete(key, precondition).await.map(drop),
            Effect::Put(value, life) => {
                let before_ms = found.map_or(0, |found| found.expires_at_ms);
                self.put(key, value, precondition, life.ttl(before_ms)).await.map(drop)
            }
            Effect::Expire(life) => {
                let ttl = life.ttl(found.map_or(0, |found| found.expires_at_ms));
                let context = self.write_context(&key, precondition, None);
                let written = self.service.expire(&context, key.clone(), ttl).await;
                self.written(&key, written).map(drop)
            }
        }
    }
}

/// That a key and a value can be stored.
pub(super) fn check_write(key: &[u8], value_bytes: u64) -> Result<(), Failed> {
    if let Err(error) = check_key(key) {
        return Err(Failed::err(&error.to_string()));
    }
    if value_bytes > VALUE_BYTES_MAX { Err(Failed::value_too_large()) } else { Ok(()) }
}

/// That a key still has the version that was found.
fn if_still(version: Option<Version>) -> Precondition {
    match version {
        Some(version) => Precondition::IfMatch([version].into()),
        None => Precondition::IfNoneMatchAny,
    }
}

/// All of a large value.
async fn read(large: LargeValue) -> Result<Bytes, Failed> {
    let mut value = Vec::with_capacity(large.bytes as usize);
    let mut piece = large.pieces.next().await?;
    while let Some((bytes, rest)) = piece {
        value.extend_from_slice(&bytes);
        piece = rest.next().await?;
    }
    Ok(Bytes::from(value))
}
