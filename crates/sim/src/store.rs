//! The store of a node, watched: everything that becomes durable in it is reported to the checker.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ladoga_cluster::{NodeId, Partition, Placement};
use ladoga_local::embedded::{Applied, Embedded, EmbeddedUpload, Local};
use ladoga_local::store::{
    Arrivals, CellFormat, CellGate, CellObserver, LocalStore, NewCell, NewestCell, Store, WriteKind,
};
use ladoga_model::{self as model, Cell, Durability, Stamp, Version};
use ladoga_runtime::Supervisor;
use ladoga_service::{
    ChangeFormat, Error, Followed, Follower, KeySpan, Later, Lookup, Metric, Pieces, RecordFormat,
    StoreError, Upload,
};
use parking_lot::Mutex;

use crate::LARGE_BYTES_MIN;
use crate::checker::Checker;
use crate::values::Key;
use crate::written::CheckedCell;

/// Who watches.
#[derive(Clone)]
pub(crate) struct Watcher {
    pub(crate) machine: usize,
    /// Its place in the list of nodes.
    pub(crate) node: NodeId,
    pub(crate) placement: Arc<Placement>,
    pub(crate) checker: Arc<Mutex<Checker>>,
}

impl Watcher {
    fn begins(&self, cells: &[KeyedCell]) {
        let mut checker = self.checker.lock();
        for (key, cell) in cells {
            checker.begins(self.machine, key, cell);
        }
    }

    fn found(&self, key: &Key, version: Version) {
        self.checker.lock().found(self.machine, key, version);
    }

    fn mark_durable(&self, cells: &[KeyedCell]) {
        let mut checker = self.checker.lock();
        for (key, cell) in cells {
            let place = self.placement.position(Partition::of(key), self.node);
            checker.applied(self.machine, place, key, cell);
        }
    }
}

/// A cell and its key.
type KeyedCell = (Key, CheckedCell);

pub(crate) struct Watched {
    pub(crate) inner: Arc<Embedded>,
    pub(crate) watcher: Watcher,
}

pub(crate) struct WatchedLocal {
    inner: Local,
    watcher: Watcher,
}

impl Store for Watched {
    type Local = WatchedLocal;

    fn attach(self: &Arc<Self>, supervisor: &Supervisor) -> WatchedLocal {
        WatchedLocal { inner: self.inner.attach(supervisor), watcher: self.watcher.clone() }
    }

    fn last_timestamp(&self) -> u64 {
        self.inner.last_timestamp()
    }

    fn failure(&self) -> Option<String> {
        self.inner.failure()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.inner.metrics()
    }

    fn observe(&self, observer: Arc<dyn CellObserver>) -> io::Result<()> {
        self.inner.observe(observer)
    }

    fn gate(&self, gate: Arc<dyn CellGate>) {
        self.inner.gate(gate);
    }

    fn arrivals(&self, arrivals: Arc<dyn Arrivals>) {
        self.inner.arrivals(arrivals);
    }

    fn tell_again(&self) {
        self.inner.tell_again();
    }

    fn drop_tombstones_before(&self, timestamp: u64) {
        self.inner.drop_tombstones_before(timestamp);
    }

    fn drop_values_expired_before_ms(&self, time_ms: u64) {
        self.inner.drop_values_expired_before_ms(time_ms);
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }
}

/// A write under way.
pub(crate) struct WatchedApply {
    applied: Applied,
    cells: Vec<KeyedCell>,
    watcher: Watcher,
}

impl Future for WatchedApply {
    type Output = Result<Option<Version>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = Pin::new(&mut self.applied).poll(context);
        match &polled {
            Poll::Ready(Ok(_)) => self.watcher.mark_durable(&self.cells),
            Poll::Ready(Err(StoreError::Fenced(fenced))) => {
                let is_written = |number: usize| fenced.iter().all(|fenced| fenced.cell != number);
                let cells = self.cells.iter().enumerate().filter(|(number, _)| is_written(*number));
                let written: Vec<_> = cells.map(|(_, cell)| cell.clone()).collect();
                self.watcher.mark_durable(&written);
            }
            Poll::Ready(Err(_)) | Poll::Pending => {}
        }
        polled
    }
}

