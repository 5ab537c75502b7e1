use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_model::{Stamp, Version};
use ladoga_storage::{Durability, Engine, Options, WriteBatch};

use super::{Store, Sync};
use crate::stop::{OrFail, Outcome};

struct Ladoga {
    engine: Engine,
    timestamp: AtomicU64,
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
    Ok(Box::new(Ladoga { engine, timestamp }))
}

impl Store for Ladoga {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome {
        let version = Version { timestamp: self.timestamp.fetch_add(1, Ordering::Relaxed), node: 0 };
        let mut batch = WriteBatch::new();
        batch.put(key, Stamp::new(version), value);
        self.engine.write(batch).map(drop).or_fail(|| "ladoga cannot write".to_owned())
    }

    fn get(&self, key: &[u8]) -> Outcome<Option<usize>> {
        let value = self.engine.get(key).or_fail(|| "ladoga cannot read".to_owned())?;
        Ok(value.map(|value| value.len() as usize))
    }

    fn close(self: Box<Self>) -> Outcome {
        self.engine.close().or_fail(|| "cannot close ladoga".to_owned())
    }
}
