use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{Hint, HintQueue, HintStep, NodeId};
use ladoga_env::{Clock, Env, Turn, Worker, WorkerHandle};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::directories::name_of;
use super::log::{FoundHint, HintLog};
use crate::membership::PeerView;
use crate::stability::Stability;
use crate::wire::{Record, take_record};
use ladoga_runtime::Supervisor;

/// Commands that may wait for the worker.
const COMMANDS_MAX: usize = 8_192;
/// Bytes of hints that may wait for it.
const COMMAND_BYTES_MAX: u64 = 16 << 20;
/// The bytes that a hint counts beside its own, so that the memory for it is bounded too.
const HINT_OVERHEAD_BYTES: u64 = 512;
/// How often hints that are too old are looked for.
const EXPIRE_MS: u64 = 1_000;

/// A hint on its way.
pub(crate) struct Delivery {
    pub(crate) peer: NodeId,
    pub(crate) number: u64,
    pub(crate) record: Record,
    /// Dropped once it is sent.
    pub(crate) waits: Waits,
}

/// Each hint that waits to be sent holds one, and so does its peer's state.
pub(super) type Waits = Arc<()>;

enum Command {
    Keep {
        peer: NodeId,
        timestamp: u64,
        record: Vec<u8>,
    },
    Up(NodeId),
    /// There are outcomes of deliveries to look at.
    Delivered,
}

/// What became of hints on their way. Not among the commands, of which one may be lost: a hint whose outcome is lost would
/// hold up all behind it. Bounded by how many are on their way.
type DeliveryResults = Arc<Mutex<Vec<(NodeId, Delivered)>>>;

enum Delivered {
    Yes(u64),
    /// It cannot be, for now, whatever the peer does.
    PutOff(u64),
    /// The peer did not take it.
    No,
}

/// The hints of a node: a worker that owns them, and handles by which others reach it without waiting.
pub(crate) struct HintKeeper {
    commands: SyncSender<Command>,
    queued_bytes: Arc<AtomicU64>,
    delivered: DeliveryResults,
    views: Vec<Arc<PeerView>>,
    deliveries: Mutex<Option<mpsc::UnboundedReceiver<Delivery>>>,
    closes: Arc<AtomicBool>,
    worker: OnceLock<Arc<dyn WorkerHandle>>,
}

impl HintKeeper {
    /// Opens the logs below `dir`, and begins.
    pub(crate) fn start(
        env: &Env,
        dir: &Path,
        views: &[Arc<PeerView>],
        stability: &Arc<Stability>,
        supervisor: &Supervisor,
    ) -> io::Result<HintKeeper> {
        let (keeper, worker) = HintKeeper::open(env, dir, views, stability)?;
        let worker = supervisor.start(&*env.workers, "hints", worker)?;
        keeper.worker.get_or_init(|| worker);
        Ok(keeper)
    }

    fn open(
        env: &Env,
        dir: &Path,
        views: &[Arc<PeerView>],
        stability: &Arc<Stability>,
    ) -> io::Result<(HintKeeper, HintWorker)> {
        let (commands, received) = sync_channel(COMMANDS_MAX);
        // Bounded by what the queues have on its way.
        let (deliver, deliveries) = mpsc::unbounded_channel();
        let queued_bytes = Arc::<AtomicU64>::default();
        let mut peers = Vec::with_capacity(views.len());
        for view in views {
            let peer = Peer::open(env, dir, view)?;
            // From now on: the write floor does not pass a hint that waits.
            peer.note();
            peers.push(peer);
        }
        let worker = HintWorker {
            clock: Arc::clone(&env.clock),
            stability: Arc::clone(stability),
            received,
            deliver,
            queued_bytes: Arc::clone(&queued_bytes),
            delivered: Arc::default(),
            closes: Arc::default(),
            peers,
        };
        let keeper = HintKeeper {
            commands,
            queued_bytes,
            delivered: Arc::clone(&worker.delivered),
            views: views.to_vec(),
            deliveries: Mutex::new(Some(deliveries)),
            closes: Arc::clone(&worker.closes),
            worker: OnceLock::new(),
        };
        Ok((keeper, worker))
    }

