use std::cell::Cell as Counter;
use std::future::ready;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::{Cell, Stamp};
use ladoga_storage::{
    BLOB_BYTES_MIN, Cached, Durability, Engine, FinishedBlob, PendingRead, ReadTier, Side, WriteBatch,
    WriteState,
};

use super::cells::CellReader;
use super::checkpoints::Checkpoints;
use super::commit::{Applied, CommitShared, CommitTrigger, Inbox, InlineCommitter, Update, Waiters};
use super::follow::{EmbeddedFollower, Following, Reached};
use super::pieces::RangePieces;
use super::pool::DiskHandle;
use super::pool_reads::PoolReads;
use super::queued::{Queued, Unqueued};
use super::range::RecordReader;
use super::read::large_value;
use super::reads::Reads;
use super::restamp::Restamp;
use super::updates::{self, Answer};
use super::upload::EmbeddedUpload;
use super::upload::upload_error;
use super::{Embedded, poison_reason, read_error, write_error};
use crate::store::{
    BackupAnswer, BackupStep, CellFormat, ChangeFormat, Error, Followed, Follower, KeySpan, Later,
    LocalStore, Lookup, NewCell, NewestCell, Pieces, RecordFormat, StoreError, WriteKind,
};
use ladoga_runtime::Supervisor;

/// The embedded engine, as one event loop reaches it.
#[derive(Clone)]
pub struct Local {
    pub(super) engine: Arc<Engine>,
    queue: Arc<CommitShared>,
    queued: Queued,
    disk: DiskHandle,
    /// Where this loop has a ring to read blocks by.
    pub(super) reads: Option<Rc<Reads>>,
    /// What threads read for it: all, where it has no ring.
    pool_reads: Rc<PoolReads>,
    /// Updates that wait for the disk before they are queued.
    unqueued: Rc<Counter<u64>>,
    /// By what its changes are followed.
    following: Following,
    /// Copies for backups.
    checkpoints: Arc<Checkpoints>,
}

impl Local {
    pub(super) fn new(store: &Embedded, supervisor: &Supervisor) -> Local {
        let inbox = Arc::<Inbox>::default();
        let write_queue = store.queue.add_write_queue(Arc::clone(&inbox));
        let waiters = Rc::<Waiters>::default();
        let (receiving_queue, receiving_waiters) = (Arc::clone(&write_queue), Rc::clone(&waiters));
        supervisor.spawn_local(
            "inbox",
            Arc::clone(&inbox).read(move |result| receiving_waiters.receive(&receiving_queue, result)),
        );
        let commit_trigger = Rc::<CommitTrigger>::default();
        let queue = store.queue.shared();
        let inline = InlineCommitter::new(
            Arc::clone(&store.clock),
            Arc::clone(&queue),
            Arc::clone(&write_queue),
            Rc::clone(&waiters),
        );
        supervisor.spawn_local("commit", inline.run(Rc::clone(&commit_trigger)));
        let disk = DiskHandle { pool: Arc::clone(&store.pool), inbox };
        let following = Following::start(store, supervisor);
        let pool_reads = PoolReads::start(disk.clone(), supervisor);
        Local {
            following,
            checkpoints: Arc::clone(&store.checkpoints),
            reads: store.start_reads(&pool_reads, supervisor),
            pool_reads,
            engine: Arc::clone(&store.engine),
            queued: Queued { write_queue, waiters, commit_trigger, durability: queue.durability(None) },
            queue,
            disk,
            unqueued: Rc::default(),
        }
    }

    /// How far a read goes on the event loop before it is left to the ring or the pool.
    pub(super) fn tier(&self) -> ReadTier {
        // A ring finds what the page cache has as it is sent off, for all reads of a turn with one system call.
        if self.reads.is_some() { ReadTier::Memory } else { ReadTier::PageCache }
    }

    /// The answer to a read that memory cannot answer, converted by `answer`.
    pub(super) fn later<T: 'static>(
        &self,
        read: Box<PendingRead>,
        answer: impl FnOnce(ladoga_storage::Cell, &DiskHandle) -> Option<T> + 'static,
    ) -> Lookup<T> {
        let disk = self.disk.clone();
        let found = match &self.reads {
            Some(ring) => ring.go_on(read),
            None => self.pool_reads.go_on(read),
        };
        Lookup::Later(Box::pin(async move { Ok(found.take().await?.and_then(|cell| answer(cell, &disk))) }))
    }

    /// Queues an update of one key and waits for its answer.
    fn commit_update<R: Send + 'static>(
        &self,
        key: &[u8],
        update: Update,
        answer: Answer<R>,
    ) -> Later<Result<R, StoreError>> {
        match self.engine.get_cell_cached(key, self.tier()) {
            // Its block is in the cache before it is queued, so that the group does not wait for the disk.
            Ok(Cached::NeedsDisk(read)) => {
                let (found, queued) = (self.later(read, |_, _| Some(())), self.queued.clone());
                let unqueued = Unqueued::begin(&self.unqueued);
                Box::pin(async move {
                    found.wait().await?;
                    let written = queued.push_update(update);
                    drop(unqueued);
                    written.await?;
                    Ok(answer.take())
                })
            }
            Ok(Cached::Found(_) | Cached::Absent) => {
                let written = self.queued.push_update(update);
                Box::pin(async move {
                    written.await?;
                    Ok(answer.take())
                })
            }
            Err(error) => Box::pin(ready(Err(read_error(&error)))),
        }
    }
}

