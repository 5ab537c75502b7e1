use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use ladoga_model::{Stamp, Version};
use ladoga_storage::{Durability, Engine, Error, Options, WriteBatch};

use super::{Store, Sync};
use crate::stop::{OrFail, Outcome};

/// A write that waits for the committer, and the channel for its answer.
type Queued = (WriteBatch, SyncSender<Result<(), Error>>);

/// Writes as a node does: at once if that takes no waiting, and otherwise by a thread that commits together what came
/// during the commit before.
struct Ladoga {
    engine: Arc<Engine>,
    timestamp: AtomicU64,
    queue: Sender<Queued>,
    committer: JoinHandle<()>,
}

pub(crate) fn open(folder: &Path, sync: Sync, memory_bytes: u64) -> Outcome<Box<dyn Store>> {
    let durability = match sync {
        Sync::Never => Durability::Never,
        Sync::Always => Durability::Always,
    };
    let env = ladoga_env::real::env().or_fail(|| "the system has no randomness".to_owned())?;
    // A store that is reopened continues after what it has: timestamps are milliseconds in the upper 48 bits.
    let timestamp = AtomicU64::new(env.clock.wall_ms() << 16);
    let engine = Engine::open(env, folder, Options::new(memory_bytes, durability))
        .or_fail(|| "cannot open ladoga".to_owned())?;
    let engine = Arc::new(engine);
    let (queue, queued) = channel();
    let of_committer = Arc::clone(&engine);
    let committer = std::thread::spawn(move || commit(&of_committer, &queued));
    Ok(Box::new(Ladoga { engine, timestamp, queue, committer }))
}

fn commit(engine: &Engine, queued: &Receiver<Queued>) {
    let bytes_max = engine.group_bytes_max();
    let mut next = queued.recv().ok();
    while let Some(first) = next.take() {
        let mut bytes = first.0.encoded_bytes();
        let mut group = vec![first];
        for (batch, told) in queued.try_iter() {
            bytes += batch.encoded_bytes();
            if bytes > bytes_max {
                next = Some((batch, told));
                break;
            }
            group.push((batch, told));
        }
        let (batches, told): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let written = engine.write_group(&batches);
        for told in told {
            // If the receiver is gone, its thread has failed by itself.
            let _ = told.send(written.clone());
        }
        next = next.or_else(|| queued.recv().ok());
    }
}

impl Store for Ladoga {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome {
        let version = Version { timestamp: self.timestamp.fetch_add(1, Ordering::Relaxed), node: 0 };
        let mut batch = WriteBatch::new();
        batch.put(key, Stamp::new(version), value);
        let failed = || "ladoga cannot write".to_owned();
        if self.engine.try_write_group(std::slice::from_ref(&batch)).or_fail(failed)? {
            return Ok(());
        }
        let (told, answer) = sync_channel(1);
        self.queue.send((batch, told)).or_fail(failed)?;
        answer.recv().or_fail(failed)?.or_fail(failed)
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<usize>> {
        let value = self.engine.get(key).or_fail(|| "ladoga cannot read".to_owned())?;
        Ok(value.map(|value| value.inline_bytes() as usize))
    }

    fn close(self: Box<Self>) -> Outcome {
        let Ladoga { engine, queue, committer, .. } = *self;
        drop(queue);
        committer.join().ok().or_fail(|| "the committer of ladoga panicked".to_owned())?;
        engine.close().or_fail(|| "cannot close ladoga".to_owned())
    }
}
