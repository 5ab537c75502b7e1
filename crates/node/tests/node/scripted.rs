use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ladoga_model::{self as model, Cell, Durability, Stamp, Version};
use ladoga_node::Supervisor;
use ladoga_node::store::{
    BackupAnswer, BackupStep, CellFormat, CellGate, CellObserver, Error, KeySpan, LargeValue, Later,
    LocalStore, Lookup, Metric, NewCell, NewestCell, Piece, Pieces, RecordFormat, Store, StoreError,
    StoredCell, Upload, Value, WriteKind,
};
use parking_lot::Mutex;
use tokio::sync::watch;

/// How long it takes to find nothing.
const EMPTY_PIECE_TIME: Duration = Duration::from_millis(100);

/// Values from this length on are uploaded.
pub(crate) const LARGE_BYTES: u64 = 10_000;

/// One version for all: no test of this store goes by it.
const STAMP: Stamp = Stamp::new(Version { timestamp: 1, node: 0 });

/// A map in memory that fails as a script says.
#[derive(Default)]
pub(crate) struct Scripted {
    entities: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    script: Mutex<Script>,
    /// Reads that take the disk and have not ended.
    reads: AtomicUsize,
    /// The keys that it refused to look up, and none for what it refused to take.
    refusals: Mutex<Vec<Vec<u8>>>,
    /// Whether what takes time may end.
    released: watch::Sender<bool>,
}

/// What a store is to say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// To the question whether a cell would be taken.
    pub(crate) admit: Option<StoreError>,
    /// To a cell, after it is applied all the same.
    pub(crate) apply: Option<StoreError>,
    /// The error of an upload, after so many pieces.
    pub(crate) upload: Option<(usize, StoreError)>,
    /// How long each piece of an upload takes.
    pub(crate) upload_time: Duration,
    /// To a read.
    pub(crate) get: Option<StoreError>,
    /// Why it does not serve.
    pub(crate) failure: Option<String>,
    /// Reads take the disk.
    pub(crate) reads_later: bool,
    /// Cells, and reads that take the disk, wait until they are released.
    pub(crate) holds: bool,
    /// Large values and ranges break off after so many pieces.
    pub(crate) breaks_after: Option<usize>,
    /// Large values end after so many pieces, as if that were all.
    pub(crate) ends_after: Option<usize>,
    /// Before each record of a range so many pieces are empty, each after 100 ms.
    pub(crate) empty_pieces: usize,
}

impl Scripted {
    pub(crate) fn tell(&self, script: Script) {
        *self.script.lock() = script;
    }

    /// Answers the requests that are held back.
    pub(crate) fn release(&self) {
        self.released.send_replace(true);
    }

    pub(crate) fn value(&self, key: &str) -> Option<Vec<u8>> {
        self.entities.lock().get(key.as_bytes()).cloned()
    }

    pub(crate) fn insert(&self, key: &str, value: &[u8]) {
        self.entities.lock().insert(key.as_bytes().to_vec(), value.to_vec());
    }

    fn script(&self) -> Script {
        self.script.lock().clone()
    }

    fn when_released(&self) -> impl Future<Output = ()> + 'static {
        let (holds, mut released) = (self.script().holds, self.released.subscribe());
        async move {
            if holds {
                let _ = released.wait_for(|released| *released).await;
            }
        }
    }

    /// How many reads take the disk now.
    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    fn refused(&self, key: &[u8], error: StoreError) -> StoreError {
        self.refusals.lock().push(key.to_vec());
        error
    }

    /// The keys that it refused to look up, and an empty one each time that it refused to take something.
    pub(crate) fn refusals(&self) -> Vec<Vec<u8>> {
        self.refusals.lock().clone()
    }

    fn look_up(&self, key: &[u8]) -> Result<Option<Value>, StoreError> {
        let script = self.script();
        if let Some(error) = script.get {
            return Err(self.refused(key, error));
        }
        Ok(self.entities.lock().get(key).map(|value| {
            let bytes = value.len() as u64;
            if bytes < LARGE_BYTES {
                return Value::Inline(Bytes::copy_from_slice(value));
            }
            let pieces = value.chunks(LARGE_BYTES as usize / 2).map(Bytes::copy_from_slice);
            let pieces = pieces.take(script.ends_after.unwrap_or(usize::MAX));
            let pieces = Ready::boxed(pieces, script.breaks_after);
            Value::Large(LargeValue { bytes, pieces })
        }))
    }
}

impl Store for Scripted {
    type Local = Local;

