use std::path::Path;
use std::sync::Arc;

use ladoga_env::Env;
use ladoga_env::sim::{self, SimDisk};
use ladoga_model::{Stamp, Version};
use ladoga_storage::{Background, Compression, Durability, Engine, Error, Options, WriteBatch};

/// Files as the engine writes them.
#[derive(Debug, Default)]
pub struct Seeds {
    /// Segments of the log.
    pub logs: Vec<Vec<u8>>,
    /// Manifests.
    pub manifests: Vec<Vec<u8>>,
    /// Tables, of each compression.
    pub tables: Vec<Vec<u8>>,
}

/// Lets an engine write some files on a simulated disk; the same ones each time.
pub fn seeds() -> Result<Seeds, Error> {
    let mut seeds = Seeds::default();
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let (env, disk, _) = sim::env(1);
        let env = Env { disk: Arc::new(disk.clone()), ..env };
        write_files(env, compression)?;
        seeds.take(&disk);
    }
    Ok(seeds)
}

fn write_files(env: Env, compression: Compression) -> Result<(), Error> {
    let options = Options {
        background: Background::Manual,
        compression: [compression; ladoga_storage::LEVELS],
        memtable_bytes: Some(16 << 10),
        table_bytes: Some(8 << 10),
        level_1_bytes: Some(16 << 10),
        ..Options::new(16 << 20, Durability::Always)
    };
    let engine = Engine::open(env, Path::new("/data"), options)?;
    for n in 0..300_u64 {
        let stamp = |expires_at_ms| Stamp { version: Version { timestamp: n + 1, node: 1 }, expires_at_ms };
        let key = format!("key-{:03}", n * 7 % 90);
        let mut batch = WriteBatch::new();
        match n % 7 {
            2 => batch.delete(key.as_bytes(), stamp(0)),
            4 => {
                let mut blob = engine.create_blob()?;
                blob.write(&[n as u8; 500])?;
                batch.put_blob(key.as_bytes(), stamp(0), blob.finish()?);
            }
            5 => batch.put(key.as_bytes(), stamp(u64::MAX), b"until the end of days"),
            _ => batch.put(key.as_bytes(), stamp(0), format!("value {n} ").repeat(12).as_bytes()),
        }
        engine.write(batch)?;
        engine.step()?;
    }
    Ok(())
}

impl Seeds {
    fn take(&mut self, disk: &SimDisk) {
        for path in disk.paths() {
            let Ok(mut bytes) = disk.read_file(&path) else { continue };
            let name = path.to_string_lossy();
            // What is allocated and not written yet says nothing.
            bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
            if name.contains("/wal/") {
                self.logs.push(bytes);
            } else if name.contains("manifest") {
                self.manifests.push(bytes);
            } else if name.contains("/tables/") {
                self.tables.push(bytes);
            }
        }
    }
}