/// Whether a cell was given its version by the pruning of an older directory, and not by a write.
fn is_pruned(stamp: Stamp) -> bool {
    stamp.version.node == u16::MAX
}

fn written(key: &[u8], stamp: Stamp, value: Option<&[u8]>) -> KeyedCell {
    let value = value.map(|value| model::Value::Inline(value.to_vec()));
    (key.to_vec(), Cell { stamp, value })
}

/// A cell as the store gets it, and as the checker does.
fn watched(
    key: &[u8],
    Cell { stamp, value }: NewCell<WatchedLocal>,
) -> (Cell<Bytes, <EmbeddedUpload as Upload>::Finished>, KeyedCell) {
    let (bytes, value) = match value {
        Some(model::Value::Inline(bytes)) => (Some(bytes.to_vec()), Some(model::Value::Inline(bytes))),
        Some(model::Value::Large(Finished { inner, bytes })) => {
            (Some(bytes), Some(model::Value::Large(inner)))
        }
        None => (None, None),
    };
    let seen = written(key, stamp, bytes.as_deref());
    (Cell { stamp, value }, seen)
}

impl LocalStore for WatchedLocal {
    type Apply = WatchedApply;
    type Upload = WatchedUpload;

    fn with_durability(&self, durability: Durability) -> WatchedLocal {
        WatchedLocal { inner: self.inner.with_durability(durability), watcher: self.watcher.clone() }
    }

    fn fetch_ahead(&self, keys: &[&[u8]]) {
        self.inner.fetch_ahead(keys);
    }

    fn get_cell(&self, key: &[u8]) -> Lookup {
        self.inner.get_cell(key)
    }

    fn admit(&self, kind: WriteKind, value_bytes: u64) -> Result<(), StoreError> {
        self.inner.admit(kind, value_bytes)
    }

    fn has_room(&self) -> bool {
        self.inner.has_room()
    }