    /// Keeps a record for a peer once the worker gets to it; counts it as dropped if there is no room.
    pub(crate) fn keep(&self, peer: NodeId, timestamp: u64, record: Vec<u8>) {
        let bytes = record.len() as u64;
        let queued = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = queued + bytes <= COMMAND_BYTES_MAX;
        if !has_room || self.commands.try_send(Command::Keep { peer, timestamp, record }).is_err() {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.views[peer.index()].hints_dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.wake();
    }

    fn wake(&self) {
        if let Some(worker) = self.worker.get() {
            worker.wake();
        }
    }

    /// Tries to deliver to a peer, unless hints still wait to be sent to it: to read them again would have them wait in
    /// memory beside themselves.
    pub(crate) fn try_peer(&self, peer: NodeId) {
        self.tell(Command::Up(peer));
    }

    /// A hint arrived.
    pub(crate) fn delivered(&self, peer: NodeId, number: u64) {
        self.note_outcome(peer, Delivered::Yes(number));
    }

    /// A hint cannot be delivered for now, and is not to hold up others.
    pub(crate) fn put_off(&self, peer: NodeId, number: u64) {
        self.note_outcome(peer, Delivered::PutOff(number));
    }

    /// A hint did not arrive: the peer is tried again later.
    pub(crate) fn mark_down(&self, peer: NodeId) {
        self.note_outcome(peer, Delivered::No);
    }

    fn note_outcome(&self, peer: NodeId, delivered: Delivered) {
        self.delivered.lock().push((peer, delivered));
        self.tell(Command::Delivered);
    }

    fn tell(&self, command: Command) {
        // If the worker is behind, it will look at all outcomes when it gets there, and the next attempt to deliver finds the
        // same hints.
        let _ = self.commands.try_send(command);
        self.wake();
    }

    /// Where hints come out; for one taker.
    pub(crate) fn take_deliveries(&self) -> Option<mpsc::UnboundedReceiver<Delivery>> {
        self.deliveries.lock().take()
    }

    /// Keeps what was queued, and ends.
    pub(crate) fn close(&self) {
        self.closes.store(true, Ordering::Release);
        self.wake();
        if let Some(worker) = self.worker.get() {
            // If it panicked, the supervisor has reported it.
            worker.join();
        }
    }
}

impl Drop for HintKeeper {
    fn drop(&mut self) {
        self.close();
    }
}

struct Peer {
    view: Arc<PeerView>,
    queue: HintQueue,
    log: HintLog,
    waits: Waits,
    /// Whether the last hint could not be written.
    has_failed: bool,
}

impl Peer {
    fn open(env: &Env, dir: &Path, view: &Arc<PeerView>) -> io::Result<Peer> {
        let mut queue = HintQueue::new();
        // The clock that hints are dated by is the wall clock: what does not jump does not survive a restart.
        let log = HintLog::open(&env.disk, &dir.join(name_of(view.name_hash)), |found| {
            let FoundHint { number, kept_at_ms, mut record } = found;
            let bytes = record.len() as u64 + HINT_OVERHEAD_BYTES;
            let timestamp = timestamp_of(&mut record);
            queue.recovered(Hint { number, bytes, timestamp, kept_at_ms });
        })?;
        Ok(Peer { view: Arc::clone(view), queue, log, waits: Waits::default(), has_failed: false })
    }

    /// Writes a hint, not durably yet. Answers its number if that succeeded; a change of that is logged, not each hint.
    fn append(&mut self, now_ms: u64, record: &[u8]) -> Option<u64> {
        let appended = self.log.append(now_ms, record);
        let had_failed = std::mem::replace(&mut self.has_failed, appended.is_err());
        match &appended {
            Err(error) if !had_failed => {
                tracing::warn!("cannot store hints for {}: {error}", self.view.url);
            }
            Ok(_) if had_failed => tracing::warn!("storing hints for {} works again", self.view.url),
            _ => {}
        }
        appended.ok()
    }

    /// Whether hints were read that wait to be sent.
    fn has_unsent(&self) -> bool {
        Arc::strong_count(&self.waits) > 1
    }