impl LocalStore for Local {
    type Apply = Applied;
    type Upload = EmbeddedUpload;

    fn with_durability(&self, durability: Durability) -> Local {
        let mut local = self.clone();
        local.queued.durability = self.queue.durability(Some(durability));
        local
    }

    fn fetch_ahead(&self, keys: &[&[u8]]) {
        self.engine.fetch_ahead(keys);
    }

    fn get_cell(&self, key: &[u8]) -> Lookup {
        self.queued.commit_trigger.note_read();
        match self.engine.get_cell_cached(key, self.tier()) {
            Ok(Cached::Found(cell)) => {
                Lookup::Now(Ok(Some(cell.map_large(|blob| large_value(blob, &self.disk)))))
            }
            Ok(Cached::Absent) => Lookup::Now(Ok(None)),
            Ok(Cached::NeedsDisk(read)) => {
                self.later(read, |cell, disk| Some(cell.map_large(|blob| large_value(blob, disk))))
            }
            Err(error) => Lookup::Now(Err(read_error(&error))),
        }
    }

    fn admit(&self, kind: WriteKind, value_bytes: u64) -> Result<(), StoreError> {
        match (self.engine.write_state(), kind) {
            // Rather than once most of it was taken.
            (WriteState::Open, WriteKind::Put)
                if value_bytes >= BLOB_BYTES_MIN && !self.engine.has_room_for(value_bytes) =>
            {
                self.engine.count_refused_full();
                Err(StoreError::NoRoom {
                    reason: format!("the disk has no room for a value of {value_bytes} bytes"),
                })
            }
            (WriteState::Open, _) | (WriteState::DiskFull, WriteKind::Delete) => self.queue.admit(),
            (WriteState::DiskFull, WriteKind::Put) => {
                self.engine.count_refused_full();
                Err(StoreError::NoRoom { reason: "the disk is full".to_owned() })
            }
            (WriteState::Poisoned, _) => Err(StoreError::Failed { reason: poison_reason(&self.engine) }),
        }
    }

    fn has_room(&self) -> bool {
        self.engine.write_state() == WriteState::Open && self.queue.has_room()
    }

