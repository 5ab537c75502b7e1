use std::cell::Cell;
use std::future::{Future, ready};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::{Replicas, Stamp, Ttl, Version};
use ladoga_service::{
    Context, Error, KeyRange, KeyValue, KeyWrite, Later, Lookup, Metric, Pieces, RecordFormat, StoredCell,
    Together,
};

use crate::at::At;
use crate::consistency::waits_for;
use crate::keyspace::is_decided;
use crate::lifetime::lifetime;
use crate::loop_session::LoopSession;
use crate::range::RangePieces;
use crate::shared::Shared;
use crate::upload::{AllPieces, PiecesIn};
use crate::write::Written;

/// Values from this length on are in pieces.
const PIECES_FROM_BYTES: u64 = (512 << 10) + 1;

/// The service of a door to Cassandra.
#[derive(Clone)]
pub struct Cassandra {
    shared: Arc<Shared>,
    own: LoopSession,
    /// How many writes of this event loop are under way that Cassandra puts in an order, which need not be the one in which they
    /// began. Plain writes are in the order of their versions.
    unordered: Rc<Cell<u64>>,
}

/// Counts such a write for as long as it is under way.
struct Unordered(Rc<Cell<u64>>);

impl Drop for Unordered {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Cassandra {
    /// Within the runtime of the event loop.
    pub(crate) fn new(shared: Arc<Shared>) -> Cassandra {
        Cassandra { own: LoopSession::begin(&shared), shared, unordered: Rc::default() }
    }

    /// Counts a write that begins, if it has no place in an order yet.
    fn begin(&self) -> Option<Unordered> {
        is_decided(self.shared.settings.writes).then(|| {
            self.unordered.set(self.unordered.get() + 1);
            Unordered(Rc::clone(&self.unordered))
        })
    }

    fn at(&self, context: &Context) -> impl Future<Output = Result<At, Error>> + use<> {
        At::new(Arc::clone(&self.shared), self.own.get(&self.shared), context.replicas)
    }

    /// For what the driver's threads do.
    fn at_threads(&self, context: &Context) -> impl Future<Output = Result<At, Error>> + use<> {
        At::new(Arc::clone(&self.shared), Arc::clone(&self.shared.session), context.replicas)
    }

    /// Whether a write can be as the request asks for it.
    fn check(&self, context: &Context) -> Result<(), Error> {
        self.shared.check_durability(context)?;
        if context.precondition.is_none() { Ok(()) } else { self.shared.check_decides() }
    }

    /// Stores a value, however this door writes.
    fn write<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        value: Result<Written, Error>,
    ) -> Later<Result<Version, Error>> {
        let (checked, at) = (self.check(context), self.at(context));
        let (ttl, precondition, begun) = (context.ttl, context.precondition.clone(), self.begin());
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            checked?;
            let _begun = begun;
            let (expires_at_ms, _) = lifetime(ttl, shared.clock.wall_ms());
            // Before anything is waited for: what begins later is newer.
            let stamp = Stamp { expires_at_ms, ..Stamp::new(shared.clock.next()) };
            let (value, at) = (value?, at.await?);
            if !is_decided(shared.settings.writes) {
                return at.put(key.as_ref(), &value, stamp).await;
            }
            let put = at.put_decided(key.as_ref(), value, expires_at_ms, &precondition);
            at.shared.in_time(at.write(), put).await
        })
    }
}

/// Each operation is one boxed future: what it costs is nothing beside a network, and the doors need not be compiled with all that the
/// driver does.
#[expect(refining_impl_trait, reason = "what is boxed may be known to be")]
impl KeyValue for Cassandra {
    type Upload = PiecesIn;

    fn waits_for(&self, asked: Replicas) -> Replicas {
        waits_for(asked)
    }

    fn until_ready(&self) -> Option<Later<Result<u64, Error>>> {
        None
    }

    fn get(
        &self,
        context: &Context,
        key: &[u8],
    ) -> Lookup<StoredCell, Error, Later<Result<Option<StoredCell>, Error>>> {
        let (at, key) = (self.at(context), key.to_vec());
        Lookup::Later(Box::pin(async move { at.await?.cell(&key).await }))
    }

    fn admit_put(&self, context: &Context, _: &[u8], _: u64) -> Result<(), Error> {
        self.check(context)
    }

    fn admit_conditional(&self, context: &Context, key: &[u8], _: u64) -> Later<Result<(), Error>> {
        let (checked, at) = (self.check(context), self.at(context));
        let (precondition, key) = (context.precondition.clone(), key.to_vec());
        Box::pin(async move {
            checked?;
            let at = at.await?;
            at.shared.in_time(at.read(), at.check(&key, &precondition)).await
        })
    }