    fn attach(self: &Arc<Self>, _: &Supervisor) -> Local {
        Local(Arc::clone(self))
    }

    fn last_timestamp(&self) -> u64 {
        0
    }

    fn failure(&self) -> Option<String> {
        self.script().failure
    }

    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }

    fn observe(&self, observer: Arc<dyn CellObserver>) -> std::io::Result<()> {
        observer.begins();
        observer.scan_completed();
        Ok(())
    }

    fn gate(&self, _: Arc<dyn CellGate>) {}

    fn tell_again(&self) {}

    fn drop_tombstones_before(&self, _: u64) {}

    fn drop_values_expired_before_ms(&self, _: u64) {}

    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

pub(crate) struct Local(Arc<Scripted>);

impl Local {
    fn read<T: 'static>(&self, key: &[u8], answer: impl Fn(Value) -> T + 'static) -> Lookup<T> {
        if !self.0.script().reads_later {
            return Lookup::Now(self.0.look_up(key).map(|value| value.map(answer)));
        }
        let (store, key, released) = (Arc::clone(&self.0), key.to_vec(), self.0.when_released());
        store.reads.fetch_add(1, Ordering::SeqCst);
        Lookup::Later(Box::pin(async move {
            tokio::task::yield_now().await;
            released.await;
            store.reads.fetch_sub(1, Ordering::SeqCst);
            store.look_up(&key).map(|value| value.map(answer))
        }))
    }
}

impl LocalStore for Local {
    type Apply = Later<Result<Option<Version>, StoreError>>;
    type Upload = Uploading;

    fn with_durability(&self, _: Durability) -> Local {
        Local(Arc::clone(&self.0))
    }

    fn get_cell(&self, key: &[u8]) -> Lookup {
        self.read(key, move |value| StoredCell { stamp: STAMP, value: Some(value) })
    }

    fn cells_of(&self, _: KeySpan, _: CellFormat) -> Box<dyn Pieces> {
        Ready::boxed(std::iter::empty(), None)
    }

    fn admit(&self, _: WriteKind, _: u64) -> Result<(), StoreError> {
        self.0.script().admit.map_or(Ok(()), |error| Err(self.0.refused(b"", error)))
    }