    fn apply<'c>(
        &self,
        cells: impl IntoIterator<Item = (&'c [u8], Cell<&'c [u8], FinishedBlob>)>,
    ) -> Applied {
        let mut cells = cells.into_iter().peekable();
        // Several cells succeed or fail together, so they need the room that puts need, which a full disk does not give.
        let is_one = cells.size_hint() == (1, Some(1));
        let kind = match cells.peek() {
            Some((_, Cell { value: None, .. })) if is_one => WriteKind::Delete,
            _ => WriteKind::Put,
        };
        self.queued.push(kind, cells)
    }

    fn update<R: Send + 'static>(
        &self,
        key: &[u8],
        value_bytes_max: u64,
        decide: impl FnOnce(Option<NewestCell>) -> (Option<NewCell<Local>>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        let (update, answer) = updates::of_one(key, value_bytes_max, decide);
        self.commit_update(key, update, answer)
    }

    fn inspect<R: Send + 'static>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<NewestCell>) -> R + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        let (update, answer) = updates::of_nothing(key, decide);
        self.commit_update(key, update, answer)
    }

    fn update_together<R: Send + 'static>(
        &self,
        keys: Vec<Bytes>,
        room: &[(usize, u64)],
        decide: impl FnOnce(Vec<Option<NewestCell>>) -> (Vec<(usize, NewCell<Local>)>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        let cell_bytes =
            |&(key, value): &(usize, u64)| WriteBatch::cell_bytes_max(keys[key].len(), value as usize);
        let bytes: usize = room.iter().map(cell_bytes).sum();
        if let Some((bytes, bytes_max)) = self.engine.excess(room.len(), bytes) {
            let (bytes, bytes_max) = (bytes as u64, bytes_max as u64);
            return Box::pin(ready(Err(StoreError::TooLargeTogether { bytes, bytes_max })));
        }
        // Read before they are queued, as for an update of one key.
        let on_disk = match self.first_on_disk_and_behind(&keys) {
            Ok(keys) => keys.to_vec(),
            Err(error) => return Box::pin(ready(Err(error))),
        };
        let (update, answer) = updates::of_several(keys, (room.len(), bytes), decide);
        let unqueued = (!on_disk.is_empty()).then(|| Unqueued::begin(&self.unqueued));
        let at_once = if on_disk.is_empty() {
            Ok(self.queued.push_update(update))
        } else {
            Err((self.clone(), update))
        };
        Box::pin(async move {
            let written = match at_once {
                Ok(written) => written,
                Err((local, update)) => {
                    local.read_ahead(&on_disk).await?;
                    local.queued.push_update(update)
                }
            };
            drop(unqueued);
            written.await?;
            Ok(answer.take())
        })
    }

    fn restamp<R: Send + 'static>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<NewestCell>) -> (Option<Stamp>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>> {
        let (key, queued) = (Bytes::copy_from_slice(key), self.queued.clone());
        let restamp = Arc::new(Restamp::new(decide));
        let first = match self.engine.get_cell_cached(&key, self.tier()) {
            Ok(Cached::Found(cell)) => Ok(restamp.queue(&queued, &key, cell.inline_bytes())),
            Ok(Cached::Absent) => Ok(restamp.queue(&queued, &key, 0)),
            // Read before it is queued, as for an update.
            Ok(Cached::NeedsDisk(read)) => Err(self.later(read, |cell, _| Some(cell.inline_bytes()))),
            Err(error) => return Box::pin(ready(Err(read_error(&error)))),
        };
        Box::pin(async move {
            let written = match first {
                Ok(written) => written,
                Err(found) => restamp.queue(&queued, &key, found.wait().await?.unwrap_or(0)),
            };
            written.await?;
            if let Some(answer) = restamp.take_answer() {
                return Ok(answer);
            }
            // Somebody has put a longer value there meanwhile. None is longer than this.
            restamp.queue(&queued, &key, BLOB_BYTES_MIN).await?;
            Ok(restamp.take_answer().expect("what is written was decided"))
        })
    }

    fn unqueued_updates(&self) -> u64 {
        self.unqueued.get()
    }

    fn upload_bytes_min(&self) -> u64 {
        BLOB_BYTES_MIN
    }

    fn upload(&self) -> Later<Result<EmbeddedUpload, StoreError>> {
        let (engine, disk) = (Arc::clone(&self.engine), self.disk.clone());
        let writer = self.disk.submit(move || engine.create_blob().map_err(|error| upload_error(&error)));
        Box::pin(async move { Ok(EmbeddedUpload::new(writer.await?, disk)) })
    }

    fn range(
        &self,
        span: KeySpan,
        limit: Option<u64>,
        now_ms: u64,
        format: Box<dyn RecordFormat>,
    ) -> Box<dyn Pieces> {
        self.queued.commit_trigger.note_read();
        let reader = RecordReader::new(format, side(&span), limit);
        Box::new(RangePieces::new(reader, &self.engine, span, now_ms, &self.disk))
    }

    fn follow(
        &self,
        followed: Followed,
        format: Box<dyn ChangeFormat>,
    ) -> Later<Result<Box<dyn Follower>, Error>> {
        let Following { feed, hub, begin } = &self.following;
        let reached = Reached {
            feed: Arc::clone(feed),
            hub: Rc::clone(hub),
            engine: Arc::clone(&self.engine),
            disk: self.disk.clone(),
            begin: Arc::clone(begin),
        };
        EmbeddedFollower::begin(reached, followed, format)
    }

    fn backup(&self, step: BackupStep) -> Later<Result<BackupAnswer, Error>> {
        let checkpoints = Arc::clone(&self.checkpoints);
        let done = self.disk.submit(move || Ok(checkpoints.step(step)));
        Box::pin(async move { done.await? })
    }

    fn keep_deletions(&self) -> Later<Result<(), StoreError>> {
        let feed = Arc::clone(&self.following.feed);
        self.disk.submit(move || {
            feed.keep_from_now().map_err(|error| StoreError::Failed { reason: error.to_string() })
        })
    }

    fn sync(&self) -> Later<Result<(), StoreError>> {
        let engine = Arc::clone(&self.engine);
        self.disk.submit(move || engine.sync().map_err(|error| write_error(&error)))
    }

    fn is_followed(&self) -> bool {
        self.following.feed.is_followed()
    }

    fn cells_of(&self, span: KeySpan, format: CellFormat) -> Box<dyn Pieces> {
        // All cells, whatever time it is.
        Box::new(RangePieces::new(
            CellReader { format, side: side(&span) },
            &self.engine,
            span,
            0,
            &self.disk,
        ))
    }
}

const fn side(span: &KeySpan) -> Side {
    if span.is_reverse { Side::Back } else { Side::Front }
}