    fn apply<'c>(
        &self,
        cells: impl IntoIterator<Item = (&'c [u8], Cell<&'c [u8], Finished>)>,
    ) -> WatchedApply {
        let mut seen = Vec::new();
        let mut passed = Vec::new();
        for (key, Cell { stamp, value }) in cells {
            let value = match value {
                Some(model::Value::Inline(value)) => {
                    seen.push(written(key, stamp, Some(value)));
                    Some(model::Value::Inline(value))
                }
                None => {
                    if !is_pruned(stamp) {
                        seen.push(written(key, stamp, None));
                    }
                    None
                }
                Some(model::Value::Large(Finished { inner, bytes })) => {
                    seen.push(written(key, stamp, Some(&bytes)));
                    Some(model::Value::Large(inner))
                }
            };
            passed.push((key, Cell { stamp, value }));
        }
        self.watcher.begins(&seen);
        let applied = self.inner.apply(passed);
        WatchedApply { applied, cells: seen, watcher: self.watcher.clone() }
    }

    fn update<R: Send + 'static>(
        &self,
        key: &[u8],
        value_bytes_max: u64,
        decide: impl FnOnce(Option<NewestCell>) -> (Option<NewCell<WatchedLocal>>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        let watcher = self.watcher.clone();
        let of_key = key.to_vec();
        let updated = self.inner.update(key, value_bytes_max, move |newest| {
            let found = newest.as_ref().map(|newest| (of_key.clone(), newest.stamp.version));
            let (cell, decided) = decide(newest);
            let (cell, seen) = cell.map(|cell| watched(&of_key, cell)).unzip();
            watcher.begins(seen.as_slice());
            (cell, (decided, seen, found))
        });
        let watcher = self.watcher.clone();
        Box::pin(async move {
            let (decided, seen, found) = updated.await?;
            // Not when it was decided: it may have been in memory only.
            if let Some((key, version)) = found {
                watcher.found(&key, version);
            }
            watcher.mark_durable(seen.as_slice());
            Ok(decided)
        })
    }

    fn inspect<R: Send + 'static>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<NewestCell>) -> R + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        let both = |newest: Option<NewestCell>| (newest.as_ref().map(|n| n.stamp.version), decide(newest));
        let (watcher, key, told) = (self.watcher.clone(), key.to_vec(), self.inner.inspect(key, both));
        Box::pin(async move {
            let (found, decided) = told.await?;
            found.into_iter().for_each(|version| watcher.found(&key, version));
            Ok(decided)
        })
    }

    fn update_together<R: Send + 'static>(
        &self,
        keys: Vec<Bytes>,
        room: &[(usize, u64)],
        decide: impl FnOnce(Vec<Option<NewestCell>>) -> (Vec<(usize, NewCell<WatchedLocal>)>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        let (watcher, of_keys) = (self.watcher.clone(), keys.clone());
        let updated = self.inner.update_together(keys, room, move |newest| {
            let (cells, decided) = decide(newest);
            let both = cells.into_iter().map(|(number, cell)| {
                let (cell, seen) = watched(&of_keys[number], cell);
                ((number, cell), seen)
            });
            let (cells, seen): (Vec<_>, Vec<_>) = both.unzip();
            watcher.begins(&seen);
            (cells, (decided, seen))
        });
        let watcher = self.watcher.clone();
        Box::pin(async move {
            let (decided, seen) = updated.await?;
            watcher.mark_durable(&seen);
            Ok(decided)
        })
    }

    fn restamp<R: Send + 'static>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<NewestCell>) -> (Option<Stamp>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        let (watcher, of_key) = (self.watcher.clone(), key.to_vec());
        let restamped = self.inner.restamp(key, move |newest| {
            let before = newest.as_ref().map(|newest| newest.stamp.version);
            let (stamp, decided) = decide(newest);
            let seen = stamp.zip(before).map(|(stamp, before)| {
                let value = watcher.checker.lock().value_of(before);
                written(&of_key, stamp, value.as_deref())
            });
            watcher.begins(seen.as_slice());
            (stamp, (decided, seen))
        });
        let watcher = self.watcher.clone();
        Box::pin(async move {
            let (decided, seen) = restamped.await?;
            watcher.mark_durable(seen.as_slice());
            Ok(decided)
        })
    }

    fn unqueued_updates(&self) -> u64 {
        self.inner.unqueued_updates()
    }

    fn upload_bytes_min(&self) -> u64 {
        // Small, so that runs stay fast.
        LARGE_BYTES_MIN as u64
    }

    fn upload(&self) -> Later<Result<WatchedUpload, StoreError>> {
        let upload = self.inner.upload();
        Box::pin(async move { Ok(WatchedUpload { inner: upload.await?, bytes: Vec::new() }) })
    }

    fn range(
        &self,
        span: KeySpan,
        limit: Option<u64>,
        now_ms: u64,
        format: Box<dyn RecordFormat>,
    ) -> Box<dyn Pieces> {
        self.inner.range(span, limit, now_ms, format)
    }

    fn follow(
        &self,
        followed: Followed,
        format: Box<dyn ChangeFormat>,
    ) -> Later<Result<Box<dyn Follower>, Error>> {
        self.inner.follow(followed, format)
    }

    fn keep_deletions(&self) -> Later<Result<(), StoreError>> {
        self.inner.keep_deletions()
    }

    fn sync(&self) -> Later<Result<(), StoreError>> {
        self.inner.sync()
    }

    fn is_followed(&self) -> bool {
        self.inner.is_followed()
    }

    fn cells_of(&self, span: KeySpan, format: CellFormat) -> Box<dyn Pieces> {
        self.inner.cells_of(span, format)
    }
}

pub(crate) struct WatchedUpload {
    inner: EmbeddedUpload,
    bytes: Vec<u8>,
}

/// A large value that is whole.
pub(crate) struct Finished {
    inner: <EmbeddedUpload as Upload>::Finished,
    bytes: Vec<u8>,
}

impl Upload for WatchedUpload {
    type Finished = Finished;

    fn write(mut self, bytes: Bytes) -> Later<Result<WatchedUpload, StoreError>> {
        self.bytes.extend_from_slice(&bytes);
        let written = self.inner.write(bytes);
        let bytes = self.bytes;
        Box::pin(async move { Ok(WatchedUpload { inner: written.await?, bytes }) })
    }

    fn finish(self) -> Later<Result<Finished, StoreError>> {
        let (finished, bytes) = (self.inner.finish(), self.bytes);
        Box::pin(async move { Ok(Finished { inner: finished.await?, bytes }) })
    }
}