    fn put<K: AsRef<[u8]> + 'static, R: 'static>(
        &self,
        context: &Context,
        key: K,
        value: Bytes,
        room: R,
    ) -> Later<Result<Version, Error>> {
        let written = self.write(context, key, Ok(Written::Inline(value)));
        Box::pin(async move {
            let written = written.await;
            drop(room);
            written
        })
    }

    fn delete<K: AsRef<[u8]> + 'static>(&self, context: &Context, key: K) -> Later<Result<Version, Error>> {
        let (checked, at) = (self.check(context), self.at(context));
        let (precondition, begun) = (context.precondition.clone(), self.begin());
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            checked?;
            let _begun = begun;
            let version = shared.clock.next();
            let at = at.await?;
            if !is_decided(shared.settings.writes) {
                return at.delete(key.as_ref(), version).await;
            }
            at.shared.in_time(at.write(), at.delete_decided(key.as_ref(), &precondition)).await
        })
    }

    fn increment<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        by: i64,
    ) -> Later<Result<(i64, Stamp), Error>> {
        let checked = self.check(context).and_then(|()| self.shared.check_decides());
        let (at, precondition, begun) = (self.at(context), context.precondition.clone(), self.begin());
        Box::pin(async move {
            checked?;
            let _begun = begun;
            let at = at.await?;
            at.shared.in_time(at.write(), at.add(key.as_ref(), by, &precondition)).await
        })
    }

    fn expire<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        ttl: Option<Ttl>,
    ) -> Later<Result<Stamp, Error>> {
        let checked = self.check(context).and_then(|()| self.shared.check_decides());
        let (at, precondition, begun) = (self.at(context), context.precondition.clone(), self.begin());
        Box::pin(async move {
            checked?;
            let _begun = begun;
            let at = at.await?;
            at.shared.in_time(at.write(), at.change_expiry(key.as_ref(), ttl, &precondition)).await
        })
    }

    fn unordered_writes(&self) -> u64 {
        self.unordered.get()
    }

    fn admit_together(&self) -> Result<(), Error> {
        Err(Error::Unsupported(ONE_KEY_AT_A_TIME))
    }

    fn write_together(&self, _: &Context, _: Vec<KeyWrite>) -> Later<Result<Together, Error>> {
        Box::pin(ready(Err(Error::Unsupported(ONE_KEY_AT_A_TIME))))
    }

    fn upload_bytes_min(&self) -> u64 {
        PIECES_FROM_BYTES
    }

    fn upload(&self, context: &Context, key: &[u8]) -> Later<Result<PiecesIn, Error>> {
        let (at, key) = (self.at(context), key.to_vec());
        Box::pin(async move { PiecesIn::begin(at.await?, &key).await })
    }

    fn put_uploaded<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        value: AllPieces,
    ) -> Later<Result<Version, Error>> {
        let value = value.keep().map(|(name, length)| Written::InPieces(name, length));
        self.write(context, key, value)
    }

    fn range(
        &self,
        context: &Context,
        range: KeyRange,
        format: Box<dyn RecordFormat>,
    ) -> Later<Result<Box<dyn Pieces>, Error>> {
        let at = self.at_threads(context);
        Box::pin(async move {
            let pieces = RangePieces::begin(at.await?, range, format).await?;
            Ok(Box::new(pieces) as Box<dyn Pieces>)
        })
    }

    fn follow(
        &self,
        _: ladoga_service::Followed,
        _: Box<dyn ladoga_service::ChangeFormat>,
    ) -> Later<Result<Box<dyn ladoga_service::Follower>, Error>> {
        Box::pin(ready(Err(Error::Unsupported(
            "Cassandra has no feed of changes in one order; its own change data capture (cdc = true of the table entities) writes \
             them to files of each node",
        ))))
    }

    fn no_cluster(&self) -> Option<Error> {
        Some(Error::Unsupported(
            "Cassandra has its own cluster: nodetool status tells of its nodes, and nodetool repair repairs them",
        ))
    }

    fn failure(&self) -> Option<String> {
        None
    }

    fn obstacles(&self) -> Vec<String> {
        self.shared.obstacles()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.shared.metrics()
    }
}

const ONE_KEY_AT_A_TIME: &str = "Cassandra decides about one key at a time: expected operations that may happen without the others (atomic=false)";