    fn apply<'c>(&self, cells: impl IntoIterator<Item = (&'c [u8], Cell<&'c [u8], Vec<u8>>)>) -> Self::Apply {
        let mut entities = self.0.entities.lock();
        for (key, cell) in cells {
            let key = key.to_vec();
            match cell.value {
                Some(model::Value::Inline(value)) => entities.insert(key, value.to_vec()),
                Some(model::Value::Large(value)) => entities.insert(key, value),
                None => entities.remove(&key),
            };
        }
        drop(entities);
        let (outcome, released) = (self.0.script().apply.map_or(Ok(()), Err), self.0.when_released());
        Box::pin(async move {
            released.await;
            outcome.map(|()| None)
        })
    }

    fn update<R: Send + 'static>(
        &self,
        key: &[u8],
        _: u64,
        decide: impl FnOnce(Option<NewestCell>) -> (Option<NewCell<Local>>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        let found = self.0.entities.lock().get(key).map(|value| Bytes::copy_from_slice(value));
        let newest = found.map(|value| Cell { stamp: STAMP, value: Some(model::Value::Inline(value)) });
        let (cell, decided) = decide(newest);
        let applied = cell.map(|cell| {
            let value = cell.value.as_ref().map(|value| match value {
                model::Value::Inline(bytes) => model::Value::Inline(&bytes[..]),
                model::Value::Large(bytes) => model::Value::Inline(&bytes[..]),
            });
            self.apply([(key, Cell { stamp: cell.stamp, value })])
        });
        Box::pin(async move {
            if let Some(applied) = applied {
                applied.await?;
            }
            Ok(decided)
        })
    }

    fn inspect<R: Send + 'static>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<NewestCell>) -> R + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        self.update(key, 0, |newest| (None, decide(newest)))
    }

    fn update_together<R: Send + 'static>(
        &self,
        keys: Vec<Bytes>,
        _: &[(usize, u64)],
        decide: impl FnOnce(Vec<Option<NewestCell>>) -> (Vec<(usize, NewCell<Local>)>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        let newest = |key: &Bytes| {
            let value = self.0.entities.lock().get(&key[..]).map(|value| Bytes::copy_from_slice(value));
            value.map(|value| Cell { stamp: STAMP, value: Some(model::Value::Inline(value)) })
        };
        let (cells, decided) = decide(keys.iter().map(newest).collect());
        let cells = cells.iter().map(|(number, cell)| {
            let value = cell.value.as_ref().map(|value| match value {
                model::Value::Inline(bytes) => model::Value::Inline(&bytes[..]),
                model::Value::Large(bytes) => model::Value::Inline(&bytes[..]),
            });
            (&keys[*number][..], Cell { stamp: cell.stamp, value })
        });
        let applied = self.apply(cells);
        Box::pin(async move {
            applied.await?;
            Ok(decided)
        })
    }

    fn restamp<R: Send + 'static>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<NewestCell>) -> (Option<Stamp>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        // All cells have one stamp.
        self.update(key, 0, |newest| (None, decide(newest).1))
    }

    fn sync(&self) -> Later<Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    fn backup(&self, step: BackupStep) -> Later<Result<BackupAnswer, Error>> {
        let is_file = matches!(step, BackupStep::Read { .. } | BackupStep::ReadLog { .. });
        let file = is_file.then(|| BackupAnswer::Bytes(Bytes::from_static(b"a file")));
        Box::pin(ready(file.ok_or(Error::NoBackups)))
    }

    fn unqueued_updates(&self) -> u64 {
        0
    }

    fn upload_bytes_min(&self) -> u64 {
        LARGE_BYTES
    }

    fn upload(&self) -> Later<Result<Uploading, StoreError>> {
        let Script { upload: fails, upload_time, .. } = self.0.script();
        Box::pin(ready(Uploading { value: Vec::new(), fails, upload_time }.unless_it_fails()))
    }

    fn range(
        &self,
        KeySpan { start, end, .. }: KeySpan,
        _: Option<u64>,
        _: u64,
        mut format: Box<dyn RecordFormat>,
    ) -> Box<dyn Pieces> {
        let entities = self.0.entities.lock();
        let is_before_end = |key: &[u8]| end.as_deref().is_none_or(|end| key < end);
        let records = entities.range(start.to_vec()..).take_while(|(key, _)| is_before_end(key));
        let Script { breaks_after, empty_pieces, .. } = self.0.script();
        let mut pieces = Vec::new();
        for (key, value) in records {
            let mut piece = Vec::new();
            format.record(&mut piece, key, STAMP, value);
            pieces.extend(std::iter::repeat_n(Bytes::new(), empty_pieces));
            pieces.push(Bytes::from(piece));
        }
        let mut end = Vec::new();
        format.end(&mut end);
        pieces.push(Bytes::from(end));
        Ready::boxed(pieces.into_iter(), breaks_after)
    }
}

pub(crate) struct Uploading {
    value: Vec<u8>,
    /// After how many more pieces, and how.
    fails: Option<(usize, StoreError)>,
    upload_time: Duration,
}

impl Uploading {
    fn unless_it_fails(self) -> Result<Uploading, StoreError> {
        match self.fails {
            Some((0, error)) => Err(error),
            _ => Ok(self),
        }
    }
}

impl Upload for Uploading {
    type Finished = Vec<u8>;

    fn write(mut self, bytes: Bytes) -> Later<Result<Uploading, StoreError>> {
        self.value.extend_from_slice(&bytes);
        self.fails = self.fails.map(|(pieces, error)| (pieces - 1, error));
        Box::pin(async move {
            tokio::time::sleep(self.upload_time).await;
            self.unless_it_fails()
        })
    }

    fn finish(self) -> Later<Result<Vec<u8>, StoreError>> {
        Box::pin(ready(Ok(self.value)))
    }
}

/// Pieces that are there already.
struct Ready(VecDeque<Result<Bytes, StoreError>>);

impl Ready {
    fn boxed(pieces: impl Iterator<Item = Bytes>, breaks_after: Option<usize>) -> Box<dyn Pieces> {
        let mut pieces: VecDeque<_> = pieces.map(Ok).collect();
        if let Some(count) = breaks_after {
            pieces.truncate(count);
            pieces.push_back(Err(StoreError::Unreadable { reason: "block 7 is corrupt".to_owned() }));
        }
        Box::new(Ready(pieces))
    }
}

impl Pieces for Ready {
    fn next(mut self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let next = self.0.pop_front().transpose();
        Box::pin(async move {
            if let Ok(Some(bytes)) = &next
                && bytes.is_empty()
            {
                tokio::time::sleep(EMPTY_PIECE_TIME).await;
            }
            next.map(|piece| piece.map(|bytes| (bytes, self as Box<dyn Pieces>)))
        })
    }
}