    fn note(&self) {
        let view = &self.view;
        view.hints_waiting.store(self.queue.len() as u64, Ordering::Relaxed);
        view.hints_bytes.store(self.queue.bytes(), Ordering::Relaxed);
        view.hints_oldest.store(self.queue.oldest_timestamp().unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

fn timestamp_of(record: &mut Bytes) -> u64 {
    match take_record(record) {
        Ok(Some(record)) => record.cell.stamp.version.timestamp,
        // It cannot be delivered either, and goes as if it had been.
        _ => 0,
    }
}

struct HintWorker {
    clock: Arc<dyn Clock>,
    stability: Arc<Stability>,
    received: Receiver<Command>,
    deliver: mpsc::UnboundedSender<Delivery>,
    queued_bytes: Arc<AtomicU64>,
    delivered: DeliveryResults,
    /// Whether it ends once it has kept what was queued.
    closes: Arc<AtomicBool>,
    peers: Vec<Peer>,
}

impl Worker for HintWorker {
    fn turn(&mut self) -> Turn {
        let closes = self.closes.load(Ordering::Acquire);
        let mut kept = Vec::new();
        while let Ok(command) = self.received.try_recv() {
            self.obey(command, &mut kept);
        }
        self.commit(kept);
        self.look_at_outcomes();
        self.expire();
        self.peers.iter().for_each(Peer::note);
        if closes { Turn::Over } else { Turn::WaitFor(Duration::from_millis(EXPIRE_MS)) }
    }
}

impl HintWorker {
    fn obey(&mut self, command: Command, kept: &mut Vec<(NodeId, Hint)>) {
        match command {
            Command::Keep { peer, timestamp, record } => {
                self.queued_bytes.fetch_sub(record.len() as u64, Ordering::Relaxed);
                let bytes = record.len() as u64 + HINT_OVERHEAD_BYTES;
                let kept_at_ms = self.clock.wall_ms();
                let of_peer = &mut self.peers[peer.index()];
                let has_room = of_peer.queue.admit(bytes);
                match has_room.then(|| of_peer.append(kept_at_ms, &record)).flatten() {
                    Some(number) => kept.push((peer, Hint { number, bytes, timestamp, kept_at_ms })),
                    None => drop(of_peer.view.hints_dropped.fetch_add(1, Ordering::Relaxed)),
                }
            }
            Command::Up(peer) if self.peers[peer.index()].has_unsent() => {}
            Command::Up(peer) => {
                let now_ms = self.clock.monotonic_ns() / 1_000_000;
                self.step(peer, |queue, step| queue.peer_is_up(now_ms, step));
            }
            Command::Delivered => {}
        }
    }

    fn look_at_outcomes(&mut self) {
        let delivered = std::mem::take(&mut *self.delivered.lock());
        let now_ms = self.clock.monotonic_ns() / 1_000_000;
        for (peer, delivered) in delivered {
            match delivered {
                Delivered::Yes(number) => self.step(peer, |queue, step| queue.delivered(number, step)),
                Delivered::PutOff(number) => {
                    self.step(peer, |queue, step| queue.put_off(number, now_ms, step));
                }
                Delivered::No => self.peers[peer.index()].queue.peer_is_down(),
            }
        }
    }

    /// Makes hints durable; only then they count.
    fn commit(&mut self, kept: Vec<(NodeId, Hint)>) {
        for peer in &self.peers {
            if kept.iter().any(|(of, _)| *of == peer.view.id)
                && let Err(error) = peer.log.sync()
            {
                tracing::warn!(
                    "cannot sync hints for {}; they may be lost in a crash: {error}",
                    peer.view.url
                );
            }
        }
        for (peer, hint) in kept {
            self.step(peer, |queue, step| queue.kept(hint, step));
        }
    }

    fn expire(&mut self) {
        let now_ms = self.clock.wall_ms();
        for index in 0..self.peers.len() {
            self.step(NodeId(index as u16), |queue, step| queue.expire(now_ms, step));
        }
    }

    /// Lets a queue take a step, and executes its output.
    fn step(&mut self, peer: NodeId, act: impl FnOnce(&mut HintQueue, &mut dyn FnMut(HintStep))) {
        let Peer { queue, log, view, waits, .. } = &mut self.peers[peer.index()];
        let mut steps = VecDeque::new();
        act(queue, &mut |step| steps.push_back(step));
        while let Some(step) = steps.pop_front() {
            match step {
                HintStep::Deliver(number) => match read(log, number) {
                    Some(record) if !self.stability.may_deliver(record.cell.stamp.version) => {
                        queue.delivered(number, |step| steps.push_back(step));
                    }
                    Some(record) => {
                        let delivery = Delivery { peer, number, record, waits: Arc::clone(waits) };
                        // If deliveries are no longer received, the node is about to stop.
                        let _ = self.deliver.send(delivery);
                    }
                    None => {
                        // Left to anti-entropy.
                        view.hints_dropped.fetch_add(1, Ordering::Relaxed);
                        queue.delivered(number, |step| steps.push_back(step));
                    }
                },
                HintStep::Forget(number) => {
                    if let Err(error) = log.forget(number) {
                        tracing::warn!("cannot remove delivered hints for {}: {error}", view.url);
                    }
                }
            }
        }
    }
}

fn read(log: &HintLog, number: u64) -> Option<Record> {
    match log.read(number) {
        Ok(Some(mut bytes)) => take_record(&mut bytes).ok().flatten(),
        Ok(None) => None,
        Err(error) => {
            tracing::warn!("cannot read a hint: {error}");
            None
        }
    }
}

#[cfg(test)]
#[path = "keeper_tests.rs"]
mod tests;
